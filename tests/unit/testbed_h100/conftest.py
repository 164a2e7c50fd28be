"""One node's `/sim`, the library built once, and a stand-in box that has only what hardware faults touch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from testbed.errors import SandboxError
from testbed.h100 import build_library, make_node

from tests.unit.testbed_h100.program import Program

NODE_INDEX = 1
NODE = "worker-1"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("cache"))


@dataclass
class FolderBox:
    """A box without a running node: its folder, and what was done to the power."""

    folder: Path
    power: list[str] = field(default_factory=list)

    def node(self, name: str) -> SimpleNamespace:
        if name != NODE:
            raise SandboxError(f"no node '{name}'")
        return SimpleNamespace(sim=self.folder / "nodes" / name)

    def power_off(self, node: str) -> None:
        self.power.append("off")

    def power_on(self, node: str) -> None:
        self.power.append("on")


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sim = tmp_path_factory.mktemp("healthy") / "sim"
    make_node(sim, NODE_INDEX)
    (sim / "boot_id").write_text("one\n")
    return sim


@pytest.fixture
def folder_box(healthy: Path, tmp_path: Path) -> FolderBox:
    shutil.copytree(healthy, tmp_path / "nodes" / NODE, symlinks=True)
    return FolderBox(tmp_path)


@pytest.fixture
def sim(folder_box: FolderBox) -> Path:
    return folder_box.folder / "nodes" / NODE


@pytest.fixture
def program(library: Path, sim: Path) -> Iterator[Program]:
    running = Program(library, sim / "nvml.state")
    yield running
    running.end()
