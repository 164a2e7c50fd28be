"""The wheel and the source distribution, checked with twine as the package index will check them."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.toolchain import Say
from testbed.paths import TREE, cache
from testbed.rootfs import pinned_venv

from packages.vendored import own

LOCK = Path(__file__).with_name("release.lock")
"""setuptools, which builds, and twine; in an environment of their own."""

_ABOUT = ("pyproject.toml", "README.md", "LICENSE")
_FIRST_DATE = 315532800
"""1980: the earliest that a zip file can tell."""
_BUILD = """\
import sys
from setuptools import build_meta
folder = sys.argv[1]  # setuptools changes it
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""


def write(folder: Path, say: Say) -> Sequence[Path]:
    """Returns the wheel and the source distribution. The same tree gives the same bytes.

    Raises ``SandboxError`` where twine finds a fault in one of them.
    """
    programs = pinned_venv.make(LOCK, cache() / "release", say) / "bin"
    with tempfile.TemporaryDirectory() as scratch:
        tree, made = Path(scratch, "tree"), Path(scratch, "dist")
        _copy(tree)
        names = _run([programs / "python", "-I", "-c", _BUILD, made], tree).split()[-4:]
        found = sorted(made.iterdir())
        if len(found) != 2:
            raise SandboxError(
                f"setuptools has made {names}, not a wheel and a source distribution"
            )
        for path in found:
            if path.suffix == ".gz":
                path.write_bytes(_without_times(path.read_bytes()))
        check(found, programs)
        return [Path(shutil.copy(path, folder / path.name)) for path in found]


def check(files: Sequence[Path], programs: Path) -> None:
    """Raises ``SandboxError`` with what twine says."""
    _run([programs / "twine", "check", "--strict", *files], Path("/"))


def _copy(tree: Path) -> None:
    """What is released of this checkout; nothing that happens to lie beside it."""
    files = {name: (TREE / name).read_bytes() for name in _ABOUT} | dict(own())
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if content.startswith(b"#!") else 0o644)


def _run(argv: Sequence[str | Path], folder: Path) -> str:
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(_FIRST_DATE), "PYTHONPATH": ""}
    done = subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, check=False, umask=0o022
    )
    if done.returncode:
        raise SandboxError(f"{Path(argv[0]).name}: {(done.stdout + done.stderr).strip()[-600:]}")
    return done.stdout


def _without_times(packed: bytes) -> bytes:
    """The same members in the order of their names, root's and as old as in the wheel."""
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(packed)) as old,
        tarfile.open(fileobj=result, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid = _FIRST_DATE, 0, 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(result.getvalue(), mtime=0)
