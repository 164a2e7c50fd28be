"""The verdict file: the status for the hooks, the decision, the drain record, the facts in short."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.cli.commands.explain.files import agent_report, local_verdict
from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.drain_status import Owner, drain_status
from holdfast.findings import Finding, Verdict
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import DrainRecord
from holdfast.records import verdict_file
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName, Status
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.agent.verdict.facts_summary import brief
from slurm_hooks.agent.verdict.publisher import Publisher, enforced, status
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import (
    GpuFacts,
    KmsgFacts,
    MountFacts,
    MountState,
    NodeFacts,
    NvmlFacts,
    PortFacts,
    XidEvent,
)
from slurm_hooks.settings.settings import Settings

ME = SlurmName("worker-1")
AT = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)
RECORD = DrainRecord(
    reason="holdfast:XID154: GPU 3 Xid 154",
    actor="root",
    at=AT,
    written_at=AT,
    code="XID154",
    action=Action.RESET_GPU,
    boot_id="b-1",
    gpu=3,
)
FLAP = Finding(code="IB_FLAP", severity=Severity.WARN, subject="mlx5_0/1", detail="", left_s=600.0)

FELL_OFF = Finding(code="XID79", severity=Severity.FATAL, subject="GPU-3", detail="GPU 3 fell off")
ON_BUS = Finding(code="GPU_PCIE", severity=Severity.INFO, subject="GPU-4", detail="slow link")
FACTS = NodeFacts(expected_gpus=8)


def paths(folder: Path) -> PathsConfig:
    """Folders of a machine with a boot id and a clock."""
    boot = folder / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n")
    (folder / "proc/uptime").write_text("100.5 1.0\n")
    (folder / "run").mkdir()
    return PathsConfig(run=folder / "run", procfs=folder / "proc", state=folder / "state")


# --- the status


@pytest.mark.parametrize(
    ("mode", "severities"),
    [
        (Mode.DRAIN, [Severity.FATAL, Severity.WARN, Severity.INFO]),
        (Mode.COMMENT, [Severity.WARN, Severity.WARN, Severity.INFO]),
        (Mode.OBSERVE, []),
        (Mode.OFF, []),
    ],
)
def test_the_mode_of_a_check_limits_how_much_its_finding_counts(
    mode: Mode, severities: list[Severity]
) -> None:
    opened = [OpenFinding(finding=finding, mode=mode) for finding in (FELL_OFF, FLAP, ON_BUS)]
    counted = enforced(opened)
    assert [finding.severity for finding in counted] == severities
    assert [finding.code for finding in counted] == ["XID79", "IB_FLAP", "GPU_PCIE"][: len(counted)]


def test_each_finding_counts_by_the_mode_of_its_own_check() -> None:
    opened = [
        OpenFinding(finding=FELL_OFF, mode=Mode.COMMENT),
        OpenFinding(finding=ON_BUS, mode=Mode.OBSERVE),
        OpenFinding(finding=FLAP, mode=Mode.DRAIN),
        OpenFinding(finding=FELL_OFF, mode=Mode.DRAIN),
    ]
    warning = replace(FELL_OFF, severity=Severity.WARN)
    assert enforced(opened) == (warning, FLAP, FELL_OFF)


BAD, SUSPECT = Verdict(findings=(FELL_OFF,)), Verdict(findings=(FLAP,))


@pytest.mark.parametrize(
    ("verdict", "action", "expected"),
    [
        (BAD, "drain", Status.BAD),
        (BAD, "none", Status.BAD),
        (BAD, "undrain", Status.BAD),
        (BAD, "over-budget", Status.SUSPECT),
        (SUSPECT, "over-budget", Status.SUSPECT),
        (Verdict(blind=("nvml",)), "over-budget", Status.BLIND),
        (Verdict(), "over-budget", Status.OK),
        (Verdict(), "drain", Status.OK),
    ],
)
def test_only_a_bad_node_over_the_budget_is_published_as_suspect(
    verdict: Verdict, action: str, expected: Status
) -> None:
    assert status(verdict, SlurmStatus(action=action)) is expected


# --- the file


def test_a_reader_gets_what_the_agent_published(tmp_path: Path) -> None:
    places = paths(tmp_path)
    publisher = Publisher(ME, "b-1", places, 30)
    opened = [
        OpenFinding(finding=replace(FELL_OFF, gpu=3, check="gpu_xid"), mode=Mode.DRAIN, since=12.5)
    ]
    slurm_status = SlurmStatus(
        action="over-budget", reason="holdfast:XID79: x", why="no budget", problem="down",
        drained=True,
    )  # fmt: skip
    verdict = Verdict(findings=(FELL_OFF,), blind=("nvml",))
    said = [publisher.status]
    publisher.publish(opened, verdict, slurm_status, FACTS)
    path = verdict_file.path_in(places.run)
    read = verdict_file.read(path, boot_id="b-1", uptime_s=130.9)
    assert (read.status, read.fresh, read.drained) == (Status.SUSPECT, True, True)
    said.append(publisher.status)
    assert said == [Status.BLIND, Status.SUSPECT], "before anything is published, and after"
    assert read.blind == ["nvml"]
    assert read.findings == [
        {
            "code": "XID79", "severity": "fatal", "subject": "GPU-3", "detail": "GPU 3 fell off",
            "action": "none", "gpu": 3, "cause": True, "check": "gpu_xid", "mode": "drain",
            "since": 12.5, "left_s": None,
        }
    ]  # fmt: skip
    assert read.detail["decision"] == {
        "action": "over-budget", "reason": "holdfast:XID79: x", "why": "no budget", "made": None,
    }  # fmt: skip
    about = [read.detail[name] for name in ("node", "boot_id", "agent_pid", "problem", "status")]
    assert about == [ME, "b-1", os.getpid(), "down", "suspect"]
    assert abs(read.detail["at"] - time.time()) < 60
    assert read.own_drain == {}


@pytest.mark.parametrize(("uptime_s", "fresh"), [(130.0, True), (131.0, True), (131.1, False)])
def test_a_verdict_is_valid_for_its_time_to_live_and_less_than_a_second_more(
    tmp_path: Path, uptime_s: float, fresh: bool
) -> None:
    """The uptime was 100.5 s when it was published, for 30 s; the hook sees whole seconds."""
    places = paths(tmp_path)
    Publisher(ME, "b-1", places, 30).publish([], Verdict(), SlurmStatus(), FACTS)
    path = verdict_file.path_in(places.run)
    assert verdict_file.read(path, boot_id="b-1", uptime_s=uptime_s).fresh is fresh


def test_the_log_has_a_line_for_each_change_of_the_verdict_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher = Publisher(ME, "b-1", paths(tmp_path), 30)
    opened = [
        OpenFinding(finding=FELL_OFF, mode=Mode.DRAIN),
        OpenFinding(finding=FLAP, mode=Mode.OBSERVE),
    ]
    drain = SlurmStatus(action="drain", drained=True)
    steps: list[tuple[list[OpenFinding], Verdict, SlurmStatus]] = [
        ([], Verdict(), SlurmStatus()),
        ([], Verdict(), SlurmStatus()),
        (opened, BAD, drain),
        (opened, BAD, drain),
        ([], Verdict(blind=("nvml", "mounts")), SlurmStatus()),
    ]
    for found, verdict, slurm_status in steps:
        publisher.publish(found, verdict, slurm_status, FACTS)
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "info agent: verdict status=ok findings=- blind=- decision=none drained=False",
        "info agent: verdict status=bad findings=XID79,IB_FLAP blind=- decision=drain drained=True",
        "info agent: verdict status=blind findings=- blind=nvml,mounts decision=none drained=False",
    ]


# --- the decision


def test_the_published_record_proves_the_agents_drain_to_a_reader(tmp_path: Path) -> None:
    places = paths(tmp_path)
    places.state.mkdir()
    records.save(records.path_in(places.state), Drained(record=RECORD))
    config = Settings(path=tmp_path / "none.yaml", cluster=ClusterConfig(paths=places))
    publisher = Publisher(ME, "b-1", places, 30)
    opened = [OpenFinding(finding=FLAP, mode=Mode.OBSERVE)]

    def published() -> SlurmNode:
        actor = DrainController(ME, "b-1", config)
        publisher.publish(opened, Verdict(), actor.slurm_status, FACTS)
        return SlurmNode(
            name=ME,
            states=frozenset({NodeState.IDLE, NodeState.DRAIN}),
            reason=RECORD.reason,
            reason_user="root",
            reason_at=AT,
        )

    node = published()
    verdict = local_verdict(places.run, places.procfs, ME)
    assert verdict is not None
    assert verdict["findings"][0]["left_s"] == 600.0
    word = agent_report(json.loads(json.dumps(verdict)))
    assert word is not None
    assert word.made == RECORD
    said = drain_status(node, word)
    assert (said.confirmed, said.required_action) == (True, Action.RESET_GPU)
    records.save(records.path_in(places.state), None)
    node = published()
    word = agent_report(local_verdict(places.run, places.procfs, ME))
    assert word is not None
    assert drain_status(node, word).owner is Owner.OTHER


def test_the_kill_switch_is_published_as_the_decision(tmp_path: Path) -> None:
    config = Settings(path=tmp_path / "none.yaml", cluster=ClusterConfig(paths=paths(tmp_path)))
    actor = DrainController(ME, "b-1", config)
    actor.consider(DrainInputs(may_act=False), now=1.0)
    assert actor.slurm_status.why == "switched off: off/all beside the configuration"
    assert actor.next_at == float("inf")
    actor.consider(DrainInputs(), now=2.0)
    assert actor.workers, "Slurm is asked again once it is on again"
    actor.close()


def test_the_facts_in_short() -> None:
    assert brief(NodeFacts(expected_gpus=8)) == {}
    facts = NodeFacts(
        expected_gpus=2,
        nvml=NvmlFacts(driver="570.1", gpus=(GpuFacts(index=0), GpuFacts(index=1, state_code=15))),
        kmsg=KmsgFacts(xids=(XidEvent(xid=79, pci="0000:5d:00", seq=1, at_s=1.0),)),
        ports=(PortFacts(device="mlx5_0", port=1, state="ACTIVE"),),
        mounts=(MountFacts(path="/mnt/a", state=MountState.HUNG),),
    )
    assert brief(facts) == {
        "GPUs": "1 of 2 answer, driver 570.1",
        "kernel log": "XID79",
        "InfiniBand": "1 of 1 port active",
        "mounts": "/mnt/a hung",
    }
