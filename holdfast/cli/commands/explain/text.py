"""The text of ``holdfast explain``, from its report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from holdfast.text.printable import values
from holdfast.text.remedy import to_do
from holdfast.text.tables import fitted, table
from holdfast.vocabulary import Action

Report = Mapping[str, Any]

_OWNERS = {
    "holdfast-agent": "Holdfast's agent on this node",
    "holdfast-bridge": "probably Holdfast's bridge, for a kubectl cordon (reason text only)",
    "slurm": "Slurm itself",
    "other": "a person or another tool",
}
_UNCONFIRMED = "probably Holdfast's agent (reason text only)"
_THERE = "on the node itself (by ssh or kubectl exec)"


def node_page(report: Report, width: int | None = None) -> str:
    """One node, without its history. ``width`` as in ``holdfast.text.tables``, here and below."""
    return fitted("\n".join(_node_lines(values(report))), width)


def _node_lines(report: Report) -> Iterator[str]:
    if report["slurm_problem"]:
        yield f"{report['name']}: Slurm does not answer"
        yield from _verdict_lines(report)
        yield from _switches(report)
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
    if report["how_to_resume"]:
        yield f"  return    {report['how_to_resume']}"
    yield from _verdict_lines(report)
    yield from _switches(report)


def _switches(report: Report) -> Iterator[str]:
    """The kill switches of the machine on which the command runs."""
    for text in report["kill_switches"]:
        yield f"  here      {text}"


def _to_do(fault: Report, value: str | None) -> str:
    required = None if value is None else Action(value)
    return to_do(fault["code"], fault["runbook"], Action(fault["required_action"]), required)


def _owner(report: Report) -> str:
    owner = _OWNERS.get(report["owner"], report["owner"])
    if report["owner"] == "holdfast-agent" and not report["confirmed"]:
        owner = _UNCONFIRMED
    # Slurm names nobody there: the state comes from the reservation.
    elif report["owner"] == "slurm" and "MAINTENANCE" in report["states"] and not report["reason"]:
        owner = "the creator of its reservation (scontrol show reservation)"
    user = f" (user {report['reason_user']})" if report["reason_user"] else ""
    since = f", since {_when(report['reason_at'])}" if report["reason_at"] else ""
    return f"{owner}{user}{since}"


def _verdict_lines(report: Report) -> Iterator[str]:
    verdict = report["verdict"]
    if verdict is None:
        yield f"  verdict   only {_THERE}: holdfast explain {report['name']}"
        return
    if verdict["facts"]:
        facts = "; ".join(f"{name} {value}" for name, value in verdict["facts"].items())
        yield f"  facts     {facts}"
    for finding in verdict["findings"]:
        yield (
            f"  finding   {finding.get('code')} {finding.get('severity')} on "
            f"{finding.get('subject')}: {finding.get('detail')}{_mode(finding)}{_until(finding, verdict['at'])}"
        )
    stale = f" ({verdict['expired_reason']}: is the agent running?)" if verdict["expired"] else ""
    yield f"  verdict   {verdict['status']}{stale}"
    if verdict["blind"]:
        yield f"  blind     {', '.join(map(str, verdict['blind']))}"
    decision = verdict["decision"]
    if decision.get("action"):
        about = decision.get("why") or decision.get("reason")
        # The agent has not read the node's state in Slurm since.
        before = (
            " (before it returned to service)"
            if verdict["drained"] and report["out_of_service"] is False
            else ""
        )
        yield f"  decision  {decision['action']}{f': {about}' if about else ''}{before}"


def _mode(finding: Report) -> str:
    mode = finding.get("mode")
    return f" (mode {mode}: does not drain)" if mode in ("observe", "comment") else ""


def _until(finding: Report, at: Any) -> str:
    left_s = finding.get("left_s")
    if not isinstance(left_s, (int, float)) or not isinstance(at, (int, float)):
        return ""
    return f"; counts until {_when(at + left_s)}, or until the node is resumed in Slurm"


def kubernetes_lines(kubernetes: Report | None, problem: str = "", width: int | None = None) -> str:
    """The node's Kubernetes side, as of ``holdfast bridge --node``, or why it is not known here."""
    lines = _kubernetes_lines(values(kubernetes), values(problem))
    return fitted("\n".join(lines), width)


def _kubernetes_lines(report: Report | None, problem: str) -> Iterator[str]:
    if report is None:
        yield f"  kubernetes not known here: {problem}"
        return
    if report["kubernetes"] is None:
        wanted = report["mapped_to"]
        why = f"Node {wanted} does not exist" if wanted else "no Node is mapped to it"
        yield f"  kubernetes {why} (InstanceId in Slurm, bridge.join)"
        return
    cordon = f"cordoned by {report['cordoned_by']}" if report["cordoned"] else "not cordoned"
    taint = f", taint {report['taint']}" if report["taint"] is not None else ""
    yield f"  kubernetes Node {report['kubernetes']}: {cordon}{taint}"
    if len(report["claimed_by"]) > 1:
        yield f"  ignored   several Slurm nodes map to it: {', '.join(report['claimed_by'])}"
    for each in report["conditions"]:
        yield f"  condition {each['type']}={each['status']}: {each['message']}"
    for row in report["changes"]:
        held = " (blocked by a kill switch)" if row["blocked_by_kill_switch"] else ""
        yield f"  pending   {row['change']}{held}; it stays: does the bridge run?"
    if report["how_to_uncordon"]:
        yield f"  uncordon  {report['how_to_uncordon']}"


def past_lines(report: Report, past: Report | None, problem: str, width: int | None = None) -> str:
    """The node's history, or where it can be read."""
    return fitted("\n".join(_past_lines(report, past, problem)), width)


