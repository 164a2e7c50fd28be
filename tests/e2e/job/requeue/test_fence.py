"""A node is cut off from slurmctld and from the other nodes, but not from the file store: the attempt that Slurm
replaces writes nothing more once the next one has started.
"""

from __future__ import annotations

import time

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

_RANK = """
writes=$(dirname "$HOLDFAST_JOURNAL")/../writes.$HOLDFAST_ATTEMPT
end=$((SECONDS + 8))
while [ "$HOLDFAST_ATTEMPT" = 1 ] || [ $SECONDS -lt $end ]; do
  echo "$EPOCHREALTIME $SLURMD_NODENAME" >>"$writes"
  sleep 0.1
done
"""
"""Each rank writes for itself, as one that saves from a thread, and waits for no other."""


def _writes(job: training.Training, attempt: int) -> list[tuple[float, str]]:
    try:
        text = job.box.path(f"{job.folder}/writes.{attempt}").read_text()
    except FileNotFoundError:
        return []
    rows = (line.split() for line in text.splitlines())
    return [(float(row[0]), row[1]) for row in rows if len(row) == 2]


def _tasks(box: Box, node: str) -> list[int]:
    return [pid for pid, words in box.pids(node) if any("writes" in word for word in words)]


def _cut_node(job: training.Training, *, launchers_node: bool) -> str:
    job.wait(lambda: len(_writes(job, 1)) > 20, "writes of all ranks")
    batch_host = job.job()["batch_host"]
    return next(name for name in job.nodes() if (name == batch_host) is launchers_node)


def _next_attempt(job: training.Training) -> None:
    """Waits for its first write. It needs the two nodes that are left, as the other job's does."""
    box = job.box
    job.wait(lambda: job.restarts == 1, "the requeue", 90)
    start_now = ["scontrol", "update", f"JobId={job.job_id}", "StartTime=now"]
    job.wait(lambda: job.state != "PENDING" or not box.run(start_now, check=False), "its start", 60)
    job.wait(lambda: bool(_writes(job, 2)), "a write of the next attempt", 120)


def test_attempts_that_were_cut_off_end_before_the_next_ones_start(clean_box: Box) -> None:
    """One job loses the node of its launcher, and one its other node."""
    jobs = [training.submit(clean_box, rank=_RANK) for _ in range(2)]
    cuts = {
        _cut_node(job, launchers_node=launchers_node): job
        for job, launchers_node in zip(jobs, (False, True), strict=True)
    }
    for cut in cuts:
        assert _tasks(clean_box, cut)
        clean_box.fault(cut, "network-cut")
    cut_at = time.time()
    for job in jobs:
        _next_attempt(job)

    for cut, job in cuts.items():
        old, new = _writes(job, 1), _writes(job, 2)
        written = [at for at, node in old if node == cut]
        assert max(written) > cut_at + 2, (
            "the file store was there, and the node went on for a while"
        )
        assert max(at for at, _ in old) < min(at for at, _ in new)
        assert not {node for _, node in new} & cuts.keys()
        assert not _tasks(clean_box, cut), (
            "killed, although neither slurmctld nor srun can reach them"
        )
        cluster.stays(lambda: _writes(job, 1) == old, "nothing more of the old attempt", 3)  # noqa: B023
        assert "waiting" in job.log()
    # slurmctld looks at nodes that are DOWN once a minute only. A slurmd that starts registers at once.
    for cut in cuts:
        clean_box.heal(cut)
        clean_box.fault(cut, "slurmd-killed")
