"""What a check is told of its node, what became of its program, and how programs are found."""

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
from slurm_hooks.active.result import Judged, could_not_run, failed, one_line

WHERE = ("/opt/nccl-tests/build", "/usr/local/nccl-tests/build", "/opt/nccl_tests/build")
"""Where images put nccl-tests when they are not along PATH (Azure's HPC images: the first)."""


_HAS_CUDA = """
import sys
try:
    import torch
except ImportError as error:
    sys.exit(str(error))
sys.exit(0 if torch.cuda.is_available() else "torch sees no GPU")
"""
_TORCH_START_S = 120.0
"""torch from a cold network filesystem takes its time."""


class Missing(HoldfastError):
    """The program of an active check is not on this node: could-not-run, never passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node as its configuration describes it. ``for_gate``: the result decides whether the node
    returns, so what a check in mode observe finds does not count (law 5).
    """

    gpus: int
    mounts: tuple[str, ...] = ()
    config: Path = Path("/etc/holdfast/holdfast.yaml")
    torch_python: str = ""
    nccl_tests: str = ""
    for_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended. ``status`` None: it did not within ``limit_s``."""

    status: int | None
    out: str = ""
    err: str = ""
    limit_s: float = 0.0


def unfinished(ran: Ran, what: str) -> Judged | None:
    """A program that began and never ended is evidence against the node; one that says nothing is
    none.
    """
    if ran.status is None:
        return failed(f"{what} did not end within {ran.limit_s:g} s")
    if not ran.out.strip():
        return could_not_run(f"{what} ended with {ran.status}: {one_line(ran.err) or 'no output'}")
    return None


def find(name: str, folders: Sequence[str] = ()) -> str:
    """Where the program is: in ``folders``, else along PATH. Raises ``Missing``."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), PATH])
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} is not installed here (looked along PATH)")
    return found


def own_program(module: str, *words: str) -> list[str]:
    """One of our own programs, by the Python that we run on."""
    return [sys.executable, "-I", "-m", module, *words]


def find_torch(node: Node) -> str:
    """A Python whose torch sees a GPU: the configured one, else python3 along PATH, else our own.
    Raises ``Missing`` with what each of them said.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:  # torch would take seconds to find out
        raise Missing("no CUDA driver here (libcuda.so.1 cannot be loaded)") from None
    said = []
    for python in [node.torch_python] if node.torch_python else _pythons():
        try:
            done = complete([python, "-c", _HAS_CUDA], timeout_s=_TORCH_START_S)
        except CommandError as error:
            said.append(f"{python}: {error.problem}")
            continue
        if done.status == 0:
            return python
        said.append(f"{python}: {one_line(done.err, 80) or 'torch sees no GPU'}")
    raise Missing(f"no torch with CUDA here ({'; '.join(said)})")


def _pythons() -> list[str]:
    along_path = shutil.which("python3", path=os.pathsep.join([os.environ.get("PATH", ""), PATH]))
    found = [path for path in (along_path, sys.executable) if path]
    # python and python3 of one folder are one Python; a venv's and its base are two.
    return list({(str(Path(path).parent), Path(path).resolve()): path for path in found}.values())


def load_program(name: str) -> str:
    """The file of one of our load programs: run by whatever Python has a torch."""
    return str(Path(__file__).parent / "programs" / name)
