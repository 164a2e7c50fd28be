"""The box for tests that need one: one box for each Slurm release in a session."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from testbed.box import Box
from testbed.rootfs import product, roots
from testbed.shape import RELEASES

from tests import workers
from tests.cpu_usage import CpuUsage
from tests.summary import Result, terraform_lines

GIVEN_ROOT = os.environ.get("HOLDFAST_TEST_ROOT", "")
"""A root made elsewhere (scripts/sandbox up --root): its release is tested as one more."""
FAILED = pytest.StashKey[bool]()
"""Whether the test has failed, for the fixtures that it used."""
RETRIES = int(os.environ.get("HOLDFAST_TEST_RETRIES") or 0)
LINES_AT_ONCE = 25
STARTS = 4
"""After so many boxes in a row that did not start a worker starts no other: each try takes minutes."""
NO_PYSLURM = "HOLDFAST_TEST_ROOT names no root with a Slurm and its pyslurm in it"

# pytest-xdist sets it for its workers, and Holdfast's commands wrap their tables at it.
os.environ.pop("COLUMNS", None)

# How long a machine takes is no fault of what is tested: figures come from scripts/bench.
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


def pytest_configure(config: pytest.Config) -> None:
    if file := os.environ.get("HOLDFAST_TEST_CPU"):
        config.pluginmanager.register(CpuUsage(Path(file)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Whatever needs a box runs on every release; pytest keeps one release's tests together."""
    if "release" not in metafunc.fixturenames:
        return
    wanted: list[Any] = str(metafunc.config.getoption("--slurm")).split()
    if metafunc.definition.get_closest_marker("pyslurm"):
        skipped = pytest.param("none", marks=pytest.mark.skip(reason=NO_PYSLURM))
        has_it = bool(_given_release()) and product.has_pyslurm(Path(GIVEN_ROOT))
        wanted = [_given_release()] if has_it else [skipped]
    elif metafunc.definition.get_closest_marker("one_release"):
        wanted = [max(wanted or [_given_release()])]
    elif _given_release() and _given_release() not in wanted:
        wanted.append(_given_release())
    metafunc.parametrize("release", wanted, scope="session")


@functools.cache
def _given_release() -> str:
    """The Slurm release of the given root; empty without one, and without the rights to look."""
    return roots.release_of(Path(GIVEN_ROOT)) if GIVEN_ROOT and os.geteuid() == 0 else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``HOLDFAST_TEST_RETRIES``: how often a failed test is retried; each failure is shown.

    For unattended, shared machines (.ci/run). The default is 0: a test that fails sometimes has found
    a fault that occurs sometimes.
    """
    for item in items:
        if RETRIES:
            item.add_marker(pytest.mark.flaky(reruns=RETRIES))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """``HOLDFAST_TEST_END``: the time (epoch seconds) after which no test starts; .ci/run has a limit."""
    end = float(os.environ.get("HOLDFAST_TEST_END") or "inf")
    if time.time() > end:
        item.session.shouldfail = "the time for the tests is over (HOLDFAST_TEST_END)"
        pytest.fail(item.session.shouldfail, pytrace=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Unattended: print a failure when it occurs. A run that is ended from outside prints no summary."""
    if RETRIES and report.outcome not in ("passed", "skipped") and not _in_worker():
        print(_at_once(report), file=sys.__stderr__, flush=True)


def _in_worker() -> bool:
    """Whether this process is a worker of pytest-xdist, whose reports the main process gets."""
    return "PYTEST_XDIST_WORKER" in os.environ


def _at_once(report: pytest.TestReport) -> str:
    """A failure in at most ``LINES_AT_ONCE`` lines of each part: the end tells most."""
    seconds = f"{report.duration:.0f} s"
    lines = [f"\n{report.outcome}: {report.nodeid} ({report.when}, {seconds})"]
    for text in (report.longreprtext, report.capstdout, report.capstderr):
        lines += text.splitlines()[-LINES_AT_ONCE:]
    return "\n".join(lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        report.toterminal(terminalreporter._tw)
    lines = terraform_lines(_results(terminalreporter))
    if lines:
        terminalreporter.section("Terraform")
        for line in lines:
            terminalreporter.line(line)


def _results(terminalreporter: pytest.TerminalReporter) -> Iterator[Result]:
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            # A skip is (file, line, reason).
            place = report.longrepr if outcome == "skipped" else None
            reason = place[2].removeprefix("Skipped: ") if isinstance(place, tuple) else ""
            yield Result(report.nodeid, outcome, reason)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which tests run in the same process with several workers (pytest -n)."""
    return workers.scheduler(config, log)


class Boxes:
    """At most one running box of four nodes, for the tests of one release. It ends with this process."""

    def __init__(self) -> None:
        self._release = ""
        self._box: Box | None = None
        self._problems: list[str] = []
        """Why boxes did not start, since one did."""

    def get(self, release: str) -> Box:
        if self._box is None or release != self._release:
            self.end()
            if len(self._problems) >= STARTS:
                pytest.fail(f"no box starts here: {self._problems[0]}", pytrace=False)
            try:
                self._box = self._start(release)
            except BaseException as error:
                self._problems.append(f"{type(error).__name__}: {error}")
                raise
            self._problems.clear()
            self._release = release
        return self._box

    @staticmethod
    def _start(release: str) -> Box:
        given = release == _given_release()
        return Box.up(
            f"test-{release}-{os.getpid()}",
            slurm=None if given else release,
            root=GIVEN_ROOT if given else None,
            owner_pid=os.getpid(),
        )

    def repair(self, release: str) -> None:
        """No job, no fault, every node in service. A box that cannot be repaired ends."""
        from tests.e2e import cluster

        try:
            cluster.repair(self.get(release))
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            box.down()


_BOXES = Boxes()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The box ends when the next test does not use it: idle, it takes a quarter of a core."""
    if "boxes" in getattr(item, "fixturenames", ()) and (
        "boxes" not in getattr(nextitem, "fixturenames", ())
    ):
        _BOXES.end()


@pytest.fixture(scope="session")
def boxes() -> Iterator[Boxes]:
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: run them with sudo", pytrace=False)
    yield _BOXES
    _BOXES.end()


@pytest.fixture
def box(boxes: Boxes, release: str) -> Box:
    """A running box of four nodes."""
    return boxes.get(release)


@pytest.fixture
def clean_box(boxes: Boxes, release: str, request: pytest.FixtureRequest) -> Iterator[Box]:
    """The same box, cleaned up after the test: no job, no fault, every node in service.

    After a failure nobody knows what state it is in: the next test, or the retry, gets a new one.
    """
    yield boxes.get(release)
    if request.node.stash.get(FAILED, False):
        boxes.end()
    else:
        boxes.repair(release)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "setup":
        item.stash[FAILED] = False
    if report.failed:
        item.stash[FAILED] = True
    return report
