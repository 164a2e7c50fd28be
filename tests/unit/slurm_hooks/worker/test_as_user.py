"""A worker that becomes one user: with that user's rights, and no others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.worker.as_user import become
from slurm_hooks.worker.worker import Worker, call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
_UID, _GID, _OTHER = 61_234, 61_235, 61_236


@pytest.fixture
def process() -> Iterator[None]:
    argv = ["sleep", "60"]
    with subprocess.Popen(argv, user=_UID, group=_GID, extra_groups=[_OTHER]) as started:
        yield
        started.kill()


def _as_user(uid: int, look: Callable[[], Any]) -> Callable[[], Callable[[Any], Iterator[Any]]]:
    def open_() -> Callable[[Any], Iterator[Any]]:
        become(uid, Path("/proc"))

        def serve(_request: object) -> Iterator[Any]:
            yield look()

        return serve

    return open_


def _answer(uid: int, look: Callable[[], Any]) -> Any:
    worker = Worker("test", _as_user(uid, look), keep=False)
    answer = call(worker, None, deadline_s=10)
    return answer.error or answer.items[0]


def test_it_has_the_users_rights_and_groups(process: None) -> None:
    ids = _answer(_UID, lambda: (os.getresuid(), os.getresgid(), os.getgroups()))
    assert ids == ((_UID,) * 3, (_GID,) * 3, [_OTHER])


def test_it_cannot_come_back(process: None) -> None:
    def look() -> str:
        try:
            os.setuid(0)
        except PermissionError:
            return "refused"
        return "root again"

    assert _answer(_UID, look) == "refused"


def test_the_user_cannot_read_its_memory(process: None) -> None:
    """It is a fork of the agent. Files in /proc of a process that is not dumpable belong to root."""
    owner = _answer(_UID, lambda: Path("/proc/self/mem").stat().st_uid)
    assert owner == 0


def test_it_still_ends_with_the_agent(process: None) -> None:
    def look() -> int:
        import ctypes

        found = ctypes.c_int()
        ctypes.CDLL(None).prctl(2, ctypes.byref(found), 0, 0, 0)  # PR_GET_PDEATHSIG
        return found.value

    assert _answer(_UID, look) == 15


def test_without_a_process_of_the_user_it_stays_what_it_is() -> None:
    assert _answer(_UID + 10, os.getuid) == f"no process of uid {_UID + 10} yet"
