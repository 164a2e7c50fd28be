"""A node is cut off from slurmctld and from the other nodes, but not from the file store: the attempt that Slurm
replaces writes nothing more once the next one has started.
"""

from __future__ import annotations

import time

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

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


@pytest.mark.parametrize("launchers_node", [False, True])
def test_an_attempt_that_was_cut_off_ends_before_the_next_one_starts(
    clean_box: Box, launchers_node: bool
) -> None:
    job = training.submit(clean_box, rank=_RANK)
    job.wait(lambda: len(_writes(job, 1)) > 20, "writes of all ranks")
    batch_host = job.job()["batch_host"]
    cut = next(name for name in job.nodes() if (name == batch_host) is launchers_node)
    assert _tasks(clean_box, cut)

    clean_box.fault(cut, "network-cut")
    cut_at = time.time()
    job.wait(lambda: job.state == "PENDING" and job.restarts == 1, "the requeue", 90)
    start_now = ["scontrol", "update", f"JobId={job.job_id}", "StartTime=now"]
    job.wait(
        lambda: job.state != "PENDING" or not clean_box.run(start_now, check=False), "its start", 30
    )
    job.wait(lambda: bool(_writes(job, 2)), "a write of the next attempt", 60)

    old, new = _writes(job, 1), _writes(job, 2)
    written = [at for at, node in old if node == cut]
    assert max(written) > cut_at + 2, "the file store was there, and the node went on for a while"
    assert max(at for at, _ in old) < min(at for at, _ in new)
    assert cut not in {node for _, node in new}
    assert not _tasks(clean_box, cut), "killed, although neither slurmctld nor srun can reach them"
    cluster.stays(lambda: _writes(job, 1) == old, "nothing more of the old attempt", 3)
    assert "waiting" in job.log()
