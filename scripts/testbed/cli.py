"""The `sandbox` command."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

from testbed import birth, enter
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.paths import cache
from testbed.shape import CONTROLLER, RELEASES

def main(argv: Sequence[str]) -> int:
    """Exit status 0; 1: the answer is no; 2: used wrongly or cannot be done, with one line that says why."""
    words, trailing = list(argv), []
    if "--" in words:
        cut = words.index("--")
        words, trailing = words[:cut], words[cut + 1 :]
    try:
        args = _parser().parse_args(words)
        verb: Callable[[argparse.Namespace, list[str]], int] = args.verb
        return verb(args, trailing)
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sandbox")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = verbs.add_parser("up")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--slurm", default="24.11")
    up.add_argument("--root")
    up.add_argument("--owner-pid", type=int)
    up.set_defaults(verb=_up)
    down = verbs.add_parser("down")
    down.set_defaults(verb=_down)
    ex = verbs.add_parser("exec")
    ex.add_argument("node")
    ex.add_argument("--user", default="root")
    ex.set_defaults(verb=_exec)
    for each in (up, down, ex):
        each.add_argument("--name", default="default")
    return parser


def _up(args: argparse.Namespace, _: list[str]) -> int:
    start = time.monotonic()
    Box.up(args.name, nodes=args.nodes, slurm=args.slurm, owner_pid=args.owner_pid, root=args.root)
    print(f"box '{args.name}' is up ({time.monotonic() - start:.1f} s)")
    return 0


def _down(args: argparse.Namespace, _: list[str]) -> int:
    birth.down(args.name)
    return 0


def _exec(args: argparse.Namespace, trailing: list[str]) -> int:
    box = Box.find(args.name)
    pid = box.pid if args.node == CONTROLLER else box.node(args.node).namespaces_pid
    argv = enter.argv_in(pid, trailing or ["bash"], user=args.user, cwd="/", env={"TERM": os.environ.get("TERM", "dumb")})
    os.execvp(argv[0], argv)
