"""The box for tests that need one: one box for each Slurm release in a session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from testbed.box import Box
from testbed.shape import RELEASES

OF_NODES = ("test_detection.py", "test_faults_show.py", "test_unrepaired.py")
"""Tests of nodes, not of Slurm: they run on the newest selected release only."""

# The speed of the machine is not tested here; scripts/bench measures it.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        default=os.environ.get("HOLDFAST_TEST_SLURM") or " ".join(RELEASES),
        help="Slurm releases of the end-to-end tests, e.g. '24.11 26.05' (HOLDFAST_TEST_SLURM)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that need a box run on every release; pytest groups the tests of a release."""
    if "release" in metafunc.fixturenames:
        wanted = str(metafunc.config.getoption("--slurm")).split()
        if metafunc.definition.path.name in OF_NODES:
            wanted = [max(wanted)]
        metafunc.parametrize("release", wanted, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``HOLDFAST_TEST_RETRIES``: how often a failed end-to-end test is retried; each failure is shown.

    For unattended, shared machines (.ci/run). The default is 0: a test that fails sometimes has found
    a fault that occurs sometimes.
    """
    retries = int(os.environ.get("HOLDFAST_TEST_RETRIES") or 0)
    for item in items:
        if retries and item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.flaky(reruns=retries))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        report.toterminal(terminalreporter._tw)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests run in the same process with several workers (pytest -n)."""
    from xdist.scheduler import LoadScopeScheduling

    class ByBox(LoadScopeScheduling):  # type: ignore[misc]
        """One process for each release and its box, one for tests on a single release, other files in
        any process. Grouping by marks (loadgroup) does nothing under pytest 9."""

        def _split_scope(self, nodeid: str) -> str:
            file, _, rest = nodeid.partition("::")
            release = re.search(r"\[([0-9]+\.[0-9]+)", rest)
            if Path(file).name in OF_NODES:
                return "of nodes"
            return f"Slurm {release[1]}" if release and not file.startswith("tests/unit") else file

    return ByBox(config, log)


@pytest.fixture(scope="session")
def box(release: str) -> Iterator[Box]:
    """A running box of four nodes. It ends with this process."""
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: run them with sudo", pytrace=False)
    running = Box.up(f"test-{release}-{os.getpid()}", slurm=release, owner_pid=os.getpid())
    yield running
    running.down()


@pytest.fixture
def clean_box(box: Box) -> Iterator[Box]:
    """The same box, cleaned up after the test: no job, no fault, every node in service."""
    from tests.e2e import cluster

    yield box
    cluster.repair(box)
