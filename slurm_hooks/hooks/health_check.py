"""The health check's slow path: without a fresh verdict it starts or replaces the agent. Always
exits 0.

slurmd kills the hook's process group when the hook ends, and waits for any process that holds its
pipes. So the agent is started in a session of its own, without the hook's open files, before the
hook ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.adapters.state_file import write_atomic
from holdfast.config.path import config_path
from holdfast.config.schema import PathsConfig
from holdfast.errors import ConfigError
from holdfast.own_program import own_program
from holdfast.records import verdict_file
from slurm_hooks.agent import lock
from slurm_hooks.hooks import start_backoff
from slurm_hooks.hooks.internal_errors import complain, guarded
from slurm_hooks.node import machine
from slurm_hooks.node.process import send
from slurm_hooks.settings import settings

LOG_FOLDER = Path(os.environ.get("HOLDFAST_LOG") or "/var/log/holdfast")
_LOG_MAX_BYTES = 10 << 20
_HUNG_AFTER_S = 60.0
"""An agent that holds the lock but has published nothing for this time, and for twice
``verdict_ttl_s``, hangs.
"""


def main() -> int:
    """Start the agent if none is running; replace one that hangs. Raises ConfigError."""
    node = machine.node_name()
    try:
        config = settings.usable(config_path())
    except ConfigError as error:
        _log_problems(node, str(error))
        raise
    paths = config.cluster.paths
    pid = lock.holder(paths.run)
    if pid is not None:
        silent_s = _silent_s(verdict_file.path_in(paths.run), lock.path_in(paths.run))
        if silent_s < max(_HUNG_AFTER_S, 2 * config.agent.verdict_ttl_s) or not _is_agent(pid):
            return 0
        complain(f"holdfast: agent {pid} has published nothing for {silent_s:.0f} s: replaced")
        send(pid, signal.SIGKILL, lambda: lock.holder(paths.run) == pid and _is_agent(pid))
    if _is_time(paths.run, node):
        complain(f"holdfast: starting the agent of {node}")
        start(node)
    return 0


def _log_problems(node: str, problems: str) -> None:
    """Write to the agent's log why no agent can start, because slurmd drops a health check's
    output. Once per boot for each state of the file.
    """
    reported = Path(os.environ.get("HOLDFAST_RUN") or PathsConfig().run) / "config.reported"
    stamp = repr(machine.stamp(config_path()))
    try:
        if reported.exists() and reported.read_text() == stamp:
            return
        reported.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(reported, stamp, durable=False)
    except (OSError, ValueError):
        pass  # reported twice is better than not at all
    with os.fdopen(_log_file(node), "a", encoding="utf-8") as stream:
        for line in problems.splitlines():
            Log("health_check", stream).error("no agent started: configuration invalid", why=line)


def _is_time(run: Path, node: str) -> bool:
    """Whether an agent may be started now: an agent that keeps exiting is started less and less
    often."""
    path, config, now = start_backoff.path_in(run), machine.stamp(config_path()), machine.uptime_s()
    starts = start_backoff.load(path)
    if _is_newer(verdict_file.path_in(run), path):
        starts = start_backoff.with_verdict(starts)
    wait_s = start_backoff.wait_s(starts, now, config)
    if wait_s > 0:
        complain(
            f"holdfast: the agent of {node} was started {len(starts.at)} times and exited; "
            f"next start in {wait_s:.0f} s, or when the configuration changes; see {_log_path(node)}"
        )
        return False
    with contextlib.suppress(OSError):  # /run is full: start the agent without counting it
        start_backoff.save(path, start_backoff.started(starts, now, config))
    return True


def start(node: str) -> None:
    """Start the agent in a session of its own; returns once it has one."""
    ready, done = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(done)
        os.read(ready, 1)  # end of file after exec, or after the child failed
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        _own_files(_log_file(node))
        program = own_program("slurm_hooks.agent", "--node", node)
        os.execve(sys.executable, program, _environment())  # noqa: S606 - ourselves, no shell
    finally:
        os._exit(70)


def _own_files(log: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for fd in _open_fds():
        os.set_inheritable(fd, False)


def _open_fds() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone are wanted
        fd = int(name)
        if fd > 2:
            try:
                os.fstat(fd)
                found.append(fd)
            except OSError:
                continue  # the listing's own descriptor
    return found


def _log_file(node: str) -> int:
    """The agent's log, renamed if it is too large; /dev/null if it cannot be written."""
    path = _log_path(node)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        LOG_FOLDER.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_MAX_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return os.open(path, flags, 0o644)
    except OSError:
        return os.open(os.devnull, flags)


def _log_path(node: str) -> Path:
    return LOG_FOLDER / f"agent.{node}.log"


def _is_newer(file: Path, than: Path) -> bool:
    try:
        return file.stat().st_mtime_ns > than.stat().st_mtime_ns
    except OSError:
        return False


def _environment() -> dict[str, str]:
    """An environment without variables of a job or of slurmd, except those that locate the
    configuration."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    for name in ("SLURM_CONF", "TZ", "LANG"):
        if name in os.environ:
            kept[name] = os.environ[name]
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **kept}


def _silent_s(*files: Path) -> float:
    """Seconds since the newest of these files changed, by the filesystem's own clock."""
    probe = files[-1].with_name(".clock")
    try:
        probe.touch()
        now = probe.stat().st_mtime
    except OSError:  # /run is full
        now = time.time()
    return now - max((path.stat().st_mtime for path in files if path.exists()), default=now)


def _is_agent(pid: int) -> bool:
    try:
        return b"slurm_hooks.agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    guarded("health_check", main)
    sys.exit(0)
