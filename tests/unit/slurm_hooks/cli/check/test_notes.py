"""What `holdfast check` shows besides its rows: kill switches, the real mode, no slurmd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_hooks.cli.check.command import main
from slurm_hooks.facts import MountFacts, MountState, NodeFacts


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with slurmd, and a faulty mount in mode drain."""
    bad = MountFacts(
        path="/mnt/a", state=MountState.READ_ONLY, free_bytes=1, total_bytes=2, latency_s=0.1
    )
    facts = NodeFacts(expected_gpus=0, mounts=(bad,))
    monkeypatch.setattr("slurm_hooks.cli.check.command.probe_once", lambda *_: facts)
    monkeypatch.setattr("slurm_hooks.cli.check.notes._SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "slurmd").touch(mode=0o755)
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "comm").write_text("bash\n")
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"paths: {{procfs: {tmp_path}/proc}}\nchecks: {{mounts: {{mode: drain}}}}\n")
    return path


def checked(config: Path, capsys: pytest.CaptureFixture[str], *names: str) -> list[str]:
    assert main([*names, "--config", str(config)]) == 1
    return capsys.readouterr().out.splitlines()


def switch(config: Path, *names: str) -> Path:
    folder = config.parent / "off"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_without_a_kill_switch_nothing_is_added(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(config, capsys, "mounts")[-1] == (
        "Holdfast drains the node (mode drain): MOUNT_READ_ONLY"
    )


def test_active_kill_switches_are_shown_with_what_they_stop(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = switch(config, "all", "bridge", "gpu_thermal")
    assert checked(config, capsys, "mounts")[-4:] == [
        "Holdfast reports only (mode observe): MOUNT_READ_ONLY",
        f"kill switch {off}/all is on: Holdfast acts on nothing here: no drain, comment, kill or "
        "requeue; checks only report",
        f"kill switch {off}/bridge is on: the bridge only writes conditions, labels and Events",
        f"kill switch {off}/gpu_thermal is on: the check gpu_thermal does not run",
    ]


def test_a_kill_switch_without_a_check_is_reported(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = switch(config, "gpu_termal", "..data")
    assert checked(config, capsys, "mounts")[-1] == (
        f"{off}/gpu_termal has no effect: there is no check of that name; did you mean gpu_thermal?"
    )


def test_the_mode_of_a_check_that_is_switched_off_is_off(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switch(config, "mounts")
    assert "not checked by the agent (mode off): MOUNT_READ_ONLY" in checked(
        config, capsys, "mounts"
    )


def test_a_machine_without_slurmd_is_not_a_compute_node(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "bin" / "slurmd").unlink()
    assert checked(config, capsys, "mounts")[-1].startswith("no slurmd found, neither a process")
    (config.parent / "proc" / "7" / "comm").write_text("slurmd\n")
    assert "slurmd" not in "".join(checked(config, capsys, "mounts"))


def test_the_json_rows_stay_alone_on_standard_output(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switch(config, "all")
    assert main(["mounts", "--json", "--config", str(config)]) == 1
    output = capsys.readouterr()
    assert [row["mode"] for row in json.loads(output.out)] == ["observe"]
    # A launcher's thread of an earlier test may still print.
    assert any(line.startswith("holdfast check: kill switch ") for line in output.err.splitlines())
