"""`holdfast check`: facts in, rows out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.agent.judge import Table
from slurm_hooks.check_command import main, rows_of
from slurm_hooks.check_row import BLIND, UNSEEN, Row
from slurm_hooks.config import CheckConfig
from slurm_hooks.facts import Blind, MountFacts, MountState, NodeFacts


def test_what_the_configuration_expects_and_nobody_saw_is_blind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"paths: {{state: {tmp_path}, run: {tmp_path}, sysfs: {tmp_path}/sys, "
        f"nvml_library: {tmp_path}/none.so, kmsg: {tmp_path}/kmsg}}\n"
        f"slurm: {{bin: {tmp_path}}}\n"
        "node: {expected_gpus: 8}\n"
        "checks: {infiniband: {limits: {hcas: [mlx5_0]}}}\n"
    )
    asked = ["gpu_count", "gpu_lost", "pci_devices", "infiniband", "slurmd", "clock"]
    status = main([*asked, "--json", "--config", str(config)])
    said = {row["check"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    assert (status, said) == (1, dict.fromkeys(asked, BLIND))
    (tmp_path / "sys/class").mkdir(parents=True)
    assert main(["infiniband", "--json", "--config", str(config)]) == 1
    assert json.loads(capsys.readouterr().out)[0]["code"] == "IB_MISSING"


def table(*names: str, mode: Mode = Mode.DRAIN) -> Table:
    return {name: CheckConfig(limits=checks.load(name).Limits(), mode=mode) for name in names}


def rows(facts: NodeFacts, *names: str, mode: Mode = Mode.DRAIN) -> list[Row]:
    return list(rows_of(table(*names, mode=mode), facts))


def mounts(**states: MountState) -> NodeFacts:
    made = tuple(
        MountFacts(path=f"/mnt/{name}", state=state, free_bytes=50, total_bytes=100, latency_s=0.01)
        for name, state in states.items()
    )
    return NodeFacts(expected_gpus=8, mounts=made)


def test_a_value_and_its_finding_are_one_row() -> None:
    well, ill = rows(mounts(a=MountState.OK, b=MountState.READ_ONLY), "mounts")
    assert (well.name, well.verdict, well.code, well.remedy) == ("/mnt/a", "ok", "", "")
    assert (ill.name, ill.verdict, ill.code) == ("/mnt/b", "fatal", "MOUNT_READ_ONLY")
    assert ill.remedy.startswith("Mount it read-write")


@pytest.mark.parametrize(
    ("mode", "effect"),
    [
        (Mode.OFF, "the agent does not look (mode off) for"),
        (Mode.OBSERVE, "Holdfast only tells (mode observe)"),
        (Mode.COMMENT, "Holdfast notes in Slurm (mode comment)"),
        (Mode.DRAIN, "Holdfast takes the node out of service (mode drain) for"),
    ],
)
def test_what_the_agent_does_about_it_is_said(mode: Mode, effect: str) -> None:
    (ill,) = rows(mounts(b=MountState.READ_ONLY), "mounts", mode=mode)
    assert ill.effect == effect


def test_a_fault_for_which_no_node_leaves_service_says_so() -> None:
    (ill,) = rows(mounts(b=MountState.FULL), "mounts")
    assert (ill.verdict, ill.effect) == (
        "warn",
        "Holdfast notes in Slurm, for no node leaves service for it alone",
    )


def test_a_silent_probe_makes_its_checks_blind_and_nothing_well() -> None:
    facts = NodeFacts(expected_gpus=8, blind=(Blind(probe="mounts", why="no answer in 2 s"),))
    (one,) = rows(facts, "mounts")
    assert (one.verdict, one.value, one.subject) == (BLIND, "no answer in 2 s", "mounts")


def test_what_is_not_there_is_unseen_not_well() -> None:
    (one,) = rows(NodeFacts(expected_gpus=8, mounts=()), "mounts")
    assert one.verdict == UNSEEN


@pytest.mark.parametrize("name", list(checks.CATALOGUE))
def test_no_check_is_well_on_a_node_where_nothing_was_looked_at(name: str) -> None:
    """Law 2, as far as people see it: what was not looked at must not read as ok."""
    found = rows(NodeFacts(expected_gpus=8), name)
    assert [row for row in found if row.verdict == "ok" and row.subject not in ("node", "-")] == []
