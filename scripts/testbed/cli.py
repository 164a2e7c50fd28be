"""The `sandbox` command: verbs and what they print."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from testbed import enter, faults, startup, status
from testbed.box import Box
from testbed.errors import SandboxError, did_you_mean
from testbed.paths import box_folder, boxes, cache, purge
from testbed.shape import (
    ADMIN_KUBECONFIG,
    CONTROLLER,
    DEFAULT_NODES,
    DEFAULT_RELEASE,
    KUBE_PROGRAMS,
    RELEASES,
    USERS,
)

_ABOUT = """\
Real Slurm, real Kubernetes and simulated H100s, in namespaces of this machine (root needed).

  up [--nodes N] [--slurm R]    bring a box up (Slurm {releases}); nothing to do when it is
  down [--purge]                end it; --purge also removes everything fetched and built
  status [--json]               nodes and daemons
  exec NODE [--user U] -- CMD   run CMD on a node, or on 'controller'
  kubectl ...                   kubectl as the cluster's admin
  logs [NODE or DAEMON] [-f]    what there is, or the end of it
  fault NODE KIND ...           break something, e.g.: fault worker-1 xid 79 --gpu 3
  heal NODE [KIND]              mend it
  kinds                         what can be broken

NODE is worker-0, worker-1, ...; for faults of the whole cluster 'cluster' (or 'controller').
--name BOX after any verb: another box than 'default', so that several run side by side.

  scripts/sandbox up
  scripts/sandbox exec controller --user alice -- srun -N4 hostname
