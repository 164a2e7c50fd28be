"""The `sandbox` command: its verbs and their output."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from testbed import faults, status
from testbed.box import Box
from testbed.errors import SandboxError, did_you_mean
from testbed.namespaces import enter
from testbed.paths import box_folder, boxes, cache, purge
from testbed.shape import (
    ADMIN_KUBECONFIG,
    CHECKOUT,
    CONTROLLER,
    DEFAULT_NODES,
    DEFAULT_RELEASE,
    KUBE_PROGRAMS,
    RELEASES,
    USERS,
)
from testbed.startup import lifecycle

_ABOUT = """\
Real Slurm, real Kubernetes and simulated H100s, in namespaces of this machine (root needed).

  up [--nodes N] [--slurm R]    start a box (Slurm {releases}) unless it is up;
     [--pods] [--auth slurm]    with kubelets that run pods; with auth/slurm instead of munge
  down [--purge]                end it; --purge also removes everything fetched and built
  status [--json]               nodes and daemons
  exec NODE [--user U] -- CMD   run CMD on a node, or on 'controller'
  kubectl ...                   kubectl as the cluster's admin
  logs [NODE or DAEMON] [-f]    list the logs, or print the end of one
  fault NODE KIND ...           inject a fault, e.g.: fault worker-1 xid 79 --gpu 3
  heal NODE [KIND]              remove it
  kinds                         list the kinds of faults

NODE is worker-0, worker-1, ...; for faults of the whole cluster 'cluster' (or 'controller').
--name BOX after any verb selects a box other than 'default'; several can run side by side.

  scripts/sandbox up
  scripts/sandbox exec controller --user alice -- srun -N4 hostname
  scripts/sandbox exec controller --user alice -- sbatch <my.sbatch

A box sees this checkout at {checkout}, read-only. See docs/howto/sandbox.md.
"""


_VERDICT = "/run/holdfast/verdict"
_FLAPS_STAY = """\
{node}: link flaps count for a day, as on a real node. After replacing the cable, resume the node:
  scripts/sandbox exec --name {box} controller -- scontrol update nodename={node} state=resume"""


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line instead of a usage text."""

    def error(self, message: str) -> NoReturn:
        raise SandboxError(f"{message}; see: scripts/sandbox --help")


Verb = Callable[[list[str]], int]


def main(argv: Sequence[str]) -> int:
    """Exit status 0 on success; 2 on a usage or runtime error, with one line that gives the reason."""
    try:
        if not argv or argv[0] in ("-h", "--help", "help"):
            print(_ABOUT.format(releases=" or ".join(RELEASES), checkout=CHECKOUT), end="")
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
    except OSError as error:  # a disk that is full, read-only or missing
        where = error.filename or f"below {cache()} or {boxes()}"
        print(
            f"sandbox: {where}: {error.strerror or error}; HOLDFAST_CACHE and HOLDFAST_BOXES select other folders",
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
        "--nodes",
        type=int,
        metavar="N",
        help=f"number of nodes (default for a new box: {DEFAULT_NODES})",
    )
    parser.add_argument(
        "--slurm",
        metavar="RELEASE",
        help=f"{' or '.join(RELEASES)} (default for a new box: {DEFAULT_RELEASE})",
    )
    parser.add_argument(
        "--root", metavar="DIR", help="a root made elsewhere, e.g. with another Slurm"
    )
    parser.add_argument(
        "--owner-pid", type=int, metavar="PID", help="the box ends with this process"
    )
    parser.add_argument(
        "--pods", action="store_true", help="kubelets run, and no bridge: deploy it yourself"
    )
    parser.add_argument(
        "--without-holdfast",
        dest="holdfast",
        action="store_false",
        help="Slurm alone: install Holdfast yourself (docs/howto/install.md)",
    )
    parser.add_argument("--auth", metavar="TYPE", help="munge (default) or slurm: Slurm's AuthType")
    args = parser.parse_args(words)
    begin = time.monotonic()
    is_new = Box.look(args.name) is None
    box = Box.up(
        args.name,
        nodes=args.nodes,
        slurm=args.slurm,
        owner_pid=args.owner_pid,
        root=args.root,
        pods=args.pods,
        holdfast=args.holdfast,
        auth=args.auth,
    )
    took = f"up after {time.monotonic() - begin:.1f} s" if is_new else "up already"
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
    if lifecycle.down(args.name):
        print(f"box '{args.name}' is down")
    else:
        print(f"no box '{args.name}' is up{did_you_mean(args.name, others)}", file=sys.stderr)
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
    logs = status.logs(folder)
    if args.what is None:
        print("\n".join(f"{name:16} {' '.join(map(str, files))}" for name, files in logs.items()))
    elif args.what in logs:
        _become(["tail", "-n", "200", *(["-F"] if args.follow else []), *map(str, logs[args.what])])
    else:
        raise SandboxError(f"no logs of '{args.what}'{did_you_mean(args.what, logs)}")
    return 0


def _fault(words: list[str]) -> int:
    name, rest = _take_name(words)
    if len(rest) < 2:
        raise SandboxError("usage: scripts/sandbox fault NODE KIND ...; see: scripts/sandbox kinds")
    print(Box.find(name).fault(_place(rest[0]), rest[1], *rest[2:]))
    return 0


def _heal(words: list[str]) -> int:
    name, rest = _take_name(words)
    if not 1 <= len(rest) <= 2:
        raise SandboxError("usage: scripts/sandbox heal NODE [KIND]")
    box, node = Box.find(name), _place(rest[0])
    kind = rest[1] if rest[1:] else None
    done = box.heal(node, kind) or [f"{rest[0]}: nothing to heal"]
    if node != CONTROLLER and (kind == "link-flap" or _flaps_counted(box, node)):
        done.append(_FLAPS_STAY.format(node=node, box=name))
    print("\n".join(done))
    return 0


def _flaps_counted(box: Box, node: str) -> bool:
    """Whether the node's agent reports link flaps now."""
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
    """The box's name, and the other words, which another parser reads."""
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
