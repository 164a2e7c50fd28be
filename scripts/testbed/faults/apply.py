"""Injects faults into a box and heals them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import SandboxError, did_you_mean
from testbed.faults import records
from testbed.faults.arguments import parse
from testbed.faults.catalogue import KINDS, Kind
from testbed.faults.effects.effects import Effects, Remedy
from testbed.faults.records import Active
from testbed.h100 import kmsg, sysfs
from testbed.h100.node import KMSG, SYSFS, read_state, replace_gpu, write_state
from testbed.shape import CONTROLLER

if TYPE_CHECKING:
    from testbed.running_box import RunningBox


def inject(box: RunningBox, node: str, kind: str, args: Sequence[str] = ()) -> str:
    """Inject a fault into a node (or ``controller``: services that all nodes share). Returns one line about it.

    A fault that is already present does not change, but an Xid or a flap is reported again. Raises
    ``SandboxError`` for an unknown kind, argument or node, and when the injection fails.
    """
    row = _kind(node, kind)
    fault = Active(
        kind=kind,
        args=parse(kind, row.arguments, args),
        since=time.time(),
        boot_id=records.boot_id(box.folder, node),
    )
    if node != CONTROLLER:
        box.node(node)  # raises for an unknown node, with the known names
    if row.effects is not None:
        # Raises when the node is powered off: nothing would see the fault.
        _ = box.node(node).namespaces_pid
    with records.only_one(box.folder):
        faults = records.load(box.folder, node)
        present = any((known.kind, known.args) == (kind, fault.args) for known in faults)
        if row.effects is not None:
            lasting = _break(box.node(node).sim, faults, fault, new=not present)
        else:
            lasting = not row.passing
            if not present:
                _refuse_second(node, faults, fault)
                assert row.begin is not None  # noqa: S101 - a kind has effects or a begin
                row.begin(box, node, fault.args)
        if lasting and not present:
            records.save(box.folder, node, [*faults, fault])
    return f"{node}: {fault}" + (" (was already present)" if present else "")


def heal(box: RunningBox, node: str, kind: str | None = None) -> list[str]:
    """Heal a node's faults of a kind, or all; returns a line for each. Power cycles the node where needed.

    Without such a fault nothing happens and the list is empty.
    """
    if kind is not None:
        _kind(node, kind)
    if node != CONTROLLER:
        box.node(node)  # raises for an unknown node, with the known names
    with records.only_one(box.folder):
        faults = records.load(box.folder, node)
        healed = [fault for fault in faults if kind in (None, fault.kind)]
        left = [fault for fault in faults if fault not in healed]
        _heal(box, node, healed, left)
        if faults:
            records.save(box.folder, node, left)
    return [f"{node}: {fault} healed ({KINDS[fault.kind].heals})" for fault in healed]


def active(box: RunningBox, node: str) -> list[Active]:
    """The faults of a node, or of ``controller``, oldest first."""
    return records.load(box.folder, node)


def _kind(node: str, name: str) -> Kind:
    """The kind of that name. Raises ``SandboxError`` when there is none for a node, or for the controller."""
    if name not in KINDS:
        raise SandboxError(f"unknown kind of fault '{name}'{did_you_mean(name, KINDS)}")
    if KINDS[name].of_controller and node != CONTROLLER:
        raise SandboxError(
            f"{name} is a fault of the cluster, not of {node}; use: sandbox fault {CONTROLLER} {name}"
        )
    if not KINDS[name].of_controller and node == CONTROLLER:
        raise SandboxError(f"{name} is a fault of a node; give a node instead of '{CONTROLLER}'")
    return KINDS[name]


def _refuse_second(node: str, faults: list[Active], fault: Active) -> None:
    """Two faults on one filestore would hide each other, and healing one would uncover the wrong one."""
    word = KINDS[fault.kind].exclusive
    for known in faults:
        if known.kind == fault.kind and not word:
            raise SandboxError(
                f"{node} has '{known}' already; heal it first: sandbox heal {node} {known.kind}"
            )
        if word and KINDS[known.kind].exclusive == word and known.args[word] == fault.args[word]:
            raise SandboxError(
                f"{node} has '{known}' already; heal it first: sandbox heal {node} {known.kind}"
            )


# -- simulated hardware ---------------------------------------------------------------------------------------------


def _break(sim: Path, faults: list[Active], fault: Active, *, new: bool) -> bool:
    """Apply a hardware fault. True when it has to be healed later."""
    state = read_state(sim)
    effects = _effects(fault, state)
    if new:
        for key, by in effects.wear.items():
            state[key] = str(int(state.get(key, "0")) + by)
        for path, value in effects.sysfs.items():
            if value is None:
                sysfs.remove(sim / SYSFS, path)
            else:
                sysfs.change(sim / SYSFS, path, value)
    for path, by in effects.sysfs_wear.items():
        sysfs.count_up(sim / SYSFS, path, by)
    if effects.event is not None:
        gpu, kind, data = effects.event
        # Only the newest. Numbers must increase, even when the clock stops or steps back.
        last = int(state.get("event", "0").partition(":")[0])
        state["event"] = f"{max(int(time.time() * 1000), last + 1)}:{gpu}:{kind}:{data}"
    write_state(sim, state, _lines([*faults, fault], state))
    kmsg.append(sim / KMSG, effects.log, effects.log_prio)
    return effects.lasting


def _repair(sim: Path, healed: list[Active], left: list[Active]) -> None:
    """Repair the hardware of ``healed`` faults and log it as the driver does."""
    state = read_state(sim)
    good = sysfs.healthy()
    kept = {path: value for fault in left for path, value in _effects(fault, state).sysfs.items()}
    log = []
    for fault in healed:
        effects = _effects(fault, state)
        log.append((effects.log_when_healed, effects.log_prio))
        if effects.remedy is Remedy.REPLACE and effects.gpu is not None:
            replace_gpu(state, effects.gpu)
        for path, broken in effects.sysfs.items():
            if broken is None:
                if path not in kept:
                    sysfs.restore(sim / SYSFS, path)
                continue
            value = kept.get(path, good[path])
            assert not isinstance(value, sysfs.Link | None)  # noqa: S101 - no fault moves a link
            sysfs.change(sim / SYSFS, path, value)
    write_state(sim, state, _lines(left, state))
    for texts, prio in log:  # last, so that its readers find the hardware healthy
        kmsg.append(sim / KMSG, texts, prio)


def _effects(fault: Active, state: dict[str, str]) -> Effects:
    make = KINDS[fault.kind].effects
    return make(fault.args, state) if make is not None else Effects()


def _lines(faults: list[Active], state: dict[str, str]) -> tuple[str, ...]:
    """Lines for the NVML state; a running counter gets the time of the injection."""
    return tuple(
        f"{key} = {value}".replace("@injected", f"@{fault.since:.3f}")
        for fault in faults
        for key, value in _effects(fault, state).nvml.items()
    )


# -- healing --------------------------------------------------------------------------------------------------------


def _heal(box: RunningBox, node: str, healed: list[Active], left: list[Active]) -> None:
    hardware = [fault for fault in healed if KINDS[fault.kind].effects is not None]
    others = [fault for fault in healed if KINDS[fault.kind].effects is None]
    sim = box.folder / "nodes" / node
    if any(_takes_power_cycle(fault, sim) for fault in hardware):
        box.power_off(node)
        try:
            _repair(sim, hardware, left)
        finally:
            box.power_on(node)
        others = []  # a power cycle ends them
    elif hardware:
        _repair(sim, hardware, left)
    for fault in reversed(others):
        kind = KINDS[fault.kind]
        # Healing a power-off boots the node, which ends older faults.
        is_over = kind.until_boot and fault.boot_id != records.boot_id(box.folder, node)
        if kind.end is not None and not is_over:
            kind.end(box, node, fault.args)


def _takes_power_cycle(fault: Active, sim: Path) -> bool:
    return _effects(fault, read_state(sim)).remedy in (Remedy.POWER_CYCLE, Remedy.REPLACE)
