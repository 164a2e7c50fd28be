"""`holdfast check`: facts in, rows out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.cli.check.command import main, rows_of
from slurm_hooks.cli.check.row import BLIND, UNSEEN, Row
from slurm_hooks.evaluation.judge import Table
from slurm_hooks.facts import (
    Blind,
    KmsgFacts,
    MountFacts,
    MountState,
    NodeFacts,
    ServiceFacts,
    SystemFacts,
    XidEvent,
)
from slurm_hooks.settings.sections import CheckConfig


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
    return {name: CheckConfig(limits=checks.load(name).limits(), mode=mode) for name in names}


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


def test_xids_of_one_gpu_have_a_value_and_a_limit_each() -> None:
    def event(number: int, text: str) -> XidEvent:
        return XidEvent(
            seq=number, pci="0000:86:00", xid=number, at_s=1.0, text=text, uuid="GPU-3", gpu=3
        )

    texts = {79: "GPU has fallen off the bus.", 154: "GPU recovery action changed"}
    facts = NodeFacts(
        expected_gpus=8, kmsg=KmsgFacts(xids=tuple(event(n, text) for n, text in texts.items()))
    )
    found = rows(facts, "gpu_xid")
    assert {(row.code, row.value, row.limit) for row in found} == {
        (f"XID{n}", f"Xid {n}: {text}", "none") for n, text in texts.items()
    }


def test_a_required_service_that_cannot_be_seen_is_blind() -> None:
    service = ServiceFacts(name="dcgm", running=None, how="not visible from here")
    facts = NodeFacts(expected_gpus=8, system=SystemFacts(services=(service,), uptime_s=9999.0))
    asked = checks.load("services").limits(required=frozenset({"dcgm"}))
    (required,) = rows_of({"services": CheckConfig(limits=asked)}, facts)
    (other,) = rows(facts, "services")
    assert (required.verdict, other.verdict) == (BLIND, UNSEEN)


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("", 120)])
def test_what_is_piped_is_as_wide_as_columns_say(
    columns: str,
    widest: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(
        "slurm_hooks.cli.check.command.look", lambda *_: mounts(a=MountState.READ_ONLY)
    )
    config = tmp_path / "holdfast.yaml"
    config.write_text("cluster: a\n")
    assert main(["mounts", "--config", str(config)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert widest - 40 < max(map(len, said)) <= widest


def test_what_is_not_there_is_unseen_not_well() -> None:
    (one,) = rows(NodeFacts(expected_gpus=8, mounts=()), "mounts")
    assert one.verdict == UNSEEN


@pytest.mark.parametrize("name", list(checks.CATALOGUE))
def test_no_check_is_well_on_a_node_where_nothing_was_looked_at(name: str) -> None:
    """Law 2, as far as people see it: what was not looked at must not read as ok."""
    found = rows(NodeFacts(expected_gpus=8), name)
    assert [row for row in found if row.verdict == "ok" and row.subject not in ("node", "-")] == []


def test_a_harmless_xid_that_the_driver_wants_something_for_says_what_to_do() -> None:
    """What drains the node for Xid 63 must not be told with "nothing to do"."""
    remapped = XidEvent(seq=1, pci="0000:86:00", xid=63, at_s=1.0, text="row", uuid="GPU-3", gpu=3)
    asks = replace(remapped, seq=2, xid=154, recovery="GPU Reset Required", recovery_value=1)
    alone, *_ = rows(NodeFacts(expected_gpus=8, kmsg=KmsgFacts(xids=(remapped,))), "gpu_xid")
    asked, *_ = rows(NodeFacts(expected_gpus=8, kmsg=KmsgFacts(xids=(remapped, asks))), "gpu_xid")
    assert (alone.code, alone.verdict) == ("XID63", "info")
    assert alone.remedy.startswith("Nothing to do.")
    assert (asked.code, asked.verdict) == ("XID63", "fatal")
    assert asked.remedy.startswith("Reset the GPU or reboot the node. XID63 by itself: Nothing")
