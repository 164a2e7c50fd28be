"""The agent's own events: each is recorded once, over restarts and reboots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Mode, Severity
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus
from slurm_hooks.agent.telemetry.history_events import HistoryEvents
from slurm_hooks.agent.telemetry.recorder import Recorder
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import GpuFacts
from slurm_hooks.tracking.gpu import GpuSeen
from slurm_hooks.tracking.node import Streak, TrackedState

FOUND = Finding(
    code="XID79",
    severity=Severity.FATAL,
    subject="GPU-3",
    detail="fell off",
    action=Action.REBOOT,
    gpu=3,
    check="gpu_xid",
)
WORN = replace(FOUND, code="ROW_REMAP_FAILED", action=Action.REPLACE)


class Notes:
    """A recorder that keeps its events in a list."""

    boot_id = "boot-2"

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def note(self, event: str, **facts: Any) -> None:
        kept = {name: value for name, value in facts.items() if value is not None}
        self.said.append((event, kept))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.said]


def memory(*found: Finding, boot: str = "boot-2", uuids: str = "GPU-") -> TrackedState:
    return TrackedState(
        boot_id=boot,
        streaks={f.code: Streak(finding=f, seen=1, open=True, since=5.0) for f in found},
        gpus={
            n: GpuSeen(uuid=f"{uuids}{n}", serial=f"S{n}", pci=f"0000:0{n}:00") for n in range(8)
        },
    )


def begun(
    left: TrackedState, kept: TrackedState | None = None, crashed: bool = False
) -> tuple[HistoryEvents, Notes]:
    notes = Notes()
    history_events = HistoryEvents(cast("Recorder", notes), left, kept or left, 8)
    history_events.started(crashed=crashed)
    return history_events, notes


def gpus(uuids: str = "GPU-") -> list[GpuFacts]:
    return [GpuFacts(index=n, uuid=f"{uuids}{n}", serial=f"S{n}") for n in range(8)]


def opened(found: Finding) -> OpenFinding:
    return OpenFinding(finding=found, mode=Mode.DRAIN, since=5.0)


def test_a_first_start_is_a_boot_with_an_inventory() -> None:
    history_events, notes = begun(TrackedState())
    history_events.record_gpus(gpus())
    history_events.record_gpus(gpus())
    assert notes.names == ["boot", "agent_started", "inventory"]
    assert notes.said[1][1]["after"] == "reboot"


def test_a_restart_records_nothing_twice() -> None:
    history_events, notes = begun(memory(FOUND), crashed=True)
    history_events.record_gpus(gpus())
    history_events.record_findings([opened(FOUND)])
    assert notes.names == ["agent_started"]
    assert notes.said[0][1]["after"] == "crash"


def test_a_reboot_closes_what_it_clears_and_the_rest_stays_open() -> None:
    history_events, notes = begun(memory(FOUND, WORN, boot="boot-1"), memory(WORN))
    assert notes.names == ["boot", "finding_closed", "agent_started"]
    assert notes.said[0][1] == {"before": "boot-1"}
    closed = notes.said[1][1]
    assert (closed["code"], closed["why"], closed["serial"]) == ("XID79", "reboot", "S3")
    history_events.record_findings([opened(WORN)])
    assert len(notes.said) == 3
    history_events.record_findings([opened(WORN), opened(FOUND)])
    assert notes.names[-1] == "finding_opened", "in the next boot it is recorded again"


def test_a_fault_names_the_board() -> None:
    history_events, notes = begun(memory())
    history_events.record_findings([opened(FOUND)])
    name, facts = notes.said[-1]
    assert (name, facts["gpu_uuid"], facts["serial"]) == ("finding_opened", "GPU-3", "S3")


def test_changes_are_recorded_with_their_fault() -> None:
    history_events, notes = begun(memory())
    entry = AuditEntry(
        text="drained: x", event="drained", code="XID79", subject="GPU-3", gpu=3, action="reboot"
    )
    history_events.record_changes(
        [entry, AuditEntry(text="comment cleared")], SlurmStatus(action="drain")
    )
    assert notes.names == ["agent_started", "drained"]
    facts = notes.said[-1][1]
    assert facts["detail"] == "drained: x"
    assert (facts["code"], facts["gpu_uuid"], facts["action"]) == ("XID79", "GPU-3", "reboot")


def test_over_budget_is_recorded_once_and_not_with_a_withdrawal() -> None:
    history_events, notes = begun(memory())
    for _ in range(3):
        history_events.record_changes(
            [], SlurmStatus(action="over-budget", reason="holdfast:XID79: over budget")
        )
    assert notes.names.count("over_budget") == 1
    history_events.record_changes([], SlurmStatus())
    history_events.record_changes(
        [AuditEntry(text="withdrawn", event="withdrawn")], SlurmStatus(action="over-budget")
    )
    assert notes.names[-1] == "withdrawn"


def test_another_machine_and_another_gpu() -> None:
    history_events, notes = begun(memory())
    history_events.record_gpus(gpus("GPU-new-"))
    assert notes.names[1:] == ["machine_replaced", "inventory"]
    history_events.record_gpus([*gpus("GPU-new-")[:7], GpuFacts(index=7, uuid="GPU-7b")])
    assert notes.names[3:] == ["gpu_replaced", "inventory"]
    assert notes.said[3][1]["replaced_uuid"] == "GPU-new-7"
    history_events.record_gpus(gpus("GPU-half-")[:3])
    assert len(notes.said) == 5, "not every GPU reported its UUID"


def test_the_stop_is_recorded() -> None:
    history_events, notes = begun(memory(FOUND))
    history_events.record_findings([])
    history_events.ended(restart=True)
    assert notes.names == ["agent_started", "finding_closed", "agent_ended"]
    assert notes.said[-1][1] == {"why": "new configuration"}


def test_kill_switches_are_recorded_at_the_start_and_when_they_change() -> None:
    notes = Notes()
    events = HistoryEvents(cast(Recorder, notes), memory(), memory(), 8)
    events.started(crashed=False, switches=frozenset({"gpu_xid", "all"}))
    assert notes.said[-1][1]["on"] == ["all", "gpu_xid"]
    events.record_switches(frozenset({"gpu_xid", "all"}))
    assert notes.names == ["agent_started"]
    events.record_switches(frozenset())
    events.record_switches(frozenset())
    assert notes.said[1:] == [("kill_switches", {"on": []})]
    events.started(crashed=False)
    assert "on" not in notes.said[-1][1]
