"""Prints what the ranks of one attempt do on this node. Its arguments: JOB JOURNAL ATTEMPT ABORT_AT.

The launcher runs it on each node of a job that hangs, by ``srun --overlap``, as the job's user. After ABORT_AT
(epoch seconds, 0: never) it sends SIGABRT to those ranks that have a handler for it: Python's faulthandler then
prints the stacks of all threads to the rank's standard error, also while the program is inside a library. The
launcher ends the step anyway.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from slurm_hooks.job.progress.ranks.flight_dump import FlightDump
from slurm_hooks.job.progress.ranks.processes import Rank, on_this_node
from slurm_hooks.job.progress.ranks.report import RankReport, done_line
from slurm_hooks.job.progress.ranks.threads import Places, Thread, catches, main_thread
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.node.process import process_state, send

_SAMPLE_S = 2.0
_DUMP_WAIT_S = 5.0
_LONGEST_WAIT_S = 20.0
"""Before SIGABRT: the clocks of nodes may differ."""


def reports(
    procfs: Path, ranks: Sequence[Rank], node: str, sleep: Callable[[float], None]
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
    sleep(_SAMPLE_S)
    wall_s = max(0.001, time.monotonic() - began)
    found = []
    for rank in ranks:
        after = main_thread(procfs, rank.main.pid)
        if after is not None:
            found.append((rank, after, _busy(before[rank.number], after, wall_s)))
    end = began + _DUMP_WAIT_S
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


def abort(procfs: Path, ranks: Sequence[Rank]) -> int:
    """Sends SIGABRT to the ranks that have a handler for it. Returns how many."""
    count = 0
    for rank in ranks:
        process = rank.main.process
        if not catches(procfs, process.pid, signal.SIGABRT):
            continue
        _prevent_core_file(process.pid)

        def is_it(pid: int = process.pid, start: int = process.start) -> bool:
            return (process_state(pid, str(procfs)) or ("", -1))[1] == start

        with suppress(PermissionError):
            count += send(process.pid, signal.SIGABRT, is_it)
    return count


def _prevent_core_file(pid: int) -> None:
    """The memory of a training is large. A limit of 1 byte also prevents a core that is piped to a program
    (core(5))."""
    with suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        soft = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
        resource.prlimit(pid, resource.RLIMIT_CORE, (soft, hard))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the reports; exits 0."""
    job, journal, number, abort_at = sys.argv[1:] if argv is None else argv
    attempt = AttemptId(job_id=int(job), journal=journal, attempt=int(number))
    node, procfs = os.environ.get("SLURMD_NODENAME", ""), Path("/proc")
    ranks = on_this_node(procfs, attempt, os.environ.get("SLURM_STEP_ID", ""))
    for report in reports(procfs, ranks, node, time.sleep):
        sys.stdout.write(report.line())
    sys.stdout.write(done_line(node))
    sys.stdout.flush()
    if float(abort_at):
        time.sleep(min(_LONGEST_WAIT_S, max(0.0, float(abort_at) - time.time())))
        abort(procfs, ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
