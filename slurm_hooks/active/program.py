"""The input of an active check (its node), the result of its program, and how programs are found."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.adapters.command import PATH, complete
from holdfast.errors import CommandError, HoldfastError
from holdfast.own_program import zipapp
from slurm_hooks.active.result import Judged, could_not_run, failed, one_line

WHERE = ("/opt/nccl-tests/build", "/usr/local/nccl-tests/build", "/opt/nccl_tests/build")
"""Folders of nccl-tests in images where it is not in PATH (Azure's HPC images: the first)."""


_HAS_CUDA = """
import sys
try:
    import torch
except ImportError as error:
    sys.exit(str(error))
sys.exit(0 if torch.cuda.is_available() else "torch sees no GPU")
"""
_TORCH_START_S = 120.0
"""Loading torch from a cold network filesystem is slow."""


class Missing(HoldfastError):
    """The program of an active check is not installed on this node: error, never passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node, from its configuration. ``for_return``: the result decides whether the node returns
    to service, so findings of checks in mode observe do not count (rule 5).
    """

    gpus: int
    mounts: tuple[str, ...] = ()
    config: Path = Path("/etc/holdfast/holdfast.yaml")
    torch_python: str = ""
    nccl_tests: str = ""
    for_return: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended. ``status`` None: it did not end within ``limit_s`` seconds."""

    status: int | None
    out: str = ""
    err: str = ""
    limit_s: float = 0.0


def unfinished(ran: Ran, what: str) -> Judged | None:
    """Failed if the program did not end, error if it had no output; None otherwise.

    A program that starts and does not end is evidence against the node. One without output is not.
    """
    if ran.status is None:
        return failed(f"{what} did not end within {ran.limit_s:g} s")
    if not ran.out.strip():
        return could_not_run(f"{what} exited with {ran.status}: {one_line(ran.err) or 'no output'}")
    return None


def find(name: str, folders: Sequence[str] = ()) -> str:
    """Path of the program in ``folders``, else in PATH. Raises ``Missing``."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), PATH])
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} not found in PATH")
    return found


def find_torch(node: Node) -> str:
    """A Python with torch that sees a GPU: the configured one, else python3 in PATH, else this one.
    Raises ``Missing`` with the reason of each.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:  # torch would need seconds to detect this
        raise Missing("no CUDA driver on this node (cannot load libcuda.so.1)") from None
    reasons = []
    for python in [node.torch_python] if node.torch_python else _pythons():
        try:
            done = complete([python, "-c", _HAS_CUDA], timeout_s=_TORCH_START_S)
        except CommandError as error:
            reasons.append(f"{python}: {error.problem}")
            continue
        if done.status == 0:
            return python
        reasons.append(f"{python}: {one_line(done.err, 80) or 'torch sees no GPU'}")
    raise Missing(f"no torch with CUDA on this node ({'; '.join(reasons)})")


def _pythons() -> list[str]:
    in_path = shutil.which("python3", path=os.pathsep.join([os.environ.get("PATH", ""), PATH]))
    found = [path for path in (in_path, sys.executable) if path]
    # python and python3 in one folder are the same Python; a venv and its base are not.
    return list({(str(Path(path).parent), Path(path).resolve()): path for path in found}.values())


def load_program(name: str) -> str:
    """Path of a load program. It is run by a Python that has torch. Raises ``Missing`` in a zipapp."""
    if zipapp():
        raise Missing("a zipapp has no load programs: install Holdfast on the node")
    return str(Path(__file__).parent / "programs" / name)
