"""Children from before this program started: each is reaped once it has exited."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.worker.inherited import InheritedChildren


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """Pid of a child, and a descriptor that ends it when it is closed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    yield pid, write
    for cleanup in (lambda: os.close(write), lambda: os.waitpid(pid, 0)):
        try:
            cleanup()
        except OSError:
            pass


def listing(folder: Path, pid: int) -> Path:
    """A /proc that lists this child only: the tests' process may have others."""
    children = folder / f"self/task/{os.getpid()}/children"
    children.parent.mkdir(parents=True)
    children.write_text(f"{pid} ")
    return folder


def test_the_kernel_lists_the_child(child: tuple[int, int]) -> None:
    assert InheritedChildren().reap()
    assert Path(f"/proc/{child[0]}").exists()


def test_a_child_is_reaped_once_it_has_exited(child: tuple[int, int], tmp_path: Path) -> None:
    pid, write = child
    inherited = InheritedChildren(listing(tmp_path, pid))
    assert inherited.reap()
    os.close(write)
    end = time.monotonic() + 30
    while inherited.reap():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_child_that_somebody_else_has_reaped_is_forgotten(
    child: tuple[int, int], tmp_path: Path
) -> None:
    pid, write = child
    inherited = InheritedChildren(listing(tmp_path, pid))
    os.close(write)
    os.waitpid(pid, 0)
    assert not inherited.reap()


def test_a_kernel_that_lists_no_children(tmp_path: Path) -> None:
    assert not InheritedChildren(tmp_path).reap()
