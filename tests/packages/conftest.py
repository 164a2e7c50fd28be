"""The chart as `scripts/package chart` writes it, and Helm if the machine has it or it was built."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages.chart.files import NAME, write_archive, write_folder
from packages.helm import Tool, find
from testbed.paths import cache

from tests.packages.helm import Helm

_NOT_BUILT = "{} is neither built nor on PATH: run scripts/package programs once (about 2 minutes)"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program=_program(Tool.HELM), folder=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    return _program(Tool.KUBECONFORM)


def _program(tool: Tool) -> Path:
    found = find(tool, cache())
    if found is None:
        pytest.skip(_NOT_BUILT.format(tool.program))
    return found


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that users install."""
    archive = tmp_path_factory.mktemp("chart") / f"{NAME}.tgz"
    write_archive(archive)
    return archive


@pytest.fixture(scope="session")
def chart_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / NAME
    write_folder(folder)
    return folder
