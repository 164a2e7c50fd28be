"""Which processes that torch names in an out-of-memory error are not the job's own.

torch prints ``Process 4711 has 40.00 GiB memory in use`` for each other process on the GPU. It may be another rank,
or one that somebody else has left there: then the job fails on this node again, whatever its batch size. Only the
node knows whose process it is, so the launcher asks it, by ``srun --overlap``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.job.diagnosis.lines.line import Cause
from slurm_hooks.job.signatures import Kind
from slurm_hooks.job.step.overlap_step import environment, overlapping, python_code
from slurm_hooks.node import kernel_files
from slurm_hooks.node.process import environment as environment_of
from slurm_hooks.node.process import process_state
from slurm_hooks.node.process_scan import uid_of

_NAMED = re.compile(r"\bProcess (?P<pid>\d{1,9}) has [1-9]\d{0,4}(?:\.\d+)? GiB memory in use")
"""A process with less than a GiB, as a monitor's, leaves enough."""
_MOST = 64
_ANSWER = re.compile(r"holdfast-not-of-the-job ([\d,]+)")
_TIMEOUT_S = 15.0


def named(cause: Cause | None) -> tuple[int, ...]:
    """The other processes that an out-of-memory error names. Pure."""
    if cause is None or cause.signature.kind is not Kind.GPU_MEMORY:
        return ()
    found = (int(match["pid"]) for match in _NAMED.finditer(cause.line.text))
    return tuple(dict.fromkeys(found))[:_MOST]


def not_of_the_job(job_id: int, node: str, pids: Sequence[int]) -> tuple[int, ...]:
    """Those of ``pids`` that run on this node and are not the job's. None, if the node does not answer."""
    argv = overlapping(job_id, 1, nodes=node)
    argv += python_code(__name__, [str(job_id), *map(str, pids)])
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv,
            env=environment(os.environ),
            stdin=null,
            stdout=subprocess.PIPE,
            stderr=null,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = _ANSWER.search(done.stdout.decode("utf-8", "replace"))
    return tuple(int(pid) for pid in found[1].split(",") if pid) if found else ()


def is_of_others(procfs: Path, pid: int, job_id: int) -> bool:
    """Whether the process runs and belongs to no process group of the job. False where that is not known."""
    folder = procfs / str(pid)
    owner = uid_of(folder)
    if process_state(pid, str(procfs)) is None or owner is None:
        return False
    if f"/job_{job_id}/" in kernel_files.text(str(folder / "cgroup")):
        return False
    if owner != os.geteuid():
        return True
    try:
        raw = environment_of(folder)
    except OSError:
        return False
    return b"SLURM_JOB_ID=%d" % job_id not in raw.split(b"\0")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the line; exits 0."""
    job, *pids = sys.argv[1:] if argv is None else argv
    found = [pid for pid in pids if is_of_others(Path("/proc"), int(pid), int(job))]
    if found:
        sys.stdout.write(f"holdfast-not-of-the-job {','.join(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
