"""The NVIDIA driver as a whole: NVML does not answer, or fails to initialise.

No answer from NVML may only mean a busy machine. So the finding that drains needs a confirmation
that does not come from NVML: the kernel shows a task in uninterruptible sleep inside the driver
(the probe's own worker counts), or the driver or the hung-task watchdog reports it in the kernel
log. Without a confirmation the finding is DRIVER_SUSPECT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.text.wording import counted
from holdfast.vocabulary import Action
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import Blind, NodeFacts

_SLEEPS = "state D"
"""Start of the evidence about the probe's own worker when it is in uninterruptible sleep."""

_DRIVER_XIDS = (119, 120)
"""GSP RPC timeout and GSP error: the GPU's firmware does not answer the driver."""
_RECENT_S = 600.0
"""How long a record in the kernel log counts as a confirmation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``hung_passes``: consecutive passes without an answer; after a single one, which may be a busy
    driver, the node's verdict is only blind. ``blocked_s``: how long another task may sleep in the
    driver while NVML answers.
    """

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
        yield from _sleeping_tasks(facts, limits)
    if facts.nvml is not None and facts.nvml.init_code is not None:
        yield finding(
            "NVML_UNAVAILABLE",
            subject="node",
            detail=f"NVML code {facts.nvml.init_code}: {facts.nvml.init_error}",
        )


def _hung(facts: NodeFacts, blind: Blind) -> Finding:
    """DRIVER_HUNG with a confirmation, else DRIVER_SUSPECT.

    A worker that SIGKILL does not end requires a reboot. If it did end, the driver may recover.
    """
    confirmation = next(_confirmations(facts, blind), "")
    if not confirmation:
        # No counter in the text: each new text would be another write to Slurm.
        detail = f"NVML does not answer ({blind.why}); not confirmed by the kernel"
        return finding("DRIVER_SUSPECT", subject="node", detail=detail)
    silence = f"NVML did not answer {counted(blind.passes, 'time')}: {blind.why}"
    found = finding("DRIVER_HUNG", subject="node", detail=f"{silence}; {confirmation}")
    return found if blind.stuck else replace(found, action=Action.WAIT)


def _confirmations(facts: NodeFacts, blind: Blind) -> Iterator[str]:
    """What confirms that the driver hangs, the strongest first."""
    where = blind.evidence.partition(", stack")[0]
    if blind.stuck:
        yield f"SIGKILL does not end the probe's worker ({where})"
    elif _SLEEPS in blind.evidence:
        yield f"the probe's worker sleeps in the kernel ({where})"
    for task in facts.d_state_tasks:
        if task.in_driver:
            yield f"task {task.name} (pid {task.pid}) sleeps in {task.where}"
    yield from _log_records(facts)


def _log_records(facts: NodeFacts) -> Iterator[str]:
    """Recent records of the kernel log about the driver."""
    if facts.kmsg is None:
        return
    for event in facts.kmsg.xids:
        if event.xid in _DRIVER_XIDS and facts.kmsg.now_s - event.at_s <= _RECENT_S:
            yield f"kernel log: Xid {event.xid} {event.text}"
    for record in facts.kmsg.of("DRIVER_TASK_HUNG"):  # judged by its stack: users choose task names
        if facts.kmsg.now_s - record.at_s <= _RECENT_S and not record.over:
            yield f"kernel log: {record.text}"


def _sleeping_tasks(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """NVML answers, but another task has slept in the driver for too long: not confirmed."""
    for task in facts.d_state_tasks:
        if task.in_driver and (task.blocked_s or 0.0) > limits.blocked_s:
            yield finding(
                "DRIVER_SUSPECT",
                subject="node",
                detail=f"task {task.name} (pid {task.pid}) has slept in {task.where} for more than "
                f"{limits.blocked_s:g} s; NVML answers",
            )
            return


def _silent(facts: NodeFacts, limits: Limits) -> Blind | None:
    blind = _nvml_blind(facts)
    hung = blind is not None and blind.hung and blind.passes >= limits.hung_passes
    return blind if hung else None


def _nvml_blind(facts: NodeFacts) -> Blind | None:
    return next((blind for blind in facts.blind if blind.probe == "nvml"), None)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    blind, limit = _nvml_blind(facts), f"< {limits.hung_passes} passes without an answer"
    if facts.nvml is not None and facts.nvml.init_code is not None:
        yield Reading(subject="node", value=facts.nvml.init_error, limit="answers")
    elif blind is not None:
        yield Reading(
            subject="node",
            value=f"no answer for {counted(blind.passes, 'pass', 'passes')}: {blind.why}",
            limit=limit,
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
