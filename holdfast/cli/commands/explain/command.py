"""``holdfast explain NODE`` and ``holdfast explain JOB``: its state, the cause, and what happens next.

The sources are Slurm and its accounting, the verdict file (on the node itself), the history and the job's
journal. If one of them cannot be read, the others are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast.cli import site_config
from holdfast.cli.commands.explain import history as explain_history
from holdfast.cli.commands.explain import kubernetes as explain_kubernetes
from holdfast.cli.commands.explain.files import (
    JobJournal,
    agent_report,
    local_journal,
    local_report,
    local_verdict,
    read_journal,
)
from holdfast.cli.commands.explain.job_text import job_page
from holdfast.cli.commands.explain.node_text import kubernetes_lines, node_page, past_lines
from holdfast.cli.commands.nodes import as_json
from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.config.schema import PathsConfig
from holdfast.drain_status import drain_status
from holdfast.errors import CommandError, Refused, Unavailable
from holdfast.faults import Fault
from holdfast.records import incidents
from holdfast.slurm.accounting import PastJob
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.slurm.hostlist import expand
from holdfast.vocabulary import SlurmName

_JOB = re.compile(r"[0-9]+(_[0-9]+)?")

EXAMPLE = """\
examples:
  holdfast explain worker-1
  holdfast explain 1234
  holdfast explain 1234_5
  holdfast explain 1234 --checkpoints /mnt/training/checkpoints --json

exit status: 0 explained, 1 Slurm does not know the node or job, or does not answer (what can be read
here is shown), 2 usage error, or the configuration is invalid (the defaults are used)
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast explain",
        description="Explain the state of a node or a job: the cause, who drained it, how it returns.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        metavar="NODE|JOB",
        help="a node (its name in Slurm or Kubernetes) or a job's number",
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        type=Path,
        default=os.environ.get("HOLDFAST_CHECKPOINTS"),
        help="folder of the job's checkpoints and journal (default: as its AdminComment names it)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    """The command."""
    arguments = parser().parse_args(argv)
    found = site_config.load()
    slurm, width = found.slurm(), screen_width()
    kind = "job" if _JOB.fullmatch(arguments.what) else "node"
    if kind == "job":
        folder = Path(arguments.checkpoints) if arguments.checkpoints else None
        report = job_report(slurm, arguments.what, folder, found.cluster.paths.run)
    else:
        report = node_with_kubernetes(slurm, SlurmName(arguments.what), found.cluster.paths)
    if report is None:
        complain(f"holdfast explain: Slurm knows no {kind} {arguments.what}{_hint(kind)}")
        return 1
    report["kill_switches"] = found.kill_switches()
    if kind == "node":
        problem = found.without_repetition(report["kubernetes_problem"])
        report["kubernetes_problem"] = problem
    _show(report, width, as_one_json=arguments.json)
    if report["slurm_problem"]:
        complain(f"holdfast explain: Slurm does not answer: {report['slurm_problem']}")
    return found.complain("explain") or (1 if report["slurm_problem"] else 0)


def _show(report: dict[str, Any], width: int | None, *, as_one_json: bool) -> None:
    """Print the page, then the history: its folder may not answer."""
    if report["kind"] == "job":
        say_json(report) if as_one_json else say(job_page(report, width))
        return
    if not as_one_json:
        say(node_page(report, width))
        say(kubernetes_lines(report["kubernetes"], report["kubernetes_problem"], width))
    past, problem = explain_history.look(report["name"])
    report["history"] = past
    if as_one_json:
        say_json(report)
    else:
        say(past_lines(report, past, problem, width))


def _hint(kind: str) -> str:
    if kind == "node":
        return "; `holdfast nodes` lists them"
    return " any more; --checkpoints DIR reads its journal"


def node_with_kubernetes(
    slurm: SlurmCli, name: SlurmName, paths: PathsConfig
) -> dict[str, Any] | None:
    """As ``node_report``, with the Kubernetes side; ``name`` may be that of the Kubernetes Node."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        asked = pool.submit(explain_kubernetes.look, name)
        report = node_report(slurm, name, paths)
        kubernetes, problem = asked.result()
    if report is None and kubernetes is not None and kubernetes.get("slurm"):
        report = node_report(slurm, SlurmName(str(kubernetes["slurm"])), paths)
    if report is None:
        return None
    return {**report, "kubernetes": kubernetes, "kubernetes_problem": problem}


