"""The verdict file beside its status: the decision, the drain record, and the facts in short."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from holdfast.cli.explain.files import agent_report, local_verdict
from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.drain_owner import Owner, drain_status
from holdfast.findings import Finding, Verdict
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import DrainRecord
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.agent.verdict.facts_summary import brief
from slurm_hooks.agent.verdict.publisher import Publisher
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


def paths(folder: Path) -> PathsConfig:
    """Folders of a machine with a boot id and a clock."""
    boot = folder / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n")
    (folder / "proc/uptime").write_text("100.5 1.0\n")
    (folder / "run").mkdir()
    return PathsConfig(run=folder / "run", procfs=folder / "proc", state=folder / "state")


def test_the_published_record_proves_the_agents_drain_to_a_reader(tmp_path: Path) -> None:
    places = paths(tmp_path)
    places.state.mkdir()
    records.save(records.path_in(places.state), Drained(record=RECORD))
    config = Settings(path=tmp_path / "none.yaml", cluster=ClusterConfig(paths=places))
    publisher = Publisher(ME, "b-1", places, 30)
    opened = [OpenFinding(finding=FLAP, mode=Mode.OBSERVE)]

    def published() -> SlurmNode:
        actor = DrainController(ME, "b-1", config)
        publisher.publish(opened, Verdict(), actor.slurm_status, NodeFacts(expected_gpus=8))
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
    assert actor.workers, "Slurm is asked anew once it is on again"
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
