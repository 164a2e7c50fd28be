"""What a failed job's output leads to, on real Slurm (docs/reference/restarts.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.box import Box

from holdfast.slurm.hostlist import expand
from tests.e2e import agents
from tests.e2e.job import training

pytestmark = pytest.mark.e2e

_FIRST = "holdfast run --checkpoints FOLDER -- sh -c 'echo ran >> FOLDER/first'"
_RANK = """
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
[ "$SLURM_PROCID" = 3 ] || exec sleep 60
echo "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered" >&2
exit 1
"""


def test_a_node_that_the_output_names_is_excluded_beside_the_owners(clean_box: Box) -> None:
    """The owner's --exclude stays, and the script's first command is not run again."""
    job = training.submit(clean_box, options=("--exclude=worker-3",), rank=_RANK, before=_FIRST)
    job.wait(lambda: len(job.nodes()) == 2, "its nodes")
    named = job.nodes()[1]
    job.wait_state("COMPLETED", 90)
    record, log = job.job(), job.log()
    assert set(expand(record["excluded_nodes"])) == {"worker-3", named}, log
    assert (job.restarts, named in job.nodes()) == (1, False)
    assert clean_box.path(f"{job.folder}/first").read_text() == "ran\n"
    assert "decision: requeue: its output, attributed to" in log
    assert "has finished in an earlier run of the job; not run again" in log


@pytest.fixture
def keeping_box(clean_box: Box) -> Iterator[Box]:
    """Its jobs have whole nodes, which are kept while a job is requeued."""
    before = agents.configure(
        clean_box, lambda text: text.replace("job: {", "job: {keep_nodes: true, ")
    )
    assert "job: {" in before
    yield clean_box
    agents.configure(clean_box, lambda _text: before)


def test_a_bad_node_that_a_job_names_is_replaced_and_no_kept_node_stays_reserved(
    keeping_box: Box, release: str
) -> None:
    """Slurm alone lets the job wait for the drained node."""
    expedited = ("--requeue=expedite",) if release >= "25.11" else ()
    named = "--nodelist=worker-1,worker-2"
    job = training.submit(
        keeping_box, options=(named, *expedited), run="--replace-nodes", steps=300
    )
    job.wait_step(2)
    keeping_box.fault("worker-2", "xid", "79", "--gpu", "1")
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "its next run")
    nodes, log = set(job.nodes()), job.log()
    assert ("worker-1" in nodes, "worker-2" in nodes, len(nodes)) == (True, False, 2), log
    assert "another node takes the place of worker-2, which --nodelist names" in log
    held = keeping_box.run(["scontrol", "show", "reservation", "--oneliner"]).stdout
    assert "ReservationName=" not in held
    keeping_box.run(["scancel", str(job.job_id)])
