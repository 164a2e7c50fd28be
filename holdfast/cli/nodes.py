"""``holdfast nodes``: the cluster's nodes, which are out of service, by whom and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.adapters.command import run
from holdfast.cli.console import complain, say, say_json
from holdfast.cli.tables import table
from holdfast.config.location import config_path
from holdfast.config.schema import load_cluster
from holdfast.drain_owner import DrainStatus, drain_status
from holdfast.errors import CommandError
from holdfast.slurm.adapter import open_slurm
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName

EXAMPLE = """\
examples:
  holdfast nodes
  holdfast nodes --out
  holdfast nodes worker-1 worker-2 --json
  holdfast nodes --lemons            # with each node's lemon score (holdfast history)

exit status: 0 shown, 1 Slurm knows no such node or does not answer, 2 used wrongly
"""

_HISTORY_S = 40.0
"""``holdfast history`` itself gives up after 30 s where the folder hangs."""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ``CommandError`` when Slurm does not answer or knows no such node."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast nodes",
        description="Show the cluster's nodes: which are out of service, by whom and why.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="only these nodes (default: all)")
    parser.add_argument("--out", action="store_true", help="only nodes that accept no new work")
    parser.add_argument("--lemons", action="store_true", help="add each node's lemon score")
    parser.add_argument("--json", action="store_true", help="a list, one object for each node")
    arguments = parser.parse_args(argv)
    slurm = slurm_of_this_machine()
    names = [SlurmName(name) for name in arguments.name]
    rows = [(node, drain_status(node)) for node in slurm.nodes(names)]
    if arguments.out:
        rows = [(node, status) for node, status in rows if status.out_of_service]
    scores = lemons() if arguments.lemons else None
    if arguments.json:
        listed = [as_json(node, status) for node, status in rows]
        more = [{} if scores is None else {"lemon": scores.get(row["name"])} for row in listed]
        say_json([row | extra for row, extra in zip(listed, more, strict=True)])
    else:
        say(_list(rows, scores))
    return 0


def lemons() -> dict[str, dict[str, Any]]:
    """Node → score and rating, of the nodes in the history that this machine can read.

    In a separate process, because the history may be on a filesystem that does not answer.
    """
    argv = [sys.executable, "-I", "-m", "holdfast", "history", "--json"]
    why: object
    try:
        rows = json.loads(run(argv, timeout_s=_HISTORY_S))
        return {row["name"]: {"score": row["score"], "rating": row["rating"]} for row in rows}
    except CommandError as error:
        empty = error.output.strip() == "[]"
        why = "no events recorded yet (paths.history on this machine)" if empty else error
    except (ValueError, KeyError, TypeError) as error:
        why = error
    complain(f"holdfast nodes: no lemon scores: {why}")
    return {}


def slurm_of_this_machine() -> SlurmCli:
    """Slurm as the configuration says. Raises ``ConfigError``."""
    return open_slurm(load_cluster(config_path()).slurm)


def as_json(node: SlurmNode, status: DrainStatus) -> dict[str, Any]:
    """One node as JSON; times in epoch seconds."""
    return {
        "name": node.name,
        "states": state_words(node),
        "out_of_service": status.out_of_service,
        "owner": status.owner.value,
        "code": status.reason.code if status.reason else None,
        "reason": node.reason,
        "reason_user": node.reason_user,
        "reason_at": _epoch(node.reason_at),
        "comment": node.comment,
        "instance_id": node.instance_id,
        "boot_at": _epoch(node.boot_at),
    }


def state_words(node: SlurmNode) -> list[str]:
    """The node's states: base state first, then the flags, in Slurm's order."""
    # The enum's order is Slurm's: base states, then flags.
    return [state.value for state in NodeState if state in node.states] + list(node.unknown_states)


def _epoch(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None


def since(at: datetime | None) -> str:
    """A time as text, in this machine's time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def _list(
    rows: Iterable[tuple[SlurmNode, DrainStatus]], scores: Mapping[str, Mapping[str, Any]] | None
) -> str:
    past = () if scores is None else ("PAST",)
    head = ("NODE", *past, "STATE", "OWNER", "SINCE", "REASON")
    body = [
        (
            node.name,
            *([] if scores is None else [_past(scores.get(node.name))]),
            "+".join(state_words(node)),
            status.owner.value if status.out_of_service else "-",
            since(node.reason_at) if status.out_of_service else "-",
            node.reason or (f"({node.comment})" if node.comment else "-"),
        )
        for node, status in rows
    ]
    return table([head, *body])


def _past(score: Mapping[str, Any] | None) -> str:
    return f"{score['rating']} {score['score']:.2f}" if score else "-"
