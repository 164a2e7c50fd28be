"""Run short-lived external commands. No other module starts one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import CommandError, Unavailable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The default PATH: Slurm starts its hooks without one."""


_left: set[subprocess.Popen[str]] = set()
"""Killed processes that have not been waited for. Each call reaps those that have ended: else a program that
queries a hung slurmctld for hours would fill the process table with zombies.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The result of a command. ``status`` below 0: killed by that signal."""

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
    """Standard output of ``argv``. ``env`` is added to the environment; ``None`` removes a variable.

    Raises ``Unavailable`` when it does not end within ``timeout_s`` (it is killed, and not waited for),
    ``CommandError`` when it cannot start or exits non-zero.
    """
    done = complete(argv, timeout_s=timeout_s, env=env, stdin=stdin)
    if done.status:
        output = done.err or done.out
        raise CommandError(argv, f"exit status {done.status}", output, done.status)
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
    for killed in tuple(_left):
        if killed.poll() is not None:
            _left.discard(killed)
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
        output = late.output or b""  # bytes, even for a pipe in text mode
        text = output.decode(errors="replace") if isinstance(output, bytes) else str(output)
        raise Unavailable(argv, f"no answer in {timeout_s:g} s", text) from None
    return Completed(status=child.returncode, out=out, err=err)


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill without waiting: a process in uninterruptible sleep does not end."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            stream.close()
    _left.add(child)
