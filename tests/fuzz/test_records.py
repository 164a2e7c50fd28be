"""Truncated and invalid records on disk: one clear line each, and the node stays as it was."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.adapters.state_file import put_aside
from holdfast.policy.ownership import DrainRecord
from holdfast.vocabulary import Action
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.facts import GpuFacts, NvmlFacts, PortFacts
from slurm_hooks.probes.kmsg.follower import KernelRecord
from slurm_hooks.probes.runner import Readings
from slurm_hooks.settings.settings import Settings, load
from slurm_hooks.tracking import store
from slurm_hooks.tracking.node import TrackedState
from tests.fuzz.garbage import DEEP, XID_79, cut_short, wrong_documents

BOOT = "b007b007-0000-4000-8000-000000000000"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(tmp_path / "no-such-file.yaml")


def one_line(problem: str, path: Path) -> bool:
    """The message names the file and what happens next."""
    return problem.startswith(f"{path}: ") and "\n" not in problem and len(problem) < 400


# --- the tracked state ---------------------------------------------------------------------------


def watched(settings: Settings) -> Observer:
    """An agent that found a lost GPU and a port that went down, and had probes without an answer."""
    observer = Observer(8, BOOT, TrackedState())
    observer.read_probes(readings(), log_problem="", uptime_s=10.0)
    observer.read_kernel_log([KernelRecord(facility=0, level=4, seq=5, at_s=9.0, text=XID_79)])
    observer.judge(settings.active())
    observer.read_probes(readings(state="DOWN", downs=2), log_problem="", uptime_s=20.0)
    observer.judge(settings.active())
    observer.read_probes(readings(state="DOWN", downs=2), log_problem="no such file", uptime_s=30.0)
    observer.judge(settings.active())
    return observer


def readings(state: str = "ACTIVE", downs: int = 0) -> Readings:
    gpu = GpuFacts(index=0, uuid="GPU-0", pci="0000:53:00", uncorrected=0, recovery_action=0)
    port = PortFacts(
        device="mlx5_0", port=1, state=state, link_layer="InfiniBand", link_downed=downs
    )
    return reading_of(NvmlFacts(count=1, driver="570", gpus=(gpu,)), (port,))


def reading_of(nvml: NvmlFacts, ports: tuple[PortFacts, ...]) -> Readings:
    return Readings(facts={"nvml": nvml, "ports": ports}, looked={"nvml", "sysfs"})


def saved(settings: Settings, folder: Path) -> Path:
    path = store.path_in(folder)
    store.save(path, watched(settings).tracked)
    return path


def test_a_truncated_state_file_starts_empty_with_one_line(
    settings: Settings, tmp_path: Path
) -> None:
    path = saved(settings, tmp_path)
    text = path.read_text()
    for part in cut_short(text, step=3):
        path.write_text(part)
        memory, problem = store.load(path)
        assert memory == TrackedState(), part[-40:]
        assert one_line(problem, path), problem
        put_aside(path)
        assert path.with_suffix(".unreadable").read_text() == part, "kept for inspection"


@pytest.mark.parametrize("text", [DEEP, "null", "[]", '"x"', "\0" * 4096, '{"version": 2}'])
def test_a_state_file_with_other_content_starts_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.json"
    path.write_text(text)
    memory, problem = store.load(path)
    assert memory == TrackedState()
    assert one_line(problem, path), problem


def test_no_invalid_state_stops_the_agent(settings: Settings, tmp_path: Path) -> None:
    """Each value replaced by each strange one. What does not load says why; what does must be good
    for all that an agent does with it.
    """
    path = saved(settings, tmp_path)
    document = json.loads(path.read_text())
    table = settings.active()
    for what, text in wrong_documents(document):
        path.write_text(text)
        memory, problem = store.load(path)
        if problem:
            assert one_line(problem, path), (what, problem)
            assert memory == TrackedState(), what
            continue
        try:
            observer = Observer(8, BOOT, memory)
            observer.read_kernel_log(
                [KernelRecord(facility=0, level=4, seq=6, at_s=9.0, text=XID_79)]
            )
            observer.judge_kernel_log(table)
            observer.read_probes(readings(), log_problem="", uptime_s=40.0)
            observer.judge(table)
            Observer(8, "the next boot", observer.tracked).judge(table)
            json.dumps(dataclasses.asdict(observer.tracked))
        except Exception as error:
            raise AssertionError(what) from error


# --- the drain record -----------------------------------------------------------------------------

DRAINED = Drained(
    record=DrainRecord(
        reason="holdfast:XID79: GPU 3 fell off boot=b007b007 gpu=3",
        actor="root",
        at=datetime(2026, 11, 21, tzinfo=timezone.utc),
        written_at=datetime(2026, 11, 21, tzinfo=timezone.utc),
        code="XID79",
        action=Action.REBOOT,
        boot_id=BOOT,
        instance_id="computeinstance-3",
        gpu=3,
    ),
    subject="GPU-3",
)


def test_a_truncated_drain_record_ends_no_drain(tmp_path: Path) -> None:
    path = records.path_in(tmp_path)
    records.save(path, DRAINED)
    text = path.read_text()
    for part in cut_short(text):
        path.write_text(part)
        drained, problem = records.load(path)
        assert drained is None, part
        assert one_line(problem, path), problem
        assert path.read_text() == part, "it stays for inspection"


def test_no_invalid_drain_record_is_accepted(tmp_path: Path) -> None:
    """A record that loads has a value of the right type in every field."""
    path = records.path_in(tmp_path)
    records.save(path, DRAINED)
    document = json.loads(path.read_text())
    for what, text in wrong_documents(document):
        path.write_text(text)
        drained, problem = records.load(path)
        if drained is None:
            assert one_line(problem, path), (what, problem)
            continue
        assert problem == "", what
        assert isinstance(drained.subject, str), what
        for field in dataclasses.fields(DrainRecord):
            value = getattr(drained.record, field.name)
            assert isinstance(value, _KINDS[field.name]), (what, value)
            assert isinstance(value, bool) == (field.name == "by_hand"), (what, value)


_KINDS: dict[str, tuple[type, ...]] = {
    "reason": (str,),
    "actor": (str,),
    "at": (datetime, type(None)),
    "written_at": (datetime,),
    "code": (str,),
    "action": (Action,),
    "boot_id": (str,),
    "instance_id": (str,),
    "gpu": (int, type(None)),
    "slurmctld_at": (datetime, type(None)),
    "returns": (int,),
    "by_hand": (bool,),
}


def test_every_field_of_a_drain_record_is_validated() -> None:
    assert set(_KINDS) == {field.name for field in dataclasses.fields(DrainRecord)}


def test_a_bad_node_stays_bad_without_its_tracked_state(settings: Settings) -> None:
    """The kernel log is read again from its oldest record."""
    observer = Observer(8, BOOT, TrackedState())
    assert observer.tracked.kmsg_seq is None
    observer.read_kernel_log([KernelRecord(facility=0, level=4, seq=5, at_s=9.0, text=XID_79)])
    found = [entry.finding.code for entry in observer.judge_kernel_log(settings.active())]
    assert found == ["XID79"]
