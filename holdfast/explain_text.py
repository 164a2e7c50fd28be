"""The pages of ``holdfast explain`` for people, made from its reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from holdfast.console import table

Report = Mapping[str, Any]

_OWNERS = {
    "holdfast-agent": "Holdfast's agent on this node",
    "holdfast-bridge": "Holdfast's bridge, for a kubectl cordon",
    "slurm": "Slurm itself",
    "other": "a person or another tool",
}


def node_page(report: Report) -> str:
    """One node."""
    return "\n".join(_node_lines(report))


def _node_lines(report: Report) -> Iterator[str]:
    service = "out of service" if report["out"] else "in service"
    yield f"{report['name']}: {service} ({'+'.join(report['states'])})"
    if report["out"]:
        yield f"  owner     {_owner(report)}"
        yield f"  reason    {report['reason'] or '(none)'}"
    if report["instance_id"]:
        yield f"  instance  {report['instance_id']}"
    if report["comment"]:
        yield f"  comment   {report['comment']}"
    fault = report["fault"]
    if fault and report["out"]:
        yield f"  fault     {fault['code']}: {fault['title']}"
        yield f"  do        {fault['runbook']}"
    if report["undo"]:
        yield f"  back      {report['undo']}"
    yield from _verdict_lines(report["verdict"])
    yield f"  before    holdfast history {report['name']}"


def _owner(report: Report) -> str:
    who = _OWNERS.get(report["owner"], report["owner"])
    user = f" (user {report['reason_user']})" if report["reason_user"] else ""
    return f"{who}{user}, since {_when(report['reason_at'])}"


def _verdict_lines(verdict: Report | None) -> Iterator[str]:
    if verdict is None:
        yield "  verdict   not readable from here; run this on the node itself for its findings"
        return
    doubt = f" ({verdict['why_not']})" if not verdict["fresh"] else ""
    yield f"  verdict   {verdict['status']}{doubt}"
    for finding in verdict["findings"]:
        yield (
            f"  finding   {finding.get('code')} {finding.get('severity')} on "
            f"{finding.get('subject')}: {finding.get('detail')}"
        )
    if verdict["blind"]:
        yield f"  blind     {', '.join(map(str, verdict['blind']))}"
    decision = verdict["decision"]
    if decision.get("action"):
        about = f": {decision['reason']}" if decision.get("reason") else ""
        yield f"  decision  {decision['action']}{about}"


def job_page(report: Report) -> str:
    """One job."""
    return "\n".join(_job_lines(report))


def _job_lines(report: Report) -> Iterator[str]:
    job = report["job"]
    if job is None:
        yield f"job {report['job_id']}: no longer known to Slurm"
    else:
        why = f" ({job['state_reason']})" if job["state_reason"] not in ("", "None") else ""
        yield f"job {report['job_id']} ({job['name']}, {job['user']}): {job['state']}{why}"
        yield f"  restarts  {job['restarts']}{'' if job['requeue'] else ', --no-requeue'}"
        if job["nodes"]:
            yield f"  nodes     {job['nodes']}"
        if job["excluded"]:
            yield f"  excluded  {job['excluded']}"
    yield f"  journal   {report['journal'] or 'none found: not under holdfast run?'}"
    yield from _befell(report)
    if report["attempts"]:
        yield from _indented(_attempts(report["attempts"]))
    if report["nodes"]:
        yield from _indented(_nodes(report["nodes"]))


_BLAMES = {"job": "the job's own", "node": "the machine's", "nobody": "explains others"}


def _befell(report: Report) -> Iterator[str]:
    """What the nodes' agents told of the job, and what this node's own report adds."""
    for entry in report["befell"]:
        gpu = f" GPU {entry['gpu']}" if entry["gpu"] is not None else ""
        step = f", step {entry['step']}" if entry["step"] else ""
        times = f", {entry['count']} times" if entry["count"] > 1 else ""
        run = f", run {entry['run']}" if entry["run"] else ""
        blame = _BLAMES.get(entry["blames"], entry["blames"])
        yield (
            f"  befell    {entry['code']} ({entry['title']}) on {entry['node']}{gpu}{step}{times}"
            f"{run}, {_when(entry['at'])}: {blame}"
        )
    own = report["report"]
    if own is None:
        return
    judged = "judged" if own.get("judged") else f"not judged: {own.get('why_not')}"
    yield f"  here      {own.get('node')}, run {own.get('run')}: {judged}"
    for counted in own.get("counters") or ():
        blame = _BLAMES.get(counted.get("blames"), "")
        yield (
            f"  counted   {counted.get('count')} {counted.get('title')} on {counted.get('subject')}"
            f": {blame}"
        )
    for left in own.get("leftovers") or ():
        yield f"  left      pid {left.get('pid')} ({left.get('command')}): {left.get('fate')}"


def _attempts(attempts: Iterable[Report]) -> str:
    head = ("ATTEMPT", "STARTED", "NODES", "FROM", "END", "DECISION", "WHY")
    return table([head, *map(_attempt_row, attempts)])


def _attempt_row(attempt: Report) -> tuple[str, ...]:
    step = attempt["resumed_step"]
    start = "beginning" if attempt["resumed_from"] is None else str(attempt["resumed_from"])
    end = "-" if attempt["exit_code"] is None else f"exit {attempt['exit_code']}"
    return (
        str(attempt["attempt"]),
        _when(attempt["started_at"]),
        attempt["nodes"],
        start if step is None else f"step {step}",
        f"{end}: {attempt['ended_why']}" if attempt["ended_why"] else end,
        attempt["decision"] or "-",
        attempt["why"] or "-",
    )


def _nodes(nodes: Iterable[Report]) -> str:
    head = ("NODE", "STATE", "OWNER", "REASON")
    body = [
        (
            node["name"],
            "+".join(node["states"]),
            node["owner"] if node["out"] else "-",
            node["reason"] if node["out"] and node["reason"] else "-",
        )
        for node in nodes
    ]
    return table([head, *body])


def _indented(text: str) -> Iterator[str]:
    yield ""
    for line in text.splitlines():
        yield f"  {line}"


def _when(at: float | None) -> str:
    if at is None:
        return "-"
    return datetime.fromtimestamp(at, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
