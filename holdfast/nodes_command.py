"""``holdfast nodes``: the cluster's nodes, who took which out of service, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from holdfast.adapters.slurm import SlurmNode
from holdfast.adapters.slurm_cli import SlurmCli
from holdfast.config.location import config_path
from holdfast.config.schema import load_cluster
from holdfast.console import say, say_json, table
from holdfast.owner import Standing, standing
from holdfast.vocabulary import NodeState, SlurmName

EXAMPLE = """\
examples:
  holdfast nodes
  holdfast nodes --out
  holdfast nodes worker-1 worker-2 --json

exit status: 0 shown, 1 Slurm knows no such node or does not answer, 2 used wrongly
"""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ``CommandError`` when Slurm does not answer or knows no such node."""
    parser = argparse.ArgumentParser(
        prog="holdfast nodes",
        description="The cluster's nodes, who took which out of service, and why.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="only these nodes (default: all)")
    parser.add_argument("--out", action="store_true", help="only nodes that take no new work")
    parser.add_argument("--json", action="store_true", help="a list, one object for each node")
    asked = parser.parse_args(argv)
    slurm = slurm_of_this_machine()
    names = [SlurmName(name) for name in asked.name]
    rows = [(node, standing(node)) for node in slurm.nodes(names)]
    if asked.out:
        rows = [(node, what) for node, what in rows if what.out]
    if asked.json:
        say_json([as_json(node, what) for node, what in rows])
    else:
        say(_list(rows))
    return 0


def slurm_of_this_machine() -> SlurmCli:
    """Slurm as the configuration says. Raises ``ConfigError``."""
    config = load_cluster(config_path()).slurm
    return SlurmCli(config.timeout_s, config.bin)


def as_json(node: SlurmNode, what: Standing) -> dict[str, Any]:
    """One node for programs; times in epoch seconds."""
    return {
        "name": node.name,
        "states": state_words(node),
        "out": what.out,
        "owner": what.owner.value,
        "code": what.reason.code if what.reason else None,
        "reason": node.reason,
        "reason_user": node.reason_user,
        "reason_at": _epoch(node.reason_at),
        "comment": node.comment,
        "instance_id": node.instance_id,
        "boot_at": _epoch(node.boot_at),
    }


def state_words(node: SlurmNode) -> list[str]:
    """Base state first, then the flags, as Slurm orders them."""
    # The enum's order is Slurm's: base states, then flags.
    return [state.value for state in NodeState if state in node.states] + list(node.unknown_states)


def _epoch(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None


def since(at: datetime | None) -> str:
    """A time for people, in this machine's zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def _list(rows: Iterable[tuple[SlurmNode, Standing]]) -> str:
    head = ("NODE", "STATE", "OWNER", "SINCE", "REASON")
    body = [
        (
            node.name,
            "+".join(state_words(node)),
            what.owner.value if what.out else "-",
            since(node.reason_at) if what.out else "-",
            node.reason or (f"({node.comment})" if node.comment else "-"),
        )
        for node, what in rows
    ]
    return table([head, *body])
