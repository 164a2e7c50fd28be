"""Faults of a whole node and of the cluster's own services: power, cable, daemons, clock."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import SandboxError
from testbed.faults.arguments import Args
from testbed.h100.library import shared_object
from testbed.inside.daemons import SLURMCTLD_STATE
from testbed.namespaces import enter
from testbed.paths import cache
from testbed.shape import OLDER_STATE, kube_name

if TYPE_CHECKING:
    from testbed.running_box import RunningBox

START_SLURMD = ("/opt/sandbox/start-slurmd",)
_PRELOAD = "/etc/ld.so.preload"
_SHIM = "clock_skew.so"
_SKEW = "/run/clock-skew"
"""In the node's memory: a power loss removes it together with the mount."""

_SLURMCTLD = "slurmctld"
_ENDS_S = 10.0
_NODE_STATE = "node_state*"
"""slurmctld's files about nodes: node_state, and node_state.old of the previous save."""

Act = Callable[["RunningBox", str, Args], None]


def power_off(box: RunningBox, node: str, _: Args) -> None:
    box.power_off(node)


def power_on(box: RunningBox, node: str, _: Args) -> None:
    box.power_on(node)


def power_cycle(box: RunningBox, node: str, args: Args) -> None:
    """Returns once the node's slurmd was started again."""
    box.power_off(node)
    time.sleep(int(args["after"]))
    box.power_on(node)


def cut(box: RunningBox, node: str, _: Args) -> None:
    box.cut(node)


def join(box: RunningBox, node: str, _: Args) -> None:
    box.join(node)


# -- daemons of a node ----------------------------------------------------------------------------------------------


def kill_slurmd(box: RunningBox, node: str, _: Args) -> None:
    if not _kill(box, node, _is_slurmd):
        raise SandboxError(f"{node}: no slurmd is running")


def start_slurmd(box: RunningBox, node: str, _: Args) -> None:
    """Start slurmd unless it runs."""
    if not _pids(box, node, _is_slurmd):
        box.node(node).run(START_SLURMD)


def kill_agent(box: RunningBox, node: str, _: Args) -> None:
    """Kill the agent; the health check restarts it."""
    if not _kill(box, node, _is_agent):
        raise SandboxError(f"{node}: no holdfast agent is running")


def _is_slurmd(argv: list[str]) -> bool:
    return Path(argv[0]).name == "slurmd"


def _is_agent(argv: list[str]) -> bool:
    """The agent and its workers, however they were started."""
    return "slurm_hooks.agent" in argv or (
        "agent" in argv and any(Path(word).name == "holdfast" for word in argv)
    )


def _pids(box: RunningBox, node: str, wanted: Callable[[list[str]], bool]) -> list[int]:
    return [pid for pid, argv in box.pids(node) if argv and wanted(argv)]


def _kill(box: RunningBox, node: str, wanted: Callable[[list[str]], bool]) -> bool:
    pids = _pids(box, node, wanted)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has exited
    # A process that is still ending would pass for one that runs, and none would be started.
    end = time.monotonic() + _ENDS_S
    while any(map(enter.argv_of, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return bool(pids)


# -- clock ----------------------------------------------------------------------------------------------------------


def skew_clock(box: RunningBox, node: str, args: Args) -> None:
    """Every program that starts on the node from now on sees another time; slurmd and the agent restart."""
    shim = shared_object(cache(), _SHIM, (Path(__file__).with_name("clock_skew.c"),))
    folder = box.node(node).path(_SKEW)
    folder.mkdir(exist_ok=True)
    shutil.copyfile(shim, folder / _SHIM)
    (folder / "seconds").write_text(f"{args['seconds']}\n")
    (folder / "preload").write_text(f"{_SKEW}/{_SHIM}\n")
    command = f"[ -e {_PRELOAD} ] || : >{_PRELOAD}; mount --bind {_SKEW}/preload {_PRELOAD}"
    box.node(node).run(["sh", "-c", command])
    _restart_daemons(box, node)


def set_clock(box: RunningBox, node: str, _: Args) -> None:
    box.node(node).run(["umount", "-l", _PRELOAD])
    shutil.rmtree(box.node(node).path(_SKEW), ignore_errors=True)
    _restart_daemons(box, node)


def _restart_daemons(box: RunningBox, node: str) -> None:
    _kill(box, node, _is_slurmd)
    start_slurmd(box, node, {})
    _kill(box, node, _is_agent)


# -- services of the cluster ----------------------------------------------------------------------------------------


def signal_service(name: str, number: signal.Signals) -> Act:
    return lambda box, _node, _args: box.signal_daemon(name, number)


def restore_slurmctld(box: RunningBox, _node: str, args: Args) -> None:
    """Kill slurmctld and start it with the state that it saved when the box came up: of its nodes, or all."""
    box.stop_daemon(_SLURMCTLD)
    end = time.monotonic() + _ENDS_S
    while _SLURMCTLD in box.daemons():
        if time.monotonic() > end:
            raise SandboxError(f"{_SLURMCTLD} does not end within {_ENDS_S:g} s")
        time.sleep(0.05)
    now, older = box.path(SLURMCTLD_STATE), box.path(str(OLDER_STATE))
    wanted = _NODE_STATE if args["what"] == "nodes" else "*"
    for path in now.glob(wanted):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in older.glob(wanted):
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, now / path.name)
    box.start_daemon(_SLURMCTLD)
    end = time.monotonic() + _ENDS_S
    # The state may be older than these ids; slurmd reports them only when it starts.
    for node in box.shape.node_names:
        known = f"instanceid={kube_name(node)}"
        while box.run(["scontrol", "update", f"nodename={node}", known], check=False).returncode:
            if time.monotonic() > end:
                raise SandboxError(f"{_SLURMCTLD} does not answer within {_ENDS_S:g} s")
            time.sleep(0.05)


def stop_service(name: str) -> Act:
    return lambda box, _node, _args: box.stop_daemon(name)


def start_service(name: str) -> Act:
    return lambda box, _node, _args: box.start_daemon(name)
