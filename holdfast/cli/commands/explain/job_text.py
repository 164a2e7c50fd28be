"""The text of ``holdfast explain JOB``, from its report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.cli.commands.explain.node_text import Report, local_time, switches
from holdfast.text.printable import values
from holdfast.text.tables import fitted, table


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
    yield from switches(report)


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
            f"{run}, {local_time(entry['at'])}: {attribution}"
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
        local_time(attempt["started_at"]),
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
