"""Prints which steps of a job run on this node: ``python -m slurm_hooks.job.step.node_steps JOB``.

The launcher runs it, by ``srun --overlap``, on nodes of its job whose slurmd has restarted. After a
restart of slurmd alone each step's slurmstepd still runs; after a boot or in a new pod none does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holdfast.slurm.hostlist import compress
from slurm_hooks.job.step.overlap_step import environment, overlapping, python_code
from slurm_hooks.node import slurmstepds

EXTERN = "extern"
_ANSWER = re.compile(r"holdfast-steps (\S+) (\S+)")
_NONE = "-"


def steps_here(job_id: int, procfs: Path = Path("/proc")) -> frozenset[str]:
    """The job's steps that have a slurmstepd on this node, e.g. ``{"extern", "0"}``."""
    return frozenset(step for job, step in slurmstepds.steps(procfs) if job == job_id)


def steps_on(job_id: int, nodes: Collection[str], timeout_s: float) -> Mapping[str, frozenset[str]]:
    """The job's steps on each of ``nodes`` that answered in time, without the step of this query."""
    argv = overlapping(job_id, len(nodes), nodes=compress(sorted(nodes)))
    argv += python_code(__name__, [str(job_id)])
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv,
            env=environment(os.environ),
            stdin=null,
            stdout=subprocess.PIPE,
            stderr=null,
            timeout=timeout_s,
            check=False,
        )
        output = done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    except OSError:
        output = b""
    return answers(output.decode("utf-8", "replace"))


def answers(text: str) -> Mapping[str, frozenset[str]]:
    """What the nodes printed, by node."""
    return {
        node: frozenset() if steps == _NONE else frozenset(steps.split(","))
        for node, steps in _ANSWER.findall(text)
    }


def answer(node: str, own_step: str, steps: Collection[str]) -> str:
    """One line for the launcher. Empty where this node's slurmstepds are not visible (hidepid, a
    process namespace): no answer is no evidence."""
    if not node or own_step not in steps:
        return ""
    others = sorted(set(steps) - {own_step})
    return f"holdfast-steps {node} {','.join(others) or _NONE}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the line; exits 0."""
    (job,) = sys.argv[1:] if argv is None else argv
    own, node = os.environ.get("SLURM_STEP_ID", ""), os.environ.get("SLURMD_NODENAME", "")
    sys.stdout.write(answer(node, own, steps_here(int(job))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