"""


_VERDICT = "/run/holdfast/verdict"
_FLAPS_STAY = """\
{node}: links that flapped stay counted for a day, as on a real node; whoever changed the cable gives it back:
  scripts/sandbox exec --name {box} controller -- scontrol update nodename={node} state=resume"""


class _Parser(argparse.ArgumentParser):
    """One line instead of a usage text, ending in exit status 2."""

    def error(self, message: str) -> NoReturn:
        raise SandboxError(f"{message}; see: scripts/sandbox --help")


Verb = Callable[[list[str]], int]


def main(argv: Sequence[str]) -> int:
    """Exit status 0; 1: the answer is no; 2: used wrongly or cannot be done, with one line that says why."""
    try:
        if not argv or argv[0] in ("-h", "--help", "help"):
            print(_ABOUT.format(releases=" or ".join(RELEASES)), end="")
            return 0 if argv else 2
        if argv[0] not in _VERBS:
            raise SandboxError(f"unknown verb '{argv[0]}'{did_you_mean(argv[0], _VERBS)}")
        return _VERBS[argv[0]](list(argv[1:]))
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a disk that is full, read-only or not there
        where = error.filename or f"below {cache()} or {boxes()}"
        print(
            f"sandbox: {where}: {error.strerror or error}; HOLDFAST_CACHE and HOLDFAST_BOXES name other places",
            file=sys.stderr,
        )
        return 2


def _parser(verb: str) -> _Parser:
    parser = _Parser(prog=f"sandbox {verb}", allow_abbrev=False)
    parser.add_argument("--name", default="default", metavar="BOX")
    return parser


def _up(words: list[str]) -> int:
    parser = _parser("up")
    parser.add_argument(
        "--nodes", type=int, metavar="N", help=f"a new box has {DEFAULT_NODES} unless told"
    )
    parser.add_argument(
        "--slurm",
        metavar="RELEASE",
        help=f"{' or '.join(RELEASES)}; a new box has {DEFAULT_RELEASE} unless told",
    )
    parser.add_argument(
        "--root", metavar="DIR", help="a root made elsewhere, e.g. with another Slurm"
    )
    parser.add_argument(
        "--owner-pid", type=int, metavar="PID", help="the box ends with this process"
    )
    args = parser.parse_args(words)
    begin = time.monotonic()
    fresh = Box.look(args.name) is None
    box = Box.up(
        args.name, nodes=args.nodes, slurm=args.slurm, owner_pid=args.owner_pid, root=args.root
    )
    took = f"up after {time.monotonic() - begin:.1f} s" if fresh else "up already"
    print(f"box '{args.name}' is {took}: {box.shape.nodes} nodes, Slurm {box.shape.slurm}")
    return 0


def _down(words: list[str]) -> int:
    parser = _parser("down")
    parser.add_argument(
        "--purge", action="store_true", help="also remove the cache, unless another box uses it"
    )
    args = parser.parse_args(words)
    others = [box.shape.name for box in Box.all() if box.shape.name != args.name]
    if args.purge and others:
        raise SandboxError(f"--purge: box '{others[0]}' is up and uses the cache; end it first")
    if startup.down(args.name):
        print(f"box '{args.name}' is down")
    else:
        print(f"no box '{args.name}' was up{did_you_mean(args.name, others)}", file=sys.stderr)
    if args.purge:
        purge(cache())
        print(f"removed {cache()}")
    return 0


def _status(words: list[str]) -> int:
    parser = _parser("status")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    facts = status.read(Box.find(args.name))
    print(status.as_json(facts) if args.json else status.as_text(facts))
    return 0


def _exec(words: list[str]) -> NoReturn:
    words, command = _split(words)
    parser = _parser("exec")
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--user", default="root")
    args = parser.parse_args(words)
    if args.user not in ("root", *USERS):
        raise SandboxError(
            f"no user '{args.user}' in a box{did_you_mean(args.user, ('root', *USERS))}"
        )
    box = Box.find(args.name)
    on_controller = args.node == CONTROLLER
    pid = box.pid if on_controller else box.node(args.node).namespaces_pid
    env = {"TERM": os.environ.get("TERM", "dumb")}
    cwd = "/mnt/training" if on_controller else "/"
    _become(enter.argv_in(pid, command or ["bash"], user=args.user, cwd=cwd, env=env))


def _kubectl(words: list[str]) -> NoReturn:
    name, rest = _take_name(words)
    box = Box.find(name)
    argv = [str(KUBE_PROGRAMS / "kubectl"), *rest]
    env = {"KUBECONFIG": str(ADMIN_KUBECONFIG), "TERM": os.environ.get("TERM", "dumb")}
    _become(enter.argv_in(box.pid, argv, user="root", cwd="/", env=env))


def _logs(words: list[str]) -> int:
    parser = _parser("logs")
    parser.add_argument("what", nargs="?", metavar="NODE or DAEMON")
    parser.add_argument("-f", "--follow", action="store_true")
    args = parser.parse_args(words)
    folder = box_folder(args.name)
    if not (folder / "shape.json").exists():
        Box.find(args.name)
    found = status.logs(folder)
    if args.what is None:
        print("\n".join(f"{name:16} {' '.join(map(str, files))}" for name, files in found.items()))
    elif args.what in found:
        _become(
            ["tail", "-n", "200", *(["-F"] if args.follow else []), *map(str, found[args.what])]
        )
    else:
        raise SandboxError(f"no logs of '{args.what}'{did_you_mean(args.what, found)}")
    return 0


def _fault(words: list[str]) -> int:
    name, rest = _take_name(words)
    if len(rest) < 2:
        raise SandboxError(
            "say what to break where: scripts/sandbox fault NODE KIND ...; see: scripts/sandbox kinds"
        )
    print(Box.find(name).fault(_place(rest[0]), rest[1], *rest[2:]))
    return 0


def _heal(words: list[str]) -> int:
    name, rest = _take_name(words)
    if not 1 <= len(rest) <= 2:
        raise SandboxError("say what to mend: scripts/sandbox heal NODE [KIND]")
    box, node = Box.find(name), _place(rest[0])
    kind = rest[1] if rest[1:] else None
    done = box.heal(node, kind) or [f"{rest[0]}: nothing to heal"]
    if node != CONTROLLER and (kind == "link-flap" or _flaps_counted(box, node)):
        done.append(_FLAPS_STAY.format(node=node, box=name))
    print("\n".join(done))
    return 0


def _flaps_counted(box: Box, node: str) -> bool:
    """Whether the node's own agent says so now."""
    try:
        return '"IB_FLAP"' in box.node(node).path(_VERDICT).read_text(errors="replace")
    except (SandboxError, OSError):
        return False


def _place(word: str) -> str:
    """Faults of the whole cluster are faults of its controller."""
    return CONTROLLER if word == "cluster" else word


def _kinds(words: list[str]) -> int:
    _parser("kinds").parse_args(words)
    for kind in faults.KINDS.values():
        print(f"{kind.usage:44} {kind.meaning}")
    return 0


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Words before and after `--`."""
    if "--" not in words:
        return words, []
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def _take_name(words: list[str]) -> tuple[str, list[str]]:
    """The box's name, and the words without it: the rest belongs to somebody else's grammar."""
    own, rest = _split(words)
    cut = len(words) - len(rest) if rest else len(words)
    for index, word in enumerate(own):
        if word.startswith("--name="):
            return word.removeprefix("--name="), [
                *own[:index],
                *own[index + 1 :],
                *words[len(own) :],
            ]
        if word == "--name" and index + 1 < len(own):
            return own[index + 1], [*own[:index], *own[index + 2 :], *words[len(own) : cut], *rest]
    return "default", words


def _become(argv: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise SandboxError(f"{argv[0]}: {error.strerror}") from None


_VERBS: dict[str, Verb] = {
    "up": _up,
    "down": _down,
    "status": _status,
    "exec": _exec,
    "kubectl": _kubectl,
    "logs": _logs,
    "fault": _fault,
    "heal": _heal,
    "kinds": _kinds,
}
