"""``holdfast agent``: the resident process of a node. One instance; whoever comes second leaves at
once.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.config.location import config_path
from holdfast.config.schema import PathsConfig
from holdfast.errors import ConfigError, UsageError
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

SIGTERM ends it, SIGHUP starts it afresh. What it knows lies in paths.state, what it says in
paths.run. exit status: 0 ended as told, or another agent runs already; 2 the configuration is wrong,
and none was accepted before
"""

log = Log("agent")

_WAIT_S = 1.0
"""Between two tries for the lock, where another agent has it and ``--wait`` is given."""
_CONFIG_WRONG = 2


def main(argv: Sequence[str]) -> int:
    """The command. 0: ended as told, or not needed; 2: no configuration that can be used."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast agent",
        description="Watch this node: probe it, publish the verdict, drain it and give it back.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--node", help="Slurm's name of this node (default: the host's)")
    parser.add_argument("--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/…")
    parser.add_argument(
        "--wait", action="store_true", help="while another agent runs, wait for its end"
    )
    asked = parser.parse_args(argv)
    try:
        return _run(asked)
    except ConfigError as error:
        _complain("configuration cannot be used, and there is none before it", str(error))
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
        log.info("another agent runs already", waiting=asked.wait)
        if not asked.wait:
            return 0
        lock = _when_free(lock_path)
        config = settings.usable(config.path)  # it may be another one by now
    node = SlurmName(machine.node_name(asked.node))
    log.info("started", node=node, pid=os.getpid(), config=config.path)
    _accept(config)
    afresh = _live(node, config, lock)
    log.info("ended", node=node)
    if not afresh:
        locks.give_back(lock.fd)
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
    """The state folder, and room in it for the records. A node is watched without it as well."""
    try:
        paths.state.mkdir(parents=True, exist_ok=True)
        Records(paths).set_aside()
    except OSError as error:
        log.error("state folder cannot be written", why=error)


def _accept(config: Settings) -> None:
    """Keep a copy of a file that is good; say why one is not."""
    if config.problems:
        problems = "\n".join(config.problems)
        _complain("configuration cannot be used, the last one accepted goes on", problems)
    elif config.text is not None:
        try:
            last_good.keep(config.path, config.text)
        except OSError as error:
            log.error("no copy of the configuration kept", why=error)


def _complain(event: str, problems: str) -> None:
    for line in problems.splitlines():
        log.error(event, why=line)


def _live(node: SlurmName, config: Settings, lock: locks.HeldLock) -> bool:
    """One agent after another under the same configuration, until told to end (False) or until
    there is another configuration that can be used (True)."""
    while True:
        agent = Agent(node, config, lock)
        gc.collect()
        gc.freeze()  # workers are forks: what is never looked at again stays shared
        if not agent.run():
            return False
        if not refused(config.path):  # told to start afresh, or it broke since it was looked at
            return True


def _when_free(path: Path) -> locks.HeldLock:
    """The lock, once its holder has ended. Polled: a wait in flock(2) would keep SIGHUP's and
    SIGTERM's default actions just the same, and Python would start it again after a signal.
    """
    while (lock := locks.take(path)) is None:
        systemd.works("waits for the end of another agent")
        time.sleep(_WAIT_S)
    return lock


def restart_argv(node: SlurmName, config: Path) -> list[str]:
    """How this program is started, without anything from the caller's environment."""
    program = [sys.executable, "-I", "-m", "slurm_hooks.agent"]
    return [*program, "--node", node, "--config", str(config)]
