"""One node's `/sim`, the library built once, and a fake box with only what hardware faults change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.h100 import build_library, make_node

from tests.component.h100.program import Program
from tests.conftest import FAILED

NODE_INDEX = 1
NODE = "worker-1"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("cache"))


@dataclass
class FolderNode:
    box: FolderBox

    @property
    def sim(self) -> Path:
        return self.box.folder / "nodes" / NODE

    @property
    def namespaces_pid(self) -> int:
        if self.box.power[-1:] == ["off"]:
            raise SandboxError(f"{NODE} is powered off")
        return 1


@dataclass
class FolderBox:
    """A box without a running node: its folder, and what was done to the power."""

    folder: Path
    power: list[str] = field(default_factory=list)

    def node(self, name: str) -> FolderNode:
        if name != NODE:
            raise SandboxError(f"no node '{name}'")
        return FolderNode(self)

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
    sim = tmp_path / "nodes" / NODE
    shutil.copytree(healthy, sim, symlinks=True, ignore=lambda *_: ["sys"])
    # Values of the tree change by replacing a file, so untouched ones may be shared.
    shutil.copytree(healthy / "sys", sim / "sys", symlinks=True, copy_function=os.link)
    return FolderBox(tmp_path)


@pytest.fixture
def sim(folder_box: FolderBox) -> Path:
    return folder_box.folder / "nodes" / NODE


@pytest.fixture(scope="session")
def _long_running(library: Path, healthy: Path) -> Iterator[list[Program]]:
    """One process, or none after a failure."""
    kept: list[Program] = []
    yield kept
    for running in kept:
        running.end()


@pytest.fixture
def program(
    _long_running: list[Program],
    library: Path,
    healthy: Path,
    sim: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Program]:
    """A process that has used NVML for long when the fault comes; this test's node is put under it."""
    link = healthy.with_name("current")
    link.unlink(missing_ok=True)
    link.symlink_to(sim)
    if not _long_running:
        _long_running.append(Program(library, link / "nvml.state"))
    yield _long_running[0]
    if request.node.stash.get(FAILED, False):  # an answer of this test may still come
        _long_running.pop().end()


@pytest.fixture
def victim(library: Path, sim: Path) -> Iterator[Program]:
    """A process that this test may kill."""
    running = Program(library, sim / "nvml.state")
    yield running
    running.end()
