"""SIGKILL for this user's own tasks of one job on this node: ``python -m slurm_hooks.job.end_tasks
JOB JOURNAL [STEP …]``.

The launcher runs it on each node of the job by ``srun --overlap``. While slurmstepd waits for
KillWait (180 s on Soperator) it answers no ``scancel --signal=KILL JOB.STEP`` (Slurm 24.11: "Socket
timed out"), and a rank that sits in a collective never runs its SIGTERM handler. The kernel asks
neither.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path


def tasks(
    procfs: Path, job_id: int, own_step: str, journal: str, steps: Collection[str] = ()
) -> Iterator[int]:
    """Pids of the tasks that the launcher with this journal started in the job: those of ``steps``,
    or of all steps but ``own_step``. A script may run several launchers side by side."""
    for entry in procfs.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            raw = (entry / "environ").read_bytes()
        except OSError:
            continue  # another user's, or gone
        environ = dict(pair.split(b"=", 1) for pair in raw.split(b"\0") if b"=" in pair)
        step = environ.get(b"SLURM_STEP_ID")
        if (
            environ.get(b"SLURM_JOB_ID") == str(job_id).encode()
            and environ.get(b"HOLDFAST_JOURNAL") == os.fsencode(journal)
            and step is not None
            and step != own_step.encode()
            and (not steps or os.fsdecode(step) in steps)
        ):
            yield int(entry.name)


def command(job_id: int, journal: Path, steps: Collection[str] = ()) -> list[str]:
    """The command line for a node of the job. It needs this installation at the same path there,
    and nothing of the job's own environment (a virtual environment, PYTHONPATH)."""
    root = Path(__file__).resolve().parents[2]
    argv = [str(job_id), str(journal), *sorted(steps)]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from {__name__} import main; main({argv!r})"
    return [sys.executable, "-I", "-c", code]


def main(argv: Sequence[str] | None = None) -> int:
    """Ends the tasks and exits 0, also when there was none."""
    job, journal, *steps = sys.argv[1:] if argv is None else argv
    own = os.environ.get("SLURM_STEP_ID", "")
    for pid in tasks(Path("/proc"), int(job), own, journal, steps):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
