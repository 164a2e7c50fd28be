"""The rows of `holdfast check` for given facts."""

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


def test_an_expected_device_without_a_probe_is_blind(
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
    output = {row["check"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    assert (status, output) == (1, dict.fromkeys(asked, BLIND))
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
    good, bad = rows(mounts(a=MountState.OK, b=MountState.READ_ONLY), "mounts")
    assert (good.name, good.verdict, good.code, good.remedy) == ("/mnt/a", "ok", "", "")
    assert (bad.name, bad.verdict, bad.code) == ("/mnt/b", "fatal", "MOUNT_READ_ONLY")
    assert bad.remedy.startswith("Mount it read-write")


@pytest.mark.parametrize(
    ("mode", "effect"),
    [
        (Mode.OFF, "not checked by the agent (mode off)"),
        (Mode.OBSERVE, "Holdfast reports only (mode observe)"),
        (Mode.COMMENT, "Holdfast comments in Slurm (mode comment)"),
        (Mode.DRAIN, "Holdfast drains the node (mode drain)"),
    ],
)
def test_the_effect_of_a_finding_follows_the_mode(mode: Mode, effect: str) -> None:
    (bad,) = rows(mounts(b=MountState.READ_ONLY), "mounts", mode=mode)
    assert bad.effect == effect


def test_a_fault_that_is_no_reason_to_drain_has_another_effect() -> None:
    (bad,) = rows(mounts(b=MountState.FULL), "mounts")
    assert (bad.verdict, bad.effect) == (
        "warn",
        "Holdfast comments in Slurm (not a reason to drain)",
    )


def test_a_probe_without_an_answer_makes_its_checks_blind() -> None:
    facts = NodeFacts(expected_gpus=8, blind=(Blind(probe="mounts", why="no answer in 2 s"),))
    (one,) = rows(facts, "mounts")
    assert (one.verdict, one.value, one.subject) == (BLIND, "no answer in 2 s", "mounts")


def test_each_xid_of_a_gpu_has_a_value_and_a_limit() -> None:
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
def test_piped_output_is_as_wide_as_columns(
    columns: str,
    widest: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(
        "slurm_hooks.cli.check.command.probe_once", lambda *_: mounts(a=MountState.READ_ONLY)
    )
    config = tmp_path / "holdfast.yaml"
    config.write_text("cluster: a\n")
    assert main(["mounts", "--config", str(config)]) == 1
    output = capsys.readouterr().out.splitlines()
    assert widest - 40 < max(map(len, output)) <= widest


def test_a_missing_subject_is_unseen_and_not_ok() -> None:
    (one,) = rows(NodeFacts(expected_gpus=8, mounts=()), "mounts")
    assert one.verdict == UNSEEN


@pytest.mark.parametrize("name", list(checks.CATALOGUE))
def test_no_check_is_ok_on_a_node_without_facts(name: str) -> None:
    """Rule 2: what was not probed is not shown as ok."""
    found = rows(NodeFacts(expected_gpus=8), name)
    assert [row for row in found if row.verdict == "ok" and row.subject not in ("node", "-")] == []


def test_a_harmless_xid_with_a_required_recovery_has_a_remedy() -> None:
    """An Xid 63 that drains the node must not be shown with "nothing to do"."""
    remapped = XidEvent(seq=1, pci="0000:86:00", xid=63, at_s=1.0, text="row", uuid="GPU-3", gpu=3)
    recovery = replace(remapped, seq=2, xid=154, recovery="GPU Reset Required", recovery_value=1)
    alone, *_ = rows(NodeFacts(expected_gpus=8, kmsg=KmsgFacts(xids=(remapped,))), "gpu_xid")
    required, *_ = rows(
        NodeFacts(expected_gpus=8, kmsg=KmsgFacts(xids=(remapped, recovery))), "gpu_xid"
    )
    assert (alone.code, alone.verdict) == ("XID63", "info")
    assert alone.remedy.startswith("Nothing to do.")
    assert (required.code, required.verdict) == ("XID63", "fatal")
    assert required.remedy.startswith("Reset the GPU or reboot the node. XID63 by itself: Nothing")
