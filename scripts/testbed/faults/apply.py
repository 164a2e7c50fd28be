"""Putting faults into a box and healing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import SandboxError, did_you_mean
from testbed.faults import records
from testbed.faults.catalogue import KINDS, Kind
from testbed.faults.effects import Effects, Remedy
from testbed.faults.records import Active
from testbed.faults.words import parse
from testbed.h100 import kmsg, sysfs
from testbed.h100.node import KMSG, SYSFS, read_state, replace_gpu, write_state
from testbed.shape import CONTROLLER

if TYPE_CHECKING:
    from testbed.running_box import RunningBox


def inject(box: RunningBox, node: str, kind: str, args: Sequence[str] = ()) -> str:
    """Put a fault into a node (or ``controller``: what all nodes share); says in one line what is there now.

    A fault that is there already stays as it is, but an Xid or a flap is reported again. Raises ``SandboxError`` for
    an unknown kind, word or node, and when it cannot be done.
    """
    found = _kind(node, kind)
    fault = Active(
        kind=kind,
        args=parse(kind, found.words, args),
        since=time.time(),
        boot_id=records.boot_id(box.folder, node),
    )
    if node != CONTROLLER:
        box.node(node)  # says what there is when the name is wrong
    if found.effects is not None:
        _ = box.node(
            node
        ).namespaces_pid  # says so when there is no power: nobody would see the fault
    with records.only_one(box.folder):
        faults = records.load(box.folder, node)
        there = any((known.kind, known.args) == (kind, fault.args) for known in faults)
        if found.effects is not None:
            lasting = _break(box.node(node).sim, faults, fault, new=not there)
        else:
            lasting = not found.passing
            if not there:
                _refuse_second(node, faults, fault)
                assert found.begin is not None  # noqa: S101 - a kind has effects or a begin
                found.begin(box, node, fault.args)
        if lasting and not there:
            records.save(box.folder, node, [*faults, fault])
    return f"{node}: {fault}" + (" (was there already)" if there else "")


def heal(box: RunningBox, node: str, kind: str | None = None) -> list[str]:
    """Mend a node's faults of a kind, or all; a line for each one. Where it takes, the node is switched off and on.

    No such fault is no error: nothing happens and the list is empty.
    """
    if kind is not None:
        _kind(node, kind)
    if node != CONTROLLER:
        box.node(node)  # says what there is when the name is wrong
    with records.only_one(box.folder):
        faults = records.load(box.folder, node)
        mended = [fault for fault in faults if kind in (None, fault.kind)]
        left = [fault for fault in faults if fault not in mended]
        _mend(box, node, mended, left)
        if faults:
            records.save(box.folder, node, left)
    return [f"{node}: {fault} healed ({KINDS[fault.kind].heals})" for fault in mended]


def active(box: RunningBox, node: str) -> list[Active]:
    """The faults of a node, or of ``controller``, oldest first."""
    return records.load(box.folder, node)


def _kind(node: str, name: str) -> Kind:
    """Raises ``SandboxError`` unless there is such a kind, of a node or of the controller as asked."""
    if name not in KINDS:
        raise SandboxError(f"no kind of fault is called '{name}'{did_you_mean(name, KINDS)}")
    if KINDS[name].of_controller and node != CONTROLLER:
        raise SandboxError(
            f"{name} is a fault of the cluster, not of {node}; say: sandbox fault {CONTROLLER} {name}"
        )
    if not KINDS[name].of_controller and node == CONTROLLER:
        raise SandboxError(f"{name} is a fault of a node; name one in place of '{CONTROLLER}'")
    return KINDS[name]


def _refuse_second(node: str, faults: list[Active], fault: Active) -> None:
    """Two faults on one filestore would hide one another; one healed alone would lay bare the wrong one."""
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
    """Make the hardware fault show. True when there will be something to heal."""
    state = read_state(sim)
    effects = _effects(fault, state)
    if new:
        for key, by in effects.wear.items():
            state[key] = str(int(state.get(key, "0")) + by)
        for path, value in effects.sysfs.items():
            if value is None:
                sysfs.take_away(sim / SYSFS, path)
            else:
                sysfs.change(sim / SYSFS, path, value)
    for path, by in effects.sysfs_wear.items():
        sysfs.count_up(sim / SYSFS, path, by)
    if effects.event is not None:
        gpu, kind, data = effects.event
        # The newest only. Numbers ascend over the life of every event set, also when the clock stands or steps back.
        last = int(state.get("event", "0").partition(":")[0])
        state["event"] = f"{max(int(time.time() * 1000), last + 1)}:{gpu}:{kind}:{data}"
    write_state(sim, state, _lines([*faults, fault], state))
    kmsg.append(sim / KMSG, effects.log, effects.log_prio)
    return effects.lasting


def _repair(sim: Path, mended: list[Active], left: list[Active]) -> None:
    """Make the hardware of ``mended`` faults healthy again and say so where the driver would."""
    state = read_state(sim)
    healthy = sysfs.healthy()
    kept = {path: value for fault in left for path, value in _effects(fault, state).sysfs.items()}
    log = []
    for fault in mended:
        effects = _effects(fault, state)
        log.append((effects.log_when_healed, effects.log_prio))
        if effects.remedy is Remedy.REPLACE and effects.gpu is not None:
            replace_gpu(state, effects.gpu)
        for path, broken in effects.sysfs.items():
            if broken is None:
                if path not in kept:
                    sysfs.give_back(sim / SYSFS, path)
                continue
            value = kept.get(path, healthy[path])
            assert not isinstance(value, sysfs.Link | None)  # noqa: S101 - no fault moves a link
            sysfs.change(sim / SYSFS, path, value)
    write_state(sim, state, _lines(left, state))
    for texts, prio in log:  # last, so that who reads it finds the hardware healthy
        kmsg.append(sim / KMSG, texts, prio)


def _effects(fault: Active, state: dict[str, str]) -> Effects:
    make = KINDS[fault.kind].effects
    return make(fault.args, state) if make is not None else Effects()


def _lines(faults: list[Active], state: dict[str, str]) -> tuple[str, ...]:
    """Of the NVML state. What runs since the injection is told when that was."""
    return tuple(
        f"{key} = {value}".replace("@injected", f"@{fault.since:.3f}")
        for fault in faults
        for key, value in _effects(fault, state).nvml.items()
    )


# -- healing --------------------------------------------------------------------------------------------------------


def _mend(box: RunningBox, node: str, mended: list[Active], left: list[Active]) -> None:
    hardware = [fault for fault in mended if KINDS[fault.kind].effects is not None]
    others = [fault for fault in mended if KINDS[fault.kind].effects is None]
    sim = box.folder / "nodes" / node
    if any(_takes_power_cycle(fault, sim) for fault in hardware):
        box.power_off(node)
        try:
            _repair(sim, hardware, left)
        finally:
            box.power_on(node)
        others = []  # a power cycle ends them all
    elif hardware:
        _repair(sim, hardware, left)
    for fault in reversed(others):
        kind = KINDS[fault.kind]
        # The newest may have been the lack of power, whose end has ended older ones.
        is_over = kind.until_boot and fault.boot_id != records.boot_id(box.folder, node)
        if kind.end is not None and not is_over:
            kind.end(box, node, fault.args)


def _takes_power_cycle(fault: Active, sim: Path) -> bool:
    return _effects(fault, read_state(sim)).remedy in (Remedy.POWER_CYCLE, Remedy.REPLACE)