def _past_lines(report: Report, past: Report | None, problem: str) -> Iterator[str]:
    report, past, problem = values(report), values(past), values(problem)
    command = f"holdfast history {report['name']}"
    if problem:
        yield f"  history   cannot be read: {problem}"
    elif past is None and report["verdict"] is not None:
        yield "  history   no events yet"
    elif past is None:
        yield f"  history   not readable here (paths.history); {_THERE}: {command}"
    else:
        yield f"  history   {past['rating']}: {past['counted']} ({command})"
        if past["kill_switches"] and report["verdict"] is None:
            yield f"  switches  on there: {', '.join(past['kill_switches'])}"
        if report["verdict"] is None:
            for item in past["open"]:
                yield f"  open      {item['text']}, since {_when(item['t'])}"
        for item in past["last"]:
            yield f"  event     {_when(item['t'])} {item['event']}: {item['text']}"


def job_page(report: Report, width: int | None = None) -> str:
    """One job."""
    report = values(report)
    parts = [fitted("\n".join(_job_lines(report)), width)]
    if report["attempts"]:
        attempts = "\n".join(f"  {line}" for line in _verdicts(report["attempts"]))
        parts.append(table(_attempts(report["attempts"]), width, indent=2))
        parts += [fitted(attempts, width)] if attempts else []
    if report["nodes"]:
        parts.append(table(_nodes(report["nodes"]), width, indent=2))
    return "\n\n".join(parts)


def _job_lines(report: Report) -> Iterator[str]:
    job = report["job"]
    if job is None:
        yield _past_line(report)
    else:
        why = f" ({job['state_reason']})" if job["state_reason"] not in ("", "None") else ""
        yield f"job {report['job_id']} ({job['name']}, {job['user']}): {job['state']}{why}"
        yield f"  restarts  {job['restarts']}{'' if job['requeue'] else ', --no-requeue'}"
        if job["state_reason"] == "JobHeldUser":
            name = job["array_task"] if "_" in job["array_task"] else report["job_id"]
            yield f"  release   scontrol release {name}, once the cause is gone"
        if job["nodes"]:
            yield f"  nodes     {job['nodes']}"
        if job["excluded"]:
            yield f"  excluded  {job['excluded']}"
    yield f"  journal   {report['journal'] or 'not found (--checkpoints DIR)'}{_unread(report)}"
    if report["attempts"]:
        yield f"  attempts  {len(report['attempts'])}"
    yield from _incidents(report)
    yield from _switches(report)


def _past_line(report: Report) -> str:
    why = "Slurm does not answer" if report["slurm_problem"] else "no longer in Slurm"
    past = report["accounting"]
    if past is None:
        return f"job {report['job_id']}: {why}"
    return (
        f"job {report['job_id']} ({past['name']}, {past['user']}): {why}; "
        f"in accounting {past['state']}, exit {past['exit_code']}"
    )


def _unread(report: Report) -> str:
    return (
        f" (cannot be read: {report['journal_problem']})" if report.get("journal_problem") else ""
    )


_ATTRIBUTIONS = {
    "job": "attributed to the job",
    "node": "attributed to the node",
    "none": "explains other incidents",
}


def _incidents(report: Report) -> Iterator[str]:
    """The incidents that the nodes' agents reported for the job, and this node's own report."""
    for entry in report["incidents"]:
        gpu = f" GPU {entry['gpu']}" if entry["gpu"] is not None else ""
        step = f", step {entry['step']}" if entry["step"] else ""
        times = f", {entry['count']} times" if entry["count"] > 1 else ""
        run = f", run {entry['run']}" if entry["run"] else ""
        attribution = _ATTRIBUTIONS.get(entry["attribution"], entry["attribution"])
        yield (
            f"  incident  {entry['code']} ({entry['title']}) on {entry['node']}{gpu}{step}{times}"
            f"{run}, {_when(entry['at'])}: {attribution}"
        )
    own = report["report"]
    if own is None:
        return
    evaluated = (
        "complete" if own.get("evaluated") else f"not evaluated: {own.get('not_evaluated_reason')}"
    )
    yield f"  report    {own.get('node')}, run {own.get('run')}: {evaluated}"
    for counted in own.get("counters") or ():
        attribution = _ATTRIBUTIONS.get(counted.get("attribution"), "")
        yield (
            f"  counter   {counted.get('count')} {counted.get('title')} on {counted.get('subject')}"
            f": {attribution}"
        )
    for left in own.get("leftovers") or ():
        yield f"  leftover  pid {left.get('pid')} ({left.get('command')}): {left.get('fate')}"


def _attempts(attempts: Iterable[Report]) -> list[tuple[str, ...]]:
    head = ("ATTEMPT", "STARTED", "NODES", "FROM", "END", "DECISION", "WHY")
    return [head, *map(_attempt_row, attempts)]


def _verdicts(attempts: Iterable[Report]) -> Iterator[str]:
    """The faults of the nodes, and the cause in the output, at the end of each attempt (journal)."""
    for attempt in attempts:
        for fault in attempt["faults"]:
            weight = "fatal" if fault.get("fatal") else "degraded"
            out = ", out of service" if fault.get("out_of_service") else ""
            detail = f": {fault['detail']}" if fault.get("detail") else ""
            yield (
                f"verdict at the end of attempt {attempt['attempt']}: {fault.get('node')} "
                f"{fault.get('code')} ({weight}{out}){detail}"
            )
        if attempt["slow"]:
            yield f"in attempt {attempt['attempt']}: {attempt['slow']}"
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


def _nodes(nodes: Iterable[Report]) -> list[tuple[str, ...]]:
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
    return [head, *body]


def _when(at: float | None) -> str:
    if at is None:
        return "-"
    return datetime.fromtimestamp(at, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
