"""What a real agent process needs: the simulated NVML of the unit tests, and folders of its own; and promtool."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed import debian
from testbed.errors import SandboxError
from testbed.paths import cache

from tests.unit.slurm_hooks.conftest import accepted_folder, nvml, nvml_library

__all__ = ["accepted_folder", "nvml", "nvml_library"]


@pytest.fixture(scope="session")
def promtool() -> Path:
    try:
        return debian.promtool(cache())
    except SandboxError as error:
        pytest.skip(str(error))
