"""``holdfast agent``: the daemon of a node. Only one runs; a second one exits at once."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.config.path import config_path
from holdfast.config.schema import PathsConfig
from holdfast.errors import ConfigError, UsageError
from holdfast.own_program import own_program
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent import lock as locks
from slurm_hooks.agent import systemd
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.agent.loop import Agent, refused
from slurm_hooks.node import machine
from slurm_hooks.settings import last_good, settings
from slurm_hooks.settings.settings import Settings

EXAMPLE = """\
example:
  holdfast agent                       # as the health check starts it
  holdfast agent --node worker-3 --config /etc/holdfast/holdfast.yaml

SIGTERM stops it, SIGHUP restarts it. Its state is in paths.state, its verdict in paths.run.
exit status: 0 stopped, or another agent is already running; 2 the configuration is invalid, and
no earlier valid one is saved
"""

log = Log("agent")

_WAIT_S = 1.0
"""Between two tries for the lock while another agent holds it, with ``--wait``."""
_CONFIG_WRONG = 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast agent",
        description="Watch this node: probe it, publish the verdict, drain it, return it to service.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--node", help="Slurm's name of this node (default: the host's)")
    parser.add_argument(
        "--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/holdfast.yaml"
    )
    parser.add_argument(
        "--wait", action="store_true", help="if another agent is running, wait until it stops"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """The command. 0: stopped, or not needed; 2: no valid configuration."""
    asked = parser().parse_args(argv)
    try:
        return _run(asked)
    except ConfigError as error:
        _complain("configuration invalid, and no earlier valid one is saved", str(error))
        return _CONFIG_WRONG


def _run(asked: argparse.Namespace) -> int:
    """Raises ConfigError and UsageError."""
    config = settings.usable(config_path(asked.config))
    paths = config.cluster.paths
    _require_writable(paths.run)
    _prepare(paths)
    lock_path = locks.path_in(paths.run)
    lock = locks.inherited(lock_path) or locks.take(lock_path)
    if lock is None:
        log.info("another agent is already running", waiting=asked.wait)
        if not asked.wait:
            return 0
        lock = _when_free(lock_path)
        config = settings.usable(config.path)  # it may have changed meanwhile
    node = SlurmName(machine.node_name(asked.node))
    log.info("started", node=node, pid=os.getpid(), config=config.path)
    _accept(config)
    restart = _run_agents(node, config, lock)
    log.info("stopped", node=node)
    if not restart:
        locks.release(lock.fd)
    else:
        locks.hand_over(lock.fd)
        os.execv(sys.executable, restart_argv(node, config.path))  # noqa: S606 - ourselves
    return 0


def _require_writable(run: Path) -> None:
    """Creates paths.run. Raises UsageError for a user that cannot write there: the agent needs root."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        writable = os.access(run, os.W_OK | os.X_OK)
    except PermissionError:
        writable = False
    if not writable:
        raise UsageError(
            f"cannot write to {run}; run the agent as root (the health check or systemd starts it)"
        )


def _prepare(paths: PathsConfig) -> None:
    """Create the state folder and reserve space in it for the records. The agent also works without
    it."""
    try:
        paths.state.mkdir(parents=True, exist_ok=True)
        Records(paths).set_aside()
    except OSError as error:
        log.error("state folder cannot be written", why=error)


def _accept(config: Settings) -> None:
    """Keep a copy of a valid configuration file; log the problems of an invalid one."""
    if config.problems:
        problems = "\n".join(config.problems)
        _complain("configuration invalid, using the last accepted one", problems)
    elif config.text is not None:
        try:
            last_good.keep(config.path, config.text)
        except OSError as error:
            log.error("no copy of the configuration kept", why=error)


def _complain(event: str, problems: str) -> None:
    for line in problems.splitlines():
        log.error(event, why=line)


def _run_agents(node: SlurmName, config: Settings, lock: locks.HeldLock) -> bool:
    """Run agents under the same configuration, until one is stopped (False) or there is another
    valid configuration (True)."""
    while True:
        agent = Agent(node, config, lock)
        gc.collect()
        gc.freeze()  # workers are forks: frozen objects stay in shared memory pages
        if not agent.run():
            return False
        if not refused(
            config.path
        ):  # else keep this one; the file may have changed since the check
            return True


def _when_free(path: Path) -> locks.HeldLock:
    """The lock, once its holder has exited. Polled, because Python restarts a blocking flock(2)
    after a signal.
    """
    while (lock := locks.take(path)) is None:
        systemd.ready("waiting until another agent stops")
        time.sleep(_WAIT_S)
    return lock


def restart_argv(node: SlurmName, config: Path) -> list[str]:
    """The command line that starts this program, without anything from the caller's environment."""
    return own_program("slurm_hooks.agent", "--node", node, "--config", str(config))
