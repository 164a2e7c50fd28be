"""A command that does not end is killed, and reaped once it has ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.adapters.command import run
from holdfast.errors import Unavailable


def _children() -> list[str]:
    """States of this process's children."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(words[1]) == os.getpid():
            found.append(words[0])
    return found


def test_a_killed_process_is_reaped() -> None:
    """A bridge or a launcher may query a hung slurmctld for days."""
    before = len(_children())
    for _ in range(5):
        with pytest.raises(Unavailable):
            run(["sleep", "60"], timeout_s=0.05)
    until = time.monotonic() + 10
    while len(_children()) > before:
        assert time.monotonic() < until, _children()
        assert run(["true"], timeout_s=10) == ""
