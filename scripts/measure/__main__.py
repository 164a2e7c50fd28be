"""``scripts/bench``: runs benchmarks, prints them, and writes docs/benchmarks.md after a full run."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from demonstration.observe import Cluster, NotSeenError, until
from demonstration.options import Parser
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.shape import RELEASES

from measure import figures, machine, page, parse_cost, random_histories
from measure.figures import Figure
from measure.job import launcher_cost, log_speed
from measure.node import (
    agent_cost,
    beside_gcm,
    detection,
    drain,
    next_step,
    node_death,
    prolog_and_check,
)

Say = Callable[[str], None]
IN_BOX: dict[str, Callable[[Box, Say], Figure]] = {
    "prolog": prolog_and_check.prolog,
    "check": prolog_and_check.check,
    "drain": drain.drain,
    "unkillable": prolog_and_check.unkillable,
    "catalogue": agent_cost.catalogue,
    "launcher": launcher_cost.launcher,
    "event": detection.event,
    "polled": detection.polled,
    "hung": detection.hung,
    "gcm": beside_gcm.gcm,
    "checkpoints": parse_cost.checkpoints,
    "log": log_speed.log,
    "ranking": parse_cost.ranking,
    "interleavings": random_histories.interleavings,
    "bridge-interleavings": random_histories.bridge_interleavings,
    "two-writers": random_histories.two_writers,
    "node_death": node_death.node_death,
    "resume": next_step.resume,
}
CATALOGUE = (*IN_BOX, "deaths", "bridge", "agents")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        allow_abbrev=False,
        prog="scripts/bench",
        description="Run Holdfast's benchmarks, each compared with a baseline or a rival in the same run.",
        epilog="example: scripts/bench prolog drain --json. "
        "Without names: run all but deaths, bridge and agents, and write docs/benchmarks.md.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(CATALOGUE)} (default: all but deaths, bridge and agents)",
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
    parser.add_argument(
        "--only",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="DEATH,…",
        help="with deaths: only these, by their names in docs/reference/deaths.md",
    )
    args = parser.parse_args(argv)
    if args.only and (args.names != ["deaths"] or args.page):
        parser.error("--only is for deaths alone, without --page")
    for name in args.names:
        if name not in CATALOGUE:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(CATALOGUE)}")
    return args


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    args = _options(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    names = args.names or list(IN_BOX)
    in_box = [name for name in names if name in IN_BOX]
    try:
        parts = [_in_box(in_box, args.slurm)] if in_box else []
        parts += [_deaths(args.slurm, args.only)] if "deaths" in names else []
        parts += [_bridge()] if "bridge" in names else []
        parts += [_agents()] if "agents" in names else []
    except KeyboardInterrupt:
        print("scripts/bench: interrupted; its box has been removed", file=sys.stderr)
        return 130
    except (SandboxError, NotSeenError, RuntimeError, OSError, ValueError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    measured = [figure for part in parts for figure in part.figures]
    if args.json:
        rows = [figures.as_json(figure) for figure in measured]
        print(json.dumps({"machine": parts[0].about, "figures": rows}))
    else:
        for part in parts:
            shown = ("\n".join(figures.text(figure)) for figure in part.figures)
            print("\n".join(part.about), *shown, sep="\n\n", end="\n\n")
    if args.page or not args.names:
        old = PAGE.read_text()
        some = bool(in_box) and len(in_box) < len(IN_BOX)
        text = page.with_some(old, parts.pop(0)) if some else old
        PAGE.write_text(page.updated(text, parts))
    return 0 if all(figure.met for figure in measured) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _in_box(names: Sequence[str], slurm: str) -> page.Part:
    about = machine.describe(
        f"Slurm {slurm} in a sandbox box of 4 nodes (with a Python of their own), all on this machine, "
        "H100s simulated below NVML"
    )
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
        measured = tuple(IN_BOX[name](box, _say) for name in names)
    finally:
        box.down()
    command = "scripts/bench" if len(names) == len(IN_BOX) else f"scripts/bench {' '.join(names)}"
    return page.Part(title=page.MAIN, command=command, about=tuple(about), figures=measured)


def _deaths(slurm: str, only: Sequence[str]) -> page.Part:
    from measure.deaths import catalogue, figure  # noqa: PLC0415 - its packages are not needed for --help

    return figure.part(slurm, _say, catalogue.named(only) if only else catalogue.DEATHS)


def _bridge() -> page.Part:
    from measure.bridge import scale  # noqa: PLC0415 - its packages are not needed for --help

    about = machine.describe(
        f"Slurm 24.11 with {scale.NODES} nodes without slurmd, kube-apiserver and etcd with as many "
        "Nodes of 22 KB, and the bridge, all on this machine"
    )
    return page.Part(
        title=f"The bridge with {scale.NODES:,} nodes",
        command="scripts/bench bridge",
        about=tuple(about),
        figures=tuple(scale.bridge(_say)),
    )


def _agents() -> page.Part:
    from measure.agents import cost  # noqa: PLC0415 - its packages are not needed for --help

    about = machine.describe(
        f"Slurm 24.11 with {cost.NODES} nodes without slurmd, and the part of their agents that asks "
        "slurmctld, all on this machine"
    )
    return page.Part(
        title=f"Agents of {cost.NODES:,} nodes",
        command="scripts/bench agents",
        about=tuple(about),
        figures=tuple(cost.agents(_say)),
    )


if __name__ == "__main__":
    sys.exit(main())
