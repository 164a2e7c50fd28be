"""Runs commands in the namespaces of a box, from the host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.inside.processes import all_pids, parent_of
from testbed.shape import ADMIN_KUBECONFIG, NODE_PATH


def argv_in(
    pid: int, argv: Sequence[str], *, user: str, cwd: str, env: Mapping[str, str]
) -> list[str]:
    """``argv`` in every namespace of process ``pid``, as ``user``, with the environment of a new login."""
    home = "/root" if user == "root" else f"/home/{user}"
    settings = {
        "PATH": NODE_PATH,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "LANG": "C.UTF-8",
        **env,
    }
    if user == "root":
        settings = {"KUBECONFIG": str(ADMIN_KUBECONFIG), **settings}
    become = (
        []
        if user == "root"
        else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
    )
    return [
        "nsenter", f"--target={pid}", "--mount", "--pid", "--uts", "--ipc", "--net", "--",
        "/usr/bin/env", "-i", f"--chdir={cwd}", *(f"{name}={value}" for name, value in settings.items()),
        *become, *argv,
    ]  # fmt: skip


def run(argv: Sequence[str], *, shown: Sequence[str], timeout_s: float, check: bool, stdin: str | None = None
        ) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a command to its end, or kill it after ``timeout_s``.

    A killed process is not waited for: one in uninterruptible sleep would block forever.
    Raises ``SandboxError``, which names ``shown``, on a time-out and, with ``check``, on a non-zero exit status.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = child.communicate(stdin, timeout=timeout_s)
    except BaseException as error:
        # On Ctrl-C communicate() has waited a moment, and the whole group may be gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        if child.poll() is None:
            # Not waited for, on purpose.
            child.returncode = -signal.SIGKILL
        if isinstance(error, subprocess.TimeoutExpired):
            raise SandboxError(f"{' '.join(shown)}: no end within {timeout_s:g} s") from None
        raise
    done = subprocess.CompletedProcess(list(shown), child.returncode, out, err)
    if check and done.returncode:
        output = " ".join((err or out).split())[-600:]
        raise SandboxError(f"{' '.join(shown)}: exit status {done.returncode}: {output}")
    return done


def child_of(pid: int) -> int | None:
    """Host pid of the only child of an `unshare --fork`."""
    return next((child for child in all_pids() if parent_of(child) == pid), None)


def namespace(pid: int, kind: str = "pid") -> str | None:
    """Identity of a namespace of a process; None when there is no such process."""
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return None


def seen_by(pid: int, inside: str) -> Path:
    """Host path of the file that a process sees as ``inside``."""
    return Path("/proc", str(pid), "root", inside.lstrip("/"))


def argv_of(pid: int) -> list[str]:
    """Arguments of a process; empty when it has ended or has none."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.split("\0")[:-1] if text else []


def started_at(pid: int) -> int | None:
    """Start time in clock ticks since boot; with the pid it identifies a process. None: it has ended.

    A zombie has ended: it stays in the table until its parent reaps it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def innermost_pid(pid: int) -> int | None:
    """The pid of a process in its own pid namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    return next(
        (int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")), None
    )
