"""Short jobs that start and end on every node, without a pause."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass

from testbed.box import Box

from tests.e2e import cluster

AT_ONCE = 60
"""Tasks of one job array."""
_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Ran:
    """A record of accounting: a job that was requeued has one for each run."""

    job: str
    state: str
    exit_code: str
    start: int
    node: str


class Storm:
    """Submits arrays of jobs that take a second, until ``end``."""

    def __init__(self, box: Box) -> None:
        self._box, self._ended = box, threading.Event()
        self.problem = ""
        self._thread = threading.Thread(target=self._submit, daemon=True)
        self._thread.start()

    def _submit(self) -> None:
        try:
            while not self._ended.is_set():
                if len(self._queued("PENDING")) < 2:
                    words = [
                        "sbatch",
                        "--parsable",
                        "--requeue",
                        "--cpus-per-task=8",
                        "--chdir=/tmp",
                    ]
                    words += ["--output=/dev/null", f"--array=1-{AT_ONCE}", "--wrap=sleep 1"]
                    self._run(words, user="alice")
                self._ended.wait(_PAUSE_S)
        except AssertionError as error:
            self.problem = str(error)

    def _queued(self, state: str) -> list[str]:
        """One line for each array of alice, and each running task."""
        argv = ["squeue", "--noheader", "--user=alice", f"--states={state}", "--format=%i"]
        return self._run(argv).split()

    def _run(self, argv: list[str], user: str = "root") -> str:
        """slurmctld does not answer while it reads slurm.conf again: a user would try again, too."""
        for _ in range(10):
            done: subprocess.CompletedProcess[str] = self._box.run(argv, user=user, check=False)
            if done.returncode == 0:
                return done.stdout
            time.sleep(_PAUSE_S)
        raise AssertionError(f"{argv}: {done.stderr}")

    def end(self) -> None:
        """No further jobs; waits for those that are queued."""
        self._ended.set()
        self._thread.join()
        assert not self.problem, self.problem
        states = "PENDING,RUNNING,COMPLETING,CONFIGURING"
        cluster.wait_for(lambda: not self._queued(states), "the last job of the storm ended", 180)


def of_all_jobs(box: Box) -> list[Ran]:
    """Accounting's records of all jobs of alice, once all have ended there too."""
    what = "JobID,State,ExitCode,Start,NodeList"
    argv = ["sacct", "--user=alice", "--allocations", "--duplicates", "--parsable2", "--noheader"]
    argv += ["--starttime=now-1days", f"--format={what}"]

    def read() -> list[Ran]:
        lines = box.run(argv, env={"SLURM_TIME_FORMAT": "%s"}).stdout.splitlines()
        rows = [line.split("|") for line in lines]
        return [
            Ran(job, state, code, int(start) if start.isdigit() else 0, node)
            for job, state, code, start, node in rows
        ]

    cluster.wait_for(
        lambda: all(ran.state not in ("RUNNING", "PENDING") for ran in read()),
        "the end of each job in accounting",
    )
    return read()


def started(ran: list[Ran], begin: float, end: float) -> Counter[str]:
    """How many jobs of one node started on each node in that time."""
    return Counter(each.node for each in ran if begin <= each.start <= end)
