"""``scripts/bench``: runs benchmarks, prints them, and writes docs/benchmarks.md after a full run."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from demonstration.observe import Cluster, NotSeenError, until
from demonstration.options import Parser
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.shape import RELEASES

from measure import (
    agent_cost,
    beside_gcm,
    bridge_scale,
    detection,
    drain,
    figures,
    machine,
    node,
    random_histories,
    reading,
    resume,
)
from measure.figures import Figure

Say = Callable[[str], None]
CATALOGUE: dict[str, Callable[[Box, Say], Figure]] = {
    "prolog": node.prolog,
    "check": node.check,
    "drain": drain.drain,
    "unkillable": node.unkillable,
    "catalogue": agent_cost.catalogue,
    "event": detection.event,
    "polled": detection.polled,
    "hung": detection.hung,
    "gcm": beside_gcm.gcm,
    "checkpoints": reading.checkpoints,
    "log": reading.log,
    "ranking": reading.ranking,
    "bridge": bridge_scale.bridge,
    "interleavings": random_histories.interleavings,
    "resume": resume.resume,
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        allow_abbrev=False,
        prog="scripts/bench",
        description="Run Holdfast's benchmarks, each compared with a baseline or a rival in the same run.",
        epilog="example: scripts/bench prolog drain --json. Without names: run all and write docs/benchmarks.md.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(CATALOGUE)} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--page",
        action="store_true",
        help="write docs/benchmarks.md even for a partial run",
    )
    parser.add_argument(
        "--slurm", choices=sorted(RELEASES), default="24.11", help="the Slurm release"
    )
    args = parser.parse_args(argv)
    for name in args.names:
        if name not in CATALOGUE:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(CATALOGUE)}")
    return args


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    args = _options(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    about = machine.describe(args.slurm)
    try:
        measured = _measure(args.names or list(CATALOGUE), args.slurm)
    except KeyboardInterrupt:
        print("scripts/bench: interrupted; its box has been removed", file=sys.stderr)
        return 130
    except (SandboxError, NotSeenError, RuntimeError, OSError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(
            json.dumps(
                {"machine": about, "figures": [figures.as_json(figure) for figure in measured]}
            )
        )
    else:
        print(
            "\n".join(about), *("\n".join(figures.text(figure)) for figure in measured), sep="\n\n"
        )
    if args.page or not args.names:
        PAGE.write_text("\n".join(_page(about, measured)) + "\n")
    return 0 if all(figure.met for figure in measured) else 1


def _measure(names: Sequence[str], slurm: str) -> list[Figure]:
    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    box = Box.up(f"bench-{os.getpid()}", nodes=4, slurm=slurm, owner_pid=os.getpid())
    try:
        cluster = Cluster(box)
        until(
            lambda: all(
                (cluster.verdict(node.name) or {}).get("status") == "ok" for node in box.nodes
            ),
            "a healthy verdict on every node",
            30,
        )
        return [CATALOGUE[name](box, say) for name in names]
    finally:
        box.down()


def _page(about: Sequence[str], measured: Sequence[Figure]) -> list[str]:
    return [
        "# Benchmarks",
        "",
        "<!-- Written by scripts/bench; do not edit. -->",
        "",
        f"Measured on {datetime.now(timezone.utc):%Y-%m-%d} with `scripts/bench`:",
        "",
        *(f"* {line}" for line in about),
        "",
        *figures.markdown(measured),
    ]


if __name__ == "__main__":
    sys.exit(main())
