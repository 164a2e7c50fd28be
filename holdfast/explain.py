"""``holdfast explain NODE`` and ``holdfast explain JOB``: why it is as it is, and what is next.

Everything is read back from Slurm, the verdict file (on that node itself) and the job's journal.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import job_evidence
from holdfast.adapters.slurm import SlurmJob, SlurmNode
from holdfast.adapters.slurm_cli import SlurmCli
from holdfast.config.location import config_path
from holdfast.config.schema import load_cluster
from holdfast.console import complain, say, say_json
from holdfast.errors import Refused
from holdfast.explain_files import Journal, local_report, local_verdict, read_journal
from holdfast.explain_text import job_page, node_page
from holdfast.hostlist import expand
from holdfast.nodes_command import as_json
from holdfast.owner import standing
from holdfast.vocabulary import SlurmName

EXAMPLE = """\
examples:
  holdfast explain worker-1
  holdfast explain 1234
  holdfast explain 1234 --checkpoints /mnt/training/checkpoints --json

exit status: 0 explained, 1 Slurm knows no such node or job or does not answer, 2 used wrongly
"""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ``CommandError`` when Slurm does not answer."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast explain",
        description="Why a node or a job is as it is, who did it, and what would undo it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", metavar="NODE|JOB", help="a node's name or a job's number")
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        type=Path,
        default=os.environ.get("HOLDFAST_CHECKPOINTS"),
        help="where the job's checkpoints and its journal lie (default: below its working folder)",
    )
    parser.add_argument("--json", action="store_true", help="one object, keys as documented")
    asked = parser.parse_args(argv)
    config = load_cluster(config_path())
    slurm = SlurmCli(config.slurm.timeout_s, config.slurm.bin)
    if asked.what.isdigit():
        folder = Path(asked.checkpoints) if asked.checkpoints else None
        report = job_report(slurm, int(asked.what), folder, config.paths.run)
    else:
        report = node_report(slurm, SlurmName(asked.what), config.paths.run, config.paths.procfs)
    if report is None:
        kind = "job" if asked.what.isdigit() else "node"
        complain(f"holdfast explain: Slurm knows no {kind} {asked.what}{_hint(kind)}")
        return 1
    if asked.json:
        say_json(report)
    else:
        say(job_page(report) if report["kind"] == "job" else node_page(report))
    return 0


def _hint(kind: str) -> str:
    if kind == "node":
        return "; `holdfast nodes` lists them"
    return " any more; --checkpoints DIR reads its journal"


def node_report(slurm: SlurmCli, name: SlurmName, run: Path, procfs: Path) -> dict[str, Any] | None:
    """All that can be told of a node from here; ``None``: Slurm does not know it."""
    try:
        node = slurm.nodes([name])[0]
    except Refused:
        return None
    what = standing(node)
    verdict = local_verdict(run, procfs, name)
    return {
        "kind": "node",
        **as_json(node, what),
        "fault": _fault(what.fault.code, what.fault.title, what.fault.runbook)
        if what.fault
        else None,
        "undo": what.undo,
        "verdict": verdict,
        "pairs": dict(what.reason.pairs) if what.reason else {},
    }


def _fault(code: str, title: str, runbook: str) -> dict[str, str]:
    return {"code": code, "title": title, "runbook": runbook}


def job_report(
    slurm: SlurmCli, job_id: int, checkpoints: Path | None, run: Path | None = None
) -> dict[str, Any] | None:
    """All that can be told of a job; ``None``: neither Slurm nor a journal knows it."""
    job = slurm.job(job_id)
    journal = read_journal(
        job_id, checkpoints, Path(job.work_dir) if job and job.work_dir else None
    )
    if job is None and journal is None:
        return None
    nodes = _nodes_of(slurm, job, journal)
    return {
        "kind": "job",
        "job_id": job_id,
        "job": _job(job) if job else None,
        "journal": str(journal.path) if journal else None,
        "attempts": list(journal.attempts) if journal else [],
        "befell": [
            entry.record() for entry in job_evidence.parse(job.admin_comment if job else "")
        ],
        "report": local_report(run, job_id) if run else None,
        "nodes": [as_json(node, standing(node)) for node in nodes],
    }


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
    }


def _nodes_of(slurm: SlurmCli, job: SlurmJob | None, journal: Journal | None) -> list[SlurmNode]:
    """The nodes that the job has now or had in its attempts, as Slurm sees them today."""
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
    except Refused:  # one of them is gone from the cluster: show those that are left
        return [node for node in slurm.nodes() if node.name in names]
