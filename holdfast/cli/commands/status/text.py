"""The text of ``holdfast status``, from its report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.cli.commands.nodes import Row, node_table
from holdfast.slurm.hostlist import compress
from holdfast.text.printable import values
from holdfast.text.tables import fitted, table
from holdfast.text.wording import counted

Report = Mapping[str, Any]

_MOST_ROWS = 20


def page(report: Report, out: Sequence[Row], width: int | None = None) -> str:
    """One screen. ``out``: the nodes out of service; ``width`` as in ``holdfast.text.tables``."""
    report = values(report)
    parts = [fitted("\n".join(_lines(report)), width)]
    if out:
        parts.append(node_table(out, None, width))
    jobs = report["jobs"]
    if jobs is not None and jobs["requeued"]:
        parts.append(table(_jobs(jobs["requeued"]), width))
    return "\n\n".join(parts)


def _lines(report: Report) -> Iterator[str]:
    yield f"{report['cluster']} at {report['time']}"
    if report["summary"] is None:
        yield "  slurm     does not answer"
    else:
        yield f"  nodes     {report['summary']}"
        yield from _budget(report["budget"])
    if report["jobs"] is not None:
        jobs = report["jobs"]
        states = ", ".join(f"{count} {state}" for state, count in jobs["states"].items())
        yield (
            f"  jobs      {states or 'none'}; {len(jobs['requeued'])} requeued before, "
            f"{jobs['held']} held"
        )
    elif report["summary"] is not None:
        yield f"  jobs      not known here: {report['slurm_problem']}"
    yield from _history(report)
    yield from (f"  here      {text}" for text in report["kill_switches"]["this_host"])
    yield f"  bridge    {_bridge(report['bridge'])}"


def _budget(budget: Report | None) -> Iterator[str]:
    if budget is not None:
        yield (
            f"  budget    {budget['used']} of {budget['allowed']} nodes, of these "
            f"{budget['by_users']} of {budget['allowed_by_users']} for faults that users can cause"
        )


def _history(report: Report) -> Iterator[str]:
    """What the nodes' histories tell: lemons and kill switches."""
    if report["history_problem"]:
        yield f"  lemons    not known here: {report['history_problem']}"
        yield f"  switches  of other nodes not known here: {report['history_problem']}"
        return
    for rating in ("lemon", "watch"):
        if report["lemons"][rating]:
            names = ", ".join(report["lemons"][rating])
            yield f"  {rating:<9} {names} (holdfast history)"
    switches = report["kill_switches"]["nodes"]
    for name, nodes in switches.items():
        yield f"  switch    off/{name} on {compress(nodes)}"
    if not switches:
        yield "  switches  none is on, by the nodes' histories"


def _bridge(bridge: Report) -> str:
    drained = counted(bridge["drained"], "node")
    drains = f"{drained} drained for a kubectl cordon; " if bridge["drained"] else ""
    if bridge["pending"] is None:
        return f"{drains}not known here: {bridge['problem']}"
    if bridge["pending"] == 0:
        return f"{drains}Slurm and Kubernetes are consistent"
    changes = counted(bridge["pending"], "change")
    return f"{drains}{changes} pending (holdfast bridge --plan): does it run?"


def _jobs(rows: Sequence[Report]) -> list[tuple[str, ...]]:
    head = ("JOB", "USER", "NAME", "STATE", "WHY", "RESTARTS")
    body = [
        (
            row["job"],
            row["user"],
            row["name"],
            row["state"],
            row["state_reason"],
            str(row["restarts"]),
        )
        for row in rows[:_MOST_ROWS]
    ]
    more = len(rows) - len(body)
    last = [(f"and {more} more", "", "", "", "", "")] if more else []
    return [head, *body, *last]
