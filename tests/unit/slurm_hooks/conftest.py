"""A private build of the simulated NVML, for tests that run the real binding."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class SimulatedNvml:
    """One simulated node: ``library`` to load, ``state`` to inject into."""

    library: str
    state: Path

    def set(self, key: str, value: object) -> None:
        """Inject: one appended line, seen by the next NVML call of every process."""
        with self.state.open("a") as file:
            file.write(f"{key} = {value}\n")


@pytest.fixture(scope="session")
def nvml_library() -> str:
    from testbed.h100 import build_library

    cache = Path(tempfile.gettempdir()) / f"holdfast-nvml-{os.getuid()}"
    cache.mkdir(exist_ok=True, mode=0o700)
    return str(build_library(cache))


@pytest.fixture
def nvml(
    nvml_library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedNvml]:
    state = tmp_path / "nvml.state"
    state.touch()
    monkeypatch.setenv("NVMLSIM_STATE", str(state))
    sim = SimulatedNvml(nvml_library, state)
    yield sim
    # A worker that cannot be killed ends when the simulated state releases it.
    state.write_text("")


@pytest.fixture(autouse=True)
def accepted_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder for the accepted configuration of a test's agents and hooks, not that of this machine."""
    folder = tmp_path_factory.getbasetemp() / "accepted" / str(next(_NUMBERS))
    monkeypatch.setenv("HOLDFAST_STATE", str(folder))
    return folder


_NUMBERS = itertools.count()
