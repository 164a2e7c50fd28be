"""Runs a small program on nodes of the job in an extra step (``srun --overlap``)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})


def overlapping(job_id: int, count: int, *, nodes: str = "") -> list[str]:
    """The srun command that starts one task on each of ``count`` nodes (``nodes``: a hostlist, empty:
    all) without waiting for resources that the job's steps hold."""
    argv = ["srun", "--quiet", "--overlap", f"--jobid={job_id}", "--kill-on-bad-exit=0"]
    argv += [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
    argv += [f"--nodelist={nodes}"] if nodes else []
    return [*argv, "--cpus-per-task=1", "--mem=0", "--gres=none", "--output=all"]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the options for the job's own steps: srun reads each ``SLURM_`` variable
    as an option (``SLURM_STDOUTMODE``, ``SLURM_DISTRIBUTION``, …)."""
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not name.startswith(("SLURM_", "SRUN_"))
    }


def python_code(module: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``module``'s ``main`` on the node. It needs this installation at the
    same path, and nothing from the job's environment (a virtual environment, PYTHONPATH)."""
    root = Path(__file__).resolve().parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from {module} import main; main({list(argv)!r})"
    return [sys.executable, "-I", "-c", code]
