"""The pages of ``holdfast explain`` for people, made from its reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from holdfast.cli.console import table
from holdfast.printable import values
from holdfast.remedy import to_do
from holdfast.vocabulary import Action

Report = Mapping[str, Any]

_OWNERS = {
    "holdfast-agent": "Holdfast's agent on this node",
    "holdfast-bridge": "looks like Holdfast's bridge, for a kubectl cordon",
    "slurm": "Slurm itself",
    "other": "a person or another tool",
}
_LIKE = "looks like Holdfast's agent"
_THERE = "on the node itself (by ssh or kubectl exec)"


def node_page(report: Report) -> str:
    """One node, without its past."""
    return "\n".join(_node_lines(values(report)))


def _node_lines(report: Report) -> Iterator[str]:
    if report["slurm"]:
        yield f"{report['name']}: Slurm does not answer"
        yield from _verdict_lines(report)
        return
    service = "out of service" if report["out_of_service"] else "in service"
    yield f"{report['name']}: {service} ({'+'.join(report['states'])})"
    if report["out_of_service"]:
        yield f"  owner     {_owner(report)}"
        yield f"  reason    {report['reason'] or '(none)'}"
    if report["instance_id"]:
        yield f"  instance  {report['instance_id']}"
    if report["comment"]:
        yield f"  comment   {report['comment']}"
    fault = report["fault"]
    if fault and report["out_of_service"]:
        yield f"  fault     {fault['code']}: {fault['title']}"
        yield f"  do        {_to_do(fault, report['required_action'])}"
    if report["undo"]:
        yield f"  back      {report['undo']}"
    yield from _verdict_lines(report)


def _to_do(fault: Report, asks: str | None) -> str:
    asked = None if asks is None else Action(asks)
    return to_do(fault["code"], fault["runbook"], Action(fault["required_action"]), asked)


def _owner(report: Report) -> str:
    who, proof = _OWNERS.get(report["owner"], report["owner"]), ""
    if report["owner"] == "holdfast-agent" and not report["confirmed"]:
        who, proof = _LIKE, "; by the reason's words, which only its agent can confirm"
    elif report["owner"] == "slurm" and "MAINTENANCE" in report["states"] and not report["reason"]:
        who = "whoever made its reservation (scontrol show reservation)"
    user = f" (user {report['reason_user']})" if report["reason_user"] else ""
    since = f", since {_when(report['reason_at'])}" if report["reason_at"] else ""
    return f"{who}{user}{since}{proof}"


def _verdict_lines(report: Report) -> Iterator[str]:
    verdict = report["verdict"]
    if verdict is None:
        yield f"  verdict   lies {_THERE}; its findings, there: holdfast explain {report['name']}"
        return
    if verdict["facts"]:
        said = "; ".join(f"{name} {value}" for name, value in verdict["facts"].items())
        yield f"  facts     {said}"
    for finding in verdict["findings"]:
        yield (
            f"  finding   {finding.get('code')} {finding.get('severity')} on "
            f"{finding.get('subject')}: {finding.get('detail')}{_shadow(finding)}{_fades(finding, verdict['at'])}"
        )
    doubt = f" ({verdict['why_not']})" if not verdict["fresh"] else ""
    yield f"  verdict   {verdict['status']}{doubt}"
    if verdict["blind"]:
        yield f"  blind     {', '.join(map(str, verdict['blind']))}"
    decision = verdict["decision"]
    if decision.get("action"):
        about = decision.get("why") or decision.get("reason")
        # Nothing has made its agent ask Slurm since.
        before = (
            " (before it came back)"
            if verdict["drained"] and report["out_of_service"] is False
            else ""
        )
        yield f"  decision  {decision['action']}{f': {about}' if about else ''}{before}"


def _shadow(finding: Report) -> str:
    mode = finding.get("mode")
    return f" (mode {mode}: drains nothing)" if mode in ("observe", "comment") else ""


def _fades(finding: Report, at: Any) -> str:
    left_s = finding.get("left_s")
    if not isinstance(left_s, (int, float)) or not isinstance(at, (int, float)):
        return ""
    return f"; counts until {_when(at + left_s)}, or until somebody resumes the node in Slurm"


def past_lines(report: Report, past: Report | None, problem: str) -> str:
    """What came before, or where that is to be asked."""
    report, past, problem = values(report), values(past), values(problem)
    command = f"holdfast history {report['name']}"
    if problem:
        return f"  before    the history cannot be read: {problem}"
    if past is None and report["verdict"] is not None:
        return "  before    nothing is written down yet"
    if past is None:
        return f"  before    not to be read from here (paths.history); {_THERE}: {command}"
    lines = [f"  before    {past['rating']}: {past['counted']} ({command})"]
    if report["verdict"] is None:
        lines += [f"  open      {one['text']}, since {_when(one['t'])}" for one in past["open"]]
    lines += [
        f"  then      {_when(one['t'])} {one['event']}: {one['text']}" for one in past["last"]
    ]
    return "\n".join(lines)


def job_page(report: Report) -> str:
    """One job."""
    return "\n".join(_job_lines(values(report)))


def _job_lines(report: Report) -> Iterator[str]:
    job = report["job"]
    if job is None:
        why = "Slurm does not answer" if report["slurm"] else "no longer known to Slurm"
        yield f"job {report['job_id']}: {why}"
    else:
        why = f" ({job['state_reason']})" if job["state_reason"] not in ("", "None") else ""
        yield f"job {report['job_id']} ({job['name']}, {job['user']}): {job['state']}{why}"
        yield f"  restarts  {job['restarts']}{'' if job['requeue'] else ', --no-requeue'}"
        if job["state_reason"] == "JobHeldUser":
            name = job["array_task"] if "_" in job["array_task"] else report["job_id"]
            yield f"  back      scontrol release {name}, when the cause is gone"
        if job["nodes"]:
            yield f"  nodes     {job['nodes']}"
        if job["excluded"]:
            yield f"  excluded  {job['excluded']}"
    yield f"  journal   {report['journal'] or 'none found: not under holdfast run?'}{_unread(report)}"
    yield from _befell(report)
    if report["attempts"]:
        yield from _indented(_attempts(report["attempts"]))
        yield from (f"  {line}" for line in _verdicts(report["attempts"]))
    if report["nodes"]:
        yield from _indented(_nodes(report["nodes"]))


def _unread(report: Report) -> str:
    return f" (not read: {report['journal_problem']})" if report.get("journal_problem") else ""


_BLAMES = {"job": "the job's own", "node": "the machine's", "nobody": "explains others"}


def _befell(report: Report) -> Iterator[str]:
    """What the nodes' agents told of the job, and what this node's own report adds."""
    for entry in report["incidents"]:
        gpu = f" GPU {entry['gpu']}" if entry["gpu"] is not None else ""
        step = f", step {entry['step']}" if entry["step"] else ""
        times = f", {entry['count']} times" if entry["count"] > 1 else ""
        run = f", run {entry['run']}" if entry["run"] else ""
        blame = _BLAMES.get(entry["attribution"], entry["attribution"])
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
        blame = _BLAMES.get(counted.get("attribution"), "")
        yield (
            f"  counted   {counted.get('count')} {counted.get('title')} on {counted.get('subject')}"
            f": {blame}"
        )
    for left in own.get("leftovers") or ():
        yield f"  left      pid {left.get('pid')} ({left.get('command')}): {left.get('fate')}"


def _attempts(attempts: Iterable[Report]) -> str:
    head = ("ATTEMPT", "STARTED", "NODES", "FROM", "END", "DECISION", "WHY")
    return table([head, *map(_attempt_row, attempts)])


def _verdicts(attempts: Iterable[Report]) -> Iterator[str]:
    """What was known against the nodes when each attempt ended, as the journal has it."""
    for attempt in attempts:
        for fault in attempt["faults"]:
            weight = "fatal" if fault.get("fatal") else "degraded"
            out = ", out of service" if fault.get("out_of_service") else ""
            detail = f": {fault['detail']}" if fault.get("detail") else ""
            yield (
                f"verdict at the end of attempt {attempt['attempt']}: {fault.get('node')} "
                f"{fault.get('code')} ({weight}{out}){detail}"
            )
        if attempt["cause"]:
            yield f"cause in the output of attempt {attempt['attempt']}: {attempt['cause']}"


def _attempt_row(attempt: Report) -> tuple[str, ...]:
    step = attempt["resumed_step"]
    start = "beginning" if attempt["resumed_from"] is None else str(attempt["resumed_from"])
    end = "-" if attempt["exit_code"] is None else f"exit {attempt['exit_code']}"
    if attempt["job_state"]:
        end = f"{attempt['job_state']}, {end}"
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
            node["owner"] if node["out_of_service"] else "-",
            node["reason"] if node["out_of_service"] and node["reason"] else "-",
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
