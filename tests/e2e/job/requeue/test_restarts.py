"""What a failed job's output leads to, on real Slurm (docs/reference/restarts.md)."""

from __future__ import annotations

import pytest
from testbed.box import Box

from holdfast.slurm.hostlist import expand
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
