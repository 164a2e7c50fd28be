"""Reserved files can be written on a full filesystem. On a real tmpfs (needs root)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.adapters.reserved_space import ReservedSpace


def test_with_room_it_is_an_ordinary_replacement(tmp_path: Path) -> None:
    reserve = ReservedSpace(tmp_path, "verdict", size=8192, count=2)
    reserve.write(tmp_path / "verdict", "one\n")
    assert (tmp_path / "verdict").read_text() == "one\n"
    kept = sorted(path for path in tmp_path.iterdir() if path.name != "verdict")
    assert [path.name for path in kept] == [".verdict.reserve-0", ".verdict.reserve-1"]
    assert all(path.stat().st_blocks * 512 >= 8192 for path in kept)
    assert (tmp_path / "verdict").stat().st_mode & 0o777 == 0o644


def test_other_errors_than_a_full_disk_are_raised(tmp_path: Path) -> None:
    reserve = ReservedSpace(tmp_path, "verdict", size=8192, count=2)
    with pytest.raises(FileNotFoundError):
        reserve.write(tmp_path / "gone" / "verdict", "one\n")


_FULL = """
    import errno, os, sys
    from pathlib import Path
    from holdfast.adapters.reserved_space import ReservedSpace

    run = Path(sys.argv[1])
    path, reserve = run / "verdict", ReservedSpace(run, "verdict", size=16384, count=2)
    reserve.write(path, "first\\n")
    filler = os.open(run / "filler", os.O_WRONLY | os.O_CREAT)

    def fill():
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC, error

    fill()
    inodes = 0
    try:
        while True:
            (run / f"f{inodes}").touch()
            inodes += 1
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    for turn in range(20):  # each longer than the one before; whoever fills takes what gets free
        text = f"turn {turn} " + "y" * (700 * turn) + "\\n"
        reserve.write(path, text)
        assert path.read_text().rstrip(" ") == text, turn
        fill()
        assert len(path.read_text()) == 16384
    try:
        reserve.write(path, "z" * 16385)
        raise SystemExit("longer than the reserve, and no error was raised")
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    assert path.read_text().startswith("turn 19 ")
    os.ftruncate(filler, 0)
    for number in range(10):
        (run / f"f{number}").unlink()
    reserve.write(path, "room again\\n")
    assert path.read_text() == "room again\\n"
    names = sorted(one.name for one in run.iterdir() if one.name.startswith("."))
    assert names == [".verdict.reserve-0", ".verdict.reserve-1"], names
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tmpfs of its own")
def test_a_full_filesystem_takes_one_write_after_the_other(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(textwrap.dedent(_FULL))
    run = tmp_path / "run"
    run.mkdir()
    mount = f"mount -t tmpfs -o size=256k,nr_inodes=64,mode=755 full {run}"
    command = f"{mount} && exec {sys.executable} {script} {run}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command],
        env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
