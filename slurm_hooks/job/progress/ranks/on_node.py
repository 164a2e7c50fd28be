"""Prints what the ranks of one attempt do on this node. Its arguments: JOB JOURNAL ATTEMPT ABORT AGE_S.

The launcher runs it by ``srun --overlap``, as the job's user, on the nodes of a job that hangs or of which a rank
has failed. Dumps of torch's flight recorder that are at most AGE_S old are copied to the journal's folder, since the
node's own /tmp may be gone tomorrow. ABORT: ``never``; the time (epoch seconds) after which SIGABRT is sent to those
ranks that have a handler for it, so that Python's faulthandler prints the stacks of all threads; or ``now``: a rank
has failed, and SIGABRT is sent at once to those that the next SIGTERM would end without a handler.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from slurm_hooks.job.progress.ranks import flight_dump
from slurm_hooks.job.progress.ranks.flight_dump import FlightDump
from slurm_hooks.job.progress.ranks.processes import Rank, on_this_node
from slurm_hooks.job.progress.ranks.report import RankReport, done_line
from slurm_hooks.job.progress.ranks.threads import Places, Thread, main_thread
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.node.process import catches

NEVER, NOW = "never", "now"
_SAMPLE_S, _DUMP_WAIT_S = 2.0, 5.0
_SHORT_SAMPLE_S, _SHORT_DUMP_WAIT_S = 0.5, 2.0
"""After a rank's failure, since the next attempt waits for it."""
_LONGEST_WAIT_S = 20.0
"""Before SIGABRT: the clocks of nodes may differ."""


def reports(
    procfs: Path,
    ranks: Sequence[Rank],
    node: str,
    sleep: Callable[[float], None],
    *,
    sample_s: float = _SAMPLE_S,
    dump_wait_s: float = _DUMP_WAIT_S,
) -> list[RankReport]:
    """What each rank does, sampled twice."""
    dumps = {
        rank.number: FlightDump(
            rank.main.environ, rank.number, procfs / str(rank.main.pid) / "root"
        )
        for rank in ranks
    }
    asked = {number for number, dump in dumps.items() if dump.request()}
    began = time.monotonic()
    before = {rank.number: main_thread(procfs, rank.main.pid) for rank in ranks}
    sleep(sample_s)
    wall_s = max(0.001, time.monotonic() - began)
    found = []
    for rank in ranks:
        after = main_thread(procfs, rank.main.pid)
        if after is not None:
            found.append((rank, after, _busy(before[rank.number], after, wall_s)))
    end = began + dump_wait_s
    while asked and time.monotonic() < end and any(dumps[n].pending() is None for n in asked):
        sleep(0.2)
    return [
        _report(procfs, rank, node, main, busy, dumps[rank.number].pending())
        for rank, main, busy in found
    ]


def _busy(before: Thread | None, after: Thread, wall_s: float) -> float:
    return (after.cpu_s - before.cpu_s) / wall_s if before else 0.0


def _report(
    procfs: Path,
    rank: Rank,
    node: str,
    main: Thread,
    busy: float,
    pending: dict[str, int] | None,
) -> RankReport:
    places = Places()
    for process in (rank.main, *rank.others):
        places.add(procfs, process.pid)
    return RankReport(
        node=node,
        rank=rank.number,
        pid=rank.main.pid,
        name=main.name,
        state=main.state,
        place=main.place,
        busy=busy,
        threads=places.counts,
        blocked=tuple(sorted(places.blocked)),
        pending=pending,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the reports; exits 0."""
    job, journal, number, abort, age_s = sys.argv[1:] if argv is None else argv
    attempt = AttemptId(job_id=int(job), journal=journal, attempt=int(number))
    node, procfs = os.environ.get("SLURMD_NODENAME", ""), Path("/proc")
    ranks = on_this_node(procfs, attempt, os.environ.get("SLURM_STEP_ID", ""))
    soon = abort == NOW
    sample_s, dump_wait_s = (
        (_SHORT_SAMPLE_S, _SHORT_DUMP_WAIT_S) if soon else (_SAMPLE_S, _DUMP_WAIT_S)
    )
    for report in reports(
        procfs, ranks, node, time.sleep, sample_s=sample_s, dump_wait_s=dump_wait_s
    ):
        sys.stdout.write(report.line())
    flight_dump.keep(attempt, flight_dump.places(procfs, ranks, os.environb), float(age_s))
    sys.stdout.write(done_line(node))
    sys.stdout.flush()
    mains = [rank.main.process for rank in ranks]
    if soon:
        mains = [one for one in mains if not catches(procfs, one.pid, signal.SIGTERM)]
    elif abort != NEVER:
        time.sleep(min(_LONGEST_WAIT_S, max(0.0, float(abort) - time.time())))
    if abort != NEVER:
        kill_tasks.abort(procfs, mains)
    return 0


if __name__ == "__main__":
    sys.exit(main())
