"""``holdfast nodes``: the cluster's nodes, which are out of service, by whom and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.adapters.command import complete
from holdfast.cli import site_config
from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.drain_status import DrainStatus, drain_status
from holdfast.errors import CommandError
from holdfast.own_program import own_program
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.hostlist import compress
from holdfast.text.tables import fitted, table
from holdfast.text.wording import counted
from holdfast.vocabulary import NodeState, SlurmName

EXAMPLE = """\
examples:
  holdfast nodes                     # equal nodes share a row
  holdfast nodes --out
  holdfast nodes worker-1 worker-2 --json
  holdfast nodes --lemons            # with each node's lemon score (holdfast history)

exit status: 0 shown, 1 Slurm knows no such node or does not answer, 2 usage error, or the configuration
is invalid (the defaults are used)
"""

_HISTORY_S = 40.0
"""``holdfast history`` itself gives up after 30 s where the folder hangs."""

Row = tuple[SlurmNode, DrainStatus]
Past = Mapping[str, Mapping[str, Any]]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast nodes",
        description="Show the cluster's nodes: which are out of service, by whom and why.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="only these nodes, a row each (default: all)")
    parser.add_argument("--out", action="store_true", help="only nodes that accept no new work")
    parser.add_argument("--each", action="store_true", help="a row for each node")
    parser.add_argument("--lemons", action="store_true", help="add each node's lemon score")
    parser.add_argument("--json", action="store_true", help="a list, one object for each node")
    return parser


def main(argv: Sequence[str]) -> int:
    """The command. Raises ``CommandError`` when Slurm does not answer or knows no such node."""
    arguments = parser().parse_args(argv)
    found = site_config.load()
    slurm = found.slurm()
    try:
        nodes = slurm.nodes([SlurmName(name) for name in arguments.name])
    except CommandError:
        found.complain("nodes")
        raise
    every = [(node, drain_status(node)) for node in nodes]
    rows = [row for row in every if row[1].out_of_service or not arguments.out]
    scores = lemons() if arguments.lemons else None
    if arguments.json:
        listed = [as_json(node, status) for node, status in rows]
        more = [{} if scores is None else {"lemon": scores.get(row["name"])} for row in listed]
        say_json([row | extra for row, extra in zip(listed, more, strict=True)])
    else:
        width = screen_width()
        say(fitted(summary(every), width))
        if rows:
            say(node_table(rows, scores, width, each=arguments.each or bool(arguments.name)))
        for text in found.kill_switches():
            say(fitted(text, width))
    return found.complain("nodes")


def lemons() -> dict[str, dict[str, Any]]:
    """Node → score and rating, of the nodes in the history that this machine can read."""
    rows, problem = history()
    if problem:
        complain(f"holdfast nodes: no lemon scores: {problem}")
    return {row["name"]: {"score": row["score"], "rating": row["rating"]} for row in rows}


def history() -> tuple[list[dict[str, Any]], str]:
    """The rows of ``holdfast history --json``, and why there are none.

    In a separate process, because the history may be on a filesystem that does not answer.
    """
    argv = own_program("holdfast", "history", "--json")
    try:
        done = complete(argv, timeout_s=_HISTORY_S)
        rows = json.loads(done.out)
        if not rows:
            return [], "no events recorded yet (paths.history on this machine)"
        return [{**row, "score": float(row["score"]), "name": str(row["name"])} for row in rows], ""
    except CommandError as error:
        return [], str(error)
    except (ValueError, KeyError, TypeError) as error:
        return [], " ".join(done.err.split()) or f"unexpected output: {error}"


def summary(rows: Sequence[Row]) -> str:
    """One line: how many nodes are in service, and who took the others out of it."""
    states = Counter(_base(node) for node, status in rows if not status.out_of_service)
    owners = Counter(status.owner.value for _, status in rows if status.out_of_service)
    inside = ", ".join(f"{count} {state}" for state, count in states.most_common())
    out = ", ".join(f"{count} by {owner}" for owner, count in owners.most_common())
    parts = [f"{states.total()} in service" + (f" ({inside})" if inside else "")]
    parts.append(f"{owners.total()} out of service" + (f" ({out})" if out else ""))
    return f"{counted(len(rows), 'node')}: {', '.join(parts)}"


def _base(node: SlurmNode) -> str:
    """The node's base state."""
    return next(iter(state_words(node)), "unknown").lower()


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


def node_table(
    rows: Iterable[Row],
    scores: Past | None = None,
    width: int | None = None,
    *,
    each: bool = False,
) -> str:
    """The nodes as a table. Nodes that differ in nothing but name and time share a row, unless ``each``."""
    past = () if scores is None else ("PAST",)
    head = ("NODE", *past, "STATE", "OWNER", "SINCE", "REASON")
    groups: dict[tuple[str, ...], list[Row]] = {}
    for node, status in rows:
        key = (
            node.name if each else "",
            *([] if scores is None else [_past(scores.get(node.name))]),
            "+".join(state_words(node)),
            status.owner.value if status.out_of_service else "-",
            node.reason or (f"({node.comment})" if node.comment else "-"),
        )
        groups.setdefault(key, []).append((node, status))
    return table([head, *(_folded(key, group) for key, group in groups.items())], width)


def _folded(key: tuple[str, ...], group: Sequence[Row]) -> tuple[str, ...]:
    """One row of nodes that are alike; the time is that of the first of them."""
    _, *front, reason = key
    times = [node.reason_at for node, status in group if status.out_of_service and node.reason_at]
    return (
        compress(node.name for node, _ in group),
        *front,
        since(min(times, default=None)),
        reason,
    )


def _past(score: Mapping[str, Any] | None) -> str:
    return f"{score['rating']} {score['score']:.2f}" if score else "-"