def node_report(slurm: SlurmCli, name: SlurmName, paths: PathsConfig) -> dict[str, Any] | None:
    """What is known about a node on this machine; ``None``: Slurm does not know the node."""
    verdict, silent = local_verdict(paths.run, paths.procfs, name), ""
    node = SlurmNode(name=name, states=frozenset())
    try:
        node = slurm.nodes([name])[0]
    except Refused:
        return None
    except CommandError as error:
        silent = str(error)
    status = drain_status(node, agent_report(verdict))
    report = {
        "kind": "node",
        **as_json(node, status),
        "fault": _fault(status.fault) if status.fault else None,
        "required_action": status.required_action.value if status.required_action else None,
        "confirmed": status.confirmed,
        "how_to_resume": status.undo,
        "verdict": verdict,
        "reason_fields": dict(status.reason.pairs) if status.reason else {},
        "slurm_problem": silent,
    }
    return {**report, "out_of_service": None, "owner": None} if silent else report


def _fault(row: Fault) -> dict[str, str]:
    return {
        "code": row.code,
        "title": row.title,
        "runbook": row.runbook,
        "required_action": row.action.value,
    }


def job_report(
    slurm: SlurmCli, what: str, checkpoints: Path | None, run: Path | None = None
) -> dict[str, Any] | None:
    """What is known about a job (a number, or an array task); ``None``: neither Slurm, nor accounting, nor
    a journal knows it.
    """
    job, silent = _live(slurm, what)
    past = None if job else _past(slurm, what)
    job_id = job.job_id if job else past.job_id if past else int(what) if what.isdigit() else 0
    journal = _journal(job_id, job or past, checkpoints, run, silent=bool(silent))
    if job is None and past is None and journal is None and not silent:
        return None
    nodes = [] if silent else _nodes_of(slurm, job or past, journal)
    comment = job.admin_comment if job else past.admin_comment if past else ""
    return {
        "kind": "job",
        "job_id": job_id or what,
        "job": _job(job) if job else None,
        "accounting": _past_json(past) if past else None,
        "journal": str(journal.path) if journal else None,
        "journal_problem": journal.problem if journal else "",
        "attempts": list(journal.attempts) if journal else [],
        "incidents": [entry.record() for entry in incidents.parse(comment)],
        "report": local_report(run, job_id) if run else None,
        "nodes": [as_json(node, drain_status(node)) for node in nodes],
        "slurm_problem": silent,
    }


def _live(slurm: SlurmCli, what: str) -> tuple[SlurmJob | None, str]:
    """The job in slurmctld, and why slurmctld does not answer."""
    try:
        return slurm.job(int(what) if what.isdigit() else slurm.array_task_job_id(what)), ""
    except Refused:
        return None, ""
    except CommandError as error:
        return None, str(error)


def _past(slurm: SlurmCli, what: str) -> PastJob | None:
    try:
        return slurm.past_job(what)
    except CommandError:  # there is no accounting, or it does not answer
        return None


def _journal(
    job_id: int,
    job: SlurmJob | PastJob | None,
    checkpoints: Path | None,
    run: Path | None,
    *,
    silent: bool,
) -> JobJournal | None:
    """The job's journal. Its path is in the AdminComment, and on the job's first node with the agent."""
    named = [incidents.journal_in(job.admin_comment)] if job else []
    if run is not None:
        named.append(local_journal(run, job_id))
    work_dir = Path(job.work_dir) if job and job.work_dir else None
    if work_dir is None and silent:
        with contextlib.suppress(OSError):  # removed meanwhile
            work_dir = Path.cwd()
    return read_journal(job_id, checkpoints, work_dir, named)


def _past_json(past: PastJob) -> dict[str, Any]:
    names = ("name", "user", "state", "exit_code", "nodes", "work_dir")
    return {name: getattr(past, name) for name in names}


def _job(job: SlurmJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "state_reason": job.state_reason,
        "restarts": job.restarts,
        "requeue": job.requeue,
        "nodes": job.nodes,
        "excluded": job.excluded,
        "exit_code": job.exit_code,
        "start_at": int(job.start_at.timestamp()) if job.start_at else None,
        "work_dir": job.work_dir,
        "array_task": job.array_task,
    }


def _nodes_of(
    slurm: SlurmCli, job: SlurmJob | PastJob | None, journal: JobJournal | None
) -> list[SlurmNode]:
    """The nodes that the job has now or had in its attempts, in their present state."""
    lists = [job.nodes] if job else []
    lists += [attempt["nodes"] for attempt in journal.attempts] if journal else []
    names: dict[SlurmName, None] = {}
    for text in lists:
        try:
            names |= dict.fromkeys(map(SlurmName, expand(text)))
        except ValueError:
            continue
    if not names:
        return []
    try:
        return slurm.nodes(list(names))
    except Unavailable:
        return []
    except Refused:
        pass
    try:  # one of them was removed from the cluster: show the others
        return [node for node in slurm.nodes() if node.name in names]
    except CommandError:
        return []
