"""The text of ``holdfast explain NODE``, from its report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from holdfast.reason import Reason
from holdfast.records.leave import leave_of
from holdfast.text.printable import values
from holdfast.text.remedy import to_do
from holdfast.text.tables import fitted
from holdfast.vocabulary import Action

Report = Mapping[str, Any]

_OWNERS = {
    "holdfast-agent": "Holdfast's agent on this node",
    "holdfast-bridge": "probably Holdfast's bridge",
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
        yield from switches(report)
        return
    service = "out of service" if report["out_of_service"] else "in service"
    yield f"{report['name']}: {service} ({'+'.join(report['states'])})"
    if report["out_of_service"]:
        yield f"  owner     {_owner(report)}"
        yield f"  reason    {report['reason'] or '(none)'}"
        yield from _jobs_leave(report)
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
    yield from switches(report)


def _jobs_leave(report: Report) -> Iterator[str]:
    """What the reason tells running jobs."""
    reason = Reason.parse(report["reason"] or "")
    leave = leave_of(reason) if reason is not None else None
    if leave is not None:
        by = "" if leave.until is None else f" before {local_time(leave.until)}"
        yield f"  jobs      the machine is going to be stopped: jobs of holdfast run leave{by}"


def switches(report: Report) -> Iterator[str]:
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
    elif report["owner"] == "holdfast-bridge":
        rule = report["reason_fields"].get("rule")
        why = "for a kubectl cordon" if rule is None else f"for the rule {rule}"
        owner = f"{owner}, {why} (reason text only)"
    user = f" (user {report['reason_user']})" if report["reason_user"] else ""
    since = f", since {local_time(report['reason_at'])}" if report["reason_at"] else ""
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
    return f"; counts until {local_time(at + left_s)}, or until the node is resumed in Slurm"


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
                yield f"  open      {item['text']}, since {local_time(item['t'])}"
        for item in past["last"]:
            yield f"  event     {local_time(item['t'])} {item['event']}: {item['text']}"


def local_time(at: float | None) -> str:
    if at is None:
        return "-"
    return datetime.fromtimestamp(at, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")
