"""A job that hangs silently, on real Slurm: ended, explained and continued elsewhere."""

from __future__ import annotations

import json

import pytest
from testbed.box import Box

from holdfast.slurm.hostlist import expand
from tests.e2e.job import training

pytestmark = pytest.mark.e2e

_RANK = """
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
exec python3 -c '
import os, time
def stuck_here():
    time.sleep(3600)
def waits_for_the_others():
    os.read(os.pipe()[0], 1)
print("step 1", flush=True)
stuck_here() if os.environ["SLURM_PROCID"] == "3" else waits_for_the_others()
'
"""


_TIMES_OUT = """
[ "$HOLDFAST_ATTEMPT" = 3 ] && exit 0
[ "$SLURM_PROCID" = 1 ] || exec sleep 60
echo "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)" >&2
exit 1
"""


def test_after_the_second_timeout_without_a_rank_the_nodes_are_tested_in_pairs(
    clean_box: Box,
) -> None:
    job = training.submit(clean_box, nodes=3, rank=_TIMES_OUT)
    job.wait_state("COMPLETED", 120)
    log = job.log()
    assert log.count("testing the nodes in pairs") == 1, log
    assert "pairs of nodes: 2 tested, none of the nodes is to blame" in log
    assert (job.restarts, job.job()["excluded_nodes"]) == (0, "")


def test_a_silent_hang_is_ended_and_the_rank_that_the_others_wait_for_is_named(
    clean_box: Box,
) -> None:
    job = training.submit(clean_box, rank=_RANK, run="--hang-timeout 20")
    job.wait(lambda: len(job.nodes()) == 2, "its nodes")
    named = job.nodes()[1]
    job.wait_state("COMPLETED", 180)
    record, log = job.job(), job.log()
    assert "step ended: hang: nothing printed and no checkpoint written for" in log
    assert f"suspected: {named}: rank 3: sleeps in hrtimer_nanosleep" in log
    assert (job.restarts, expand(record["excluded_nodes"])) == (1, [named]), log
    explain = ["holdfast", "explain", str(job.job_id), "--json", "--checkpoints", job.folder]
    first = json.loads(clean_box.run(explain, user="alice").stdout)["attempts"][0]
    assert first["ended_why"].startswith("hang: nothing printed")
    assert first["cause"] == first["ended_why"]
    page = f"{job.folder}/.holdfast/job-{job.job_id}-attempt-1-hang.txt"
    kept = clean_box.path(page).read_text()
    assert f"{named} rank 3 " in kept
    assert "in stuck_here" in kept, "the stacks of Python"
    assert kept.count("in waits_for_the_others") == 3
