"""The checkpoints of the benchmark are whole ones of their family, and judging them takes linear time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from measure.job import checkpoint_families

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints.find import candidates, judge

COUNT = 40


@pytest.mark.parametrize("family", checkpoint_families.FAMILIES)
def test_each_family(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "c"
    files = checkpoint_families.write(family, folder, COUNT)
    entries, scan = 0, safe_file.scan

    def counted(path: Path, *, most: int) -> Iterator[Any]:
        nonlocal entries
        for entry in scan(path, most=most):
            entries += 1
            yield entry

    monkeypatch.setattr(safe_file, "scan", counted)
    found = [judge(candidate) for candidate in candidates(folder)]
    assert [one.reason for one in found] == [""] * COUNT
    assert {one.step for one in found} == set(range(1, COUNT + 1))
    assert len({one.framework for one in found}) == 1
    folders = sum(path.is_dir() for path in folder.rglob("*"))
    assert entries <= 3 * (files + folders), "the folder is not listed again for each checkpoint"
