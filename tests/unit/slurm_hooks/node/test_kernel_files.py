"""Small files of /proc and /sys: what is no number or cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.node import kernel_files


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("1_0", None),
        ("", None),
        (" 7", None),
    ],
)
def test_only_numbers_as_the_kernel_writes_them_are_numbers(text: str, value: int | None) -> None:
    assert kernel_files.whole(text) == value


def test_files_that_cannot_be_read_are_empty(tmp_path: Path) -> None:
    assert kernel_files.text(str(tmp_path)) == ""
    assert kernel_files.text(str(tmp_path / "none")) == ""
    assert kernel_files.names(str(tmp_path / "none")) == []
    (tmp_path / "bytes").write_bytes(b"4: ACT\xffIVE\n")
    assert kernel_files.word(str(tmp_path / "bytes")) == "ACT\ufffdIVE"
