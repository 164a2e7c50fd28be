"""The driver as a whole: NVML that does not answer, or answers that it cannot.

Silence alone may be a machine that is too busy, so a node leaves for it only with a second witness
who does not ask NVML: the kernel, which shows a task asleep inside the driver (our own abandoned
worker is one, by the kernel's word), or its log, in which the driver or the hung-task watchdog
complains. One witness is a suspicion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action
from holdfast.wording import counted
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import Blind, NodeFacts

_ASLEEP = "state D"
"""How the evidence about our own worker begins where the kernel has it in uninterruptible sleep."""

_DRIVER_XIDS = (119, 120)
"""GSP RPC time-out and GSP error: the driver's firmware does not answer the driver."""
_LATELY_S = 600.0
"""A complaint in the kernel log counts as a witness for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``hung_passes``: passes in a row without an answer; one is a busy driver, and only makes the
    node blind. ``blocked_s``: how long another task may sleep in the driver while NVML answers."""

    hung_passes: int = 2
    blocked_s: float = 120.0
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, hung_passes=(1, 1000), blocked_s=(0, 86400))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if not facts.expected_gpus:
        return
    blind = _silent(facts, limits)
    if blind is not None:
        yield _hung(facts, blind)
    else:
        yield from _others(facts, limits)
    if facts.nvml is not None and facts.nvml.init_code is not None:
        yield finding(
            "NVML_UNAVAILABLE",
            subject="node",
            detail=f"NVML code {facts.nvml.init_code}: {facts.nvml.init_error}",
        )


def _hung(facts: NodeFacts, blind: Blind) -> Finding:
    """With a second witness: a process that SIGKILL does not end needs a reboot; a driver that lets
    go again needs time.
    """
    witness = next(_witnesses(facts, blind), "")
    if not witness:
        # No number in it: the text would be written into Slurm again at every pass.
        detail = f"NVML does not answer ({blind.why}); the kernel says nothing of it"
        return finding("DRIVER_SUSPECT", subject="node", detail=detail)
    silence = f"NVML did not answer {counted(blind.passes, 'time')}: {blind.why}"
    found = finding("DRIVER_HUNG", subject="node", detail=f"{silence}; {witness}")
    return found if blind.stuck else replace(found, action=Action.WAIT)


def _witnesses(facts: NodeFacts, blind: Blind) -> Iterator[str]:
    """Who else saw it, the strongest first."""
    where = blind.evidence.partition(", stack")[0]
    if blind.stuck:
        yield f"SIGKILL does not end our worker ({where})"
    elif _ASLEEP in blind.evidence:
        yield f"our worker sleeps in the kernel ({where})"
    for task in facts.d_state_tasks:
        if task.in_driver:
            yield f"task {task.name} (pid {task.pid}) sleeps in {task.where}"
    yield from _complaints(facts)


def _complaints(facts: NodeFacts) -> Iterator[str]:
    """What the kernel log said lately of the driver."""
    if facts.kmsg is None:
        return
    for event in facts.kmsg.xids:
        if event.xid in _DRIVER_XIDS and facts.kmsg.now_s - event.at_s <= _LATELY_S:
            yield f"kernel log: Xid {event.xid} {event.text}"
    for record in facts.kmsg.of("DRIVER_TASK_HUNG"):  # by its stack: its name is the user's choice
        if facts.kmsg.now_s - record.at_s <= _LATELY_S and not record.over:
            yield f"kernel log: {record.text}"


def _others(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """NVML answers, but somebody else has been asleep in the driver for long: one witness."""
    for task in facts.d_state_tasks:
        if task.in_driver and (task.blocked_s or 0.0) > limits.blocked_s:
            yield finding(
                "DRIVER_SUSPECT",
                subject="node",
                detail=f"task {task.name} (pid {task.pid}) has slept in {task.where} for more than "
                f"{limits.blocked_s:g} s, and NVML answers",
            )
            return


def _silent(facts: NodeFacts, limits: Limits) -> Blind | None:
    blind = _nvml_blind(facts)
    hung = blind is not None and blind.hung and blind.passes >= limits.hung_passes
    return blind if hung else None


def _nvml_blind(facts: NodeFacts) -> Blind | None:
    return next((blind for blind in facts.blind if blind.probe == "nvml"), None)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    blind, limit = _nvml_blind(facts), f"< {limits.hung_passes} passes silent"
    if facts.nvml is not None and facts.nvml.init_code is not None:
        yield Reading(subject="node", value=facts.nvml.init_error, limit="answers")
    elif blind is not None:
        yield Reading(
            subject="node", value=f"silent {blind.passes} passes: {blind.why}", limit=limit
        )
    elif facts.nvml is not None:
        yield Reading(subject="node", value=f"driver {facts.nvml.driver} answers", limit=limit)


CHECK = Check(
    name="driver_hung",
    also=frozenset({"nvml", "system"}),
    limits=Limits,
    judge=judge,
    show=show,
)
