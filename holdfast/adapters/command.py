"""The only place that starts a short-lived external command and waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import CommandError, Unavailable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Slurm gives its hooks no PATH at all, so commands are found along this one."""


_left: set[subprocess.Popen[str]] = set()
"""Killed and not waited for. Each call collects those that have ended meanwhile: a program that asks a
silent slurmctld for hours would fill the process table with zombies.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a command ended, and all that it said. ``status`` below 0: killed by that signal."""

    status: int
    out: str
    err: str


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
) -> str:
    """Standard output of ``argv``. ``env`` adds to our own environment; ``None`` takes a name out.

    Raises ``Unavailable`` when it does not end within ``timeout_s`` (it is killed and, should the
    kill not take, left behind unwaited), ``CommandError`` when it cannot start or exits non-zero.
    """
    done = complete(argv, timeout_s=timeout_s, env=env, stdin=stdin)
    if done.status:
        said = done.err or done.out
        raise CommandError(argv, f"exit status {done.status}", said, done.status)
    return done.out


def complete(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str | None] | None = None,
    stdin: str | None = None,
) -> Completed:
    """As ``run``, for commands whose exit status is part of the answer."""
    merged = {"PATH": PATH, **os.environ, **(env or {})}
    full_env = {name: value for name, value in merged.items() if value is not None}
    for before in tuple(_left):
        if before.poll() is not None:
            _left.discard(before)
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=full_env,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(argv, f"cannot start: {error.strerror or error}") from None
    try:
        out, err = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        _abandon(child)
        said = late.output or b""  # bytes, whatever the pipe's mode
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise Unavailable(argv, f"no answer in {timeout_s:g} s", text) from None
    return Completed(status=child.returncode, out=out, err=err)


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill without waiting: a process in uninterruptible sleep would hold us for ever."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            stream.close()
    _left.add(child)
