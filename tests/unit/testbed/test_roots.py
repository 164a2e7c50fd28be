"""Roots made elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.roots import given


def test_a_root_that_lacks_something_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="usr/sbin/slurmctld is not in it"):
        given(str(tmp_path))


def test_a_whole_root_is_taken(tmp_path: Path) -> None:
    for name in ("slurmctld", "slurmd", "slurmdbd", "mariadbd"):
        (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/sbin" / name).touch()
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/python3").touch()
    assert given(str(tmp_path)) == tmp_path
