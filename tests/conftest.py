"""Boxes for the tests that need one: one for each Slurm release, for the whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from testbed.box import Box
from testbed.shape import RELEASES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        default=os.environ.get("HOLDFAST_TEST_SLURM") or " ".join(RELEASES),
        help="Slurm releases of the end-to-end tests, e.g. '24.11 26.05' (HOLDFAST_TEST_SLURM)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Whatever needs a box runs on every release; pytest keeps one release's tests together."""
    if "release" in metafunc.fixturenames:
        wanted = str(metafunc.config.getoption("--slurm")).split()
        if metafunc.definition.get_closest_marker("one_release"):
            wanted = [max(wanted)]
        metafunc.parametrize("release", wanted, scope="session")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests stay together when several processes share the work (pytest -n).

    One process for each release, which keeps its box, and one for what needs a single release: it
    is the longest and begins first. One for each file with a server of its own.
    """
    items.sort(key=lambda item: item.get_closest_marker("one_release") is None)
    for item in items:
        callspec = getattr(item, "callspec", None)
        release = callspec.params.get("release") if callspec else None
        if item.get_closest_marker("one_release"):
            item.add_marker(pytest.mark.xdist_group("one-release"))
        elif release:
            item.add_marker(pytest.mark.xdist_group(f"slurm-{release}"))
        elif item.path.parent.name == "contract":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def box(release: str) -> Iterator[Box]:
    """A running box of four nodes. It ends with this process, however that ends."""
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: run them with sudo", pytrace=False)
    running = Box.up(f"test-{release}-{os.getpid()}", slurm=release, owner_pid=os.getpid())
    yield running
    running.down()


@pytest.fixture
def clean_box(box: Box) -> Iterator[Box]:
    """The same box, brought back to rest after the test: no job, no fault, every node in service."""
    from tests.e2e import cluster

    yield box
    cluster.repair(box)
