"""CPU seconds of each test, with all processes that it started, the box's included: HOLDFAST_TEST_CPU=FILE.

One line for each test's set-up, call and teardown: CPU seconds, seconds, process, phase, test. Processes
that another test left running, such as a box, count for the test during which they use the CPU:

    HOLDFAST_TEST_CPU=/tmp/cpu.txt scripts/test unit && sort -rn /tmp/cpu.txt | head -40

Needs root and control groups of version 1.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

_GROUPS = Path("/sys/fs/cgroup/cpuacct")


class CpuUsage:
    """Writes one line for each phase of each test into ``file``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._group = _GROUPS / f"holdfast-test-{os.getpid()}"
        self._group.mkdir(exist_ok=True)
        self._enter(self._group)
        self._add("start", "", -time.process_time(), time.monotonic())

    @staticmethod
    def _enter(group: Path) -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    def pytest_unconfigure(self) -> None:
        self._add("all", "", 0.0, time.monotonic())
        self._enter(_GROUPS)
        with contextlib.suppress(OSError):  # a process of a test still runs
            self._group.rmdir()

    def _used_s(self) -> float:
        return int((self._group / "cpuacct.usage").read_text()) / 1e9

    def _add(self, phase: str, name: str, used_s: float, begin: float) -> None:
        row = (self._used_s() - used_s, time.monotonic() - begin, os.getpid(), phase, name)
        with self._file.open("a") as out:
            out.write("{:9.3f} {:9.3f} {} {} {}\n".format(*row))

    @contextlib.contextmanager
    def _measured(self, phase: str, item: pytest.Item) -> Generator[None]:
        used_s, begin = self._used_s(), time.monotonic()
        try:
            yield
        finally:
            self._add(phase, item.nodeid, used_s, begin)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        with self._measured("setup", item):
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        with self._measured("call", item):
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        with self._measured("teardown", item):
            yield
