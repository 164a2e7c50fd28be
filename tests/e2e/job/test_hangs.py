"""Jobs that hang, and ranks that wait for one that has failed: what the ranks did is kept, on real Slurm."""

from __future__ import annotations

import json
import pickle
import re

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


@pytest.mark.one_release
def test_after_the_second_timeout_without_a_rank_the_nodes_are_tested_in_pairs(
    clean_box: Box,
) -> None:
    job = training.submit(clean_box, nodes=3, rank=_TIMES_OUT)
    job.wait_state("COMPLETED", 120)
    log = job.log()
    assert log.count("testing the nodes in pairs") == 1, log
    assert "pairs of nodes: 2 tested, none of the nodes is to blame" in log
    assert (job.restarts, job.job()["excluded_nodes"]) == (0, "")


@pytest.mark.one_release
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


_FAILS = """
[ "$HOLDFAST_ATTEMPT" = 2 ] && { echo "again at $(date +%s.%N)"; exit 0; }
exec python3 -c '
import os, pickle, signal, threading, time
rank = int(os.environ["SLURM_PROCID"])
def recorder(pipe, dump):
    os.mkfifo(pipe)
    os.read(os.open(pipe, os.O_RDONLY), 9)
    entry = {"state": "scheduled", "process_group": ("0", "default_pg"), "collective_seq_id": 12}
    with open(dump + ".part", "wb") as out:
        pickle.dump({"entries": [entry]}, out)
    os.rename(dump + ".part", dump)
def waits_in_a_collective():
    os.read(os.pipe()[0], 1)
stems = [os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"], os.environ["TORCH_FR_DUMP_TEMP_FILE"]]
threading.Thread(target=recorder, args=(stems[0] + f"{rank}.pipe", stems[1] + str(rank)), daemon=True).start()
time.sleep(2)
if rank == 1:
    print(f"failed at {time.time()}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
waits_in_a_collective()
'
"""
_SOON_S = 12.0


def test_what_the_other_ranks_did_is_kept_when_one_fails(clean_box: Box) -> None:
    """A rank that is killed prints nothing. The others would be ended by Slurm at once."""
    before = "export TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/pipe_$SLURM_JOB_ID. " + (
        "TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_$SLURM_JOB_ID."
    )
    job = training.submit(clean_box, rank=_FAILS, before=before)
    job.wait_state("COMPLETED", 120)
    log = job.log()
    assert "task 1 on" in log, log
    own = clean_box.path(f"{job.folder}/.holdfast")
    kept = (own / f"job-{job.job_id}-attempt-1-failure.txt").read_text()
    assert "Killed" in kept.splitlines()[0]
    for rank in (0, 2, 3):
        assert f" rank {rank} pid " in kept, kept
    assert kept.count("waits for collective 12 of 0") == 3
    assert kept.count("in waits_in_a_collective") == 3, "the stacks of Python"
    dumps = [own / f"job-{job.job_id}-attempt-1-flight-rank-{rank}.pickle" for rank in (0, 2, 3)]
    assert all(pickle.loads(path.read_bytes())["entries"] for path in dumps)  # noqa: S301
    explain = ["holdfast", "explain", str(job.job_id), "--json", "--checkpoints", job.folder]
    first = json.loads(clean_box.run(explain, user="alice").stdout)["attempts"][0]
    assert not first["cause"], "no cause: the stacks of the others are none"
    said = {word: float(at) for word, at in re.findall(r"(failed|again) at ([\d.]+)", log)}
    delay_s = said["again"] - said["failed"]
    assert delay_s <= _SOON_S, f"{delay_s:.1f} s\n{log}"
    assert job.restarts == 0
