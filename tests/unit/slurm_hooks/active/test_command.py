"""``holdfast inspect`` with an invalid configuration: the defaults, and each problem once."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.errors import Refused, UsageError
from holdfast.slurm.client import SlurmJob
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName
from slurm_hooks.active.command import known_tests, tell_excluding_jobs, untested
from slurm_hooks.active.command import main as inspect
from slurm_hooks.active.report import Inspected
from slurm_hooks.active.result import CheckOutcome, Result

DATA = Path(__file__).parents[3] / "data" / "slurm" / "24.11"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may reserve nodes")
def test_an_invalid_configuration_is_reported_once_and_the_defaults_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shlex.quote(str(DATA))
    for name in ("scontrol", "sinfo"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\ncase "$*" in *reservation*) echo "No reservations in the system" ;;\n'
            f"*--json) cat {data}/nodes.json ;; *nodes*) cat {data}/nodes.txt ;;\n"
            f"*) cat {data}/sinfo.txt ;; esac\n"
        )
        (tmp_path / name).chmod(0o755)
    config = tmp_path / "holdfast.yaml"
    state = f"paths: {{state: {tmp_path}/state}}\n"
    config.write_text(f"active: {{inspect: 7}}\nnode: {{budget: {{max_nodes: x}}}}\n{state}")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["inspect", "n4"]) == 2
    captured = capsys.readouterr()
    problems = [line for line in captured.err.splitlines() if "using defaults" in line]
    assert len(problems) == len(set(problems)) == 2, captured.err
    assert "not tested" in captured.out
    assert len(list((tmp_path / "state/inspections").iterdir())) == 2


def test_a_kill_switch_holds_while_the_configuration_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.yaml").write_text("active: {inspect: 7}\n")
    (tmp_path / "off").mkdir()
    (tmp_path / "off/all").touch()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    assert main(["inspect"]) == 2
    assert "every action is switched off" in capsys.readouterr().err


A, B = SlurmName("worker-1"), SlurmName("worker-2")


def test_the_nodes_that_jobs_exclude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    rows = ("12 worker-[1-2]", "13 ", "14 (null)", "15 worker-2", "garbage", "16 a[b")
    squeue.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert SlurmMaintenance(5.0).excluded_nodes() == {A: {12}, B: {12, 15}}


def test_a_suspected_node_is_tested_once_for_each_job(tmp_path: Path) -> None:
    report = {
        "nodes": [
            {"node": A, "checks": [{"check": "host"}], "excluded_by": [12]},
            {"node": B, "checks": [], "excluded_by": [12]},  # it was busy
        ]
    }
    (tmp_path / "2026-11-22T031500Z.json").write_text(json.dumps(report))
    (tmp_path / "2026-11-22T041500Z.json").write_text("[]")
    (tmp_path / "2026-11-22T051500Z.json").write_text('{"nodes": [{"node": "x", "checks": [1]}]}')
    tested = known_tests(tmp_path)
    assert tested == {A: {12}, "x": set()}
    assert untested({A: {12}, B: {12}}, tested) == {B: {12}}
    assert untested({A: {12, 15}}, tested) == {A: {12, 15}}
    assert known_tests(tmp_path / "none") == {}


def test_suspects_are_no_other_nodes() -> None:
    with pytest.raises(UsageError, match="either nodes or --suspects"):
        inspect(["--suspects", "worker-3"])


class Told(SlurmMaintenance):
    """Three jobs exclude A; the first one has ended by the time at which it is told."""

    def __init__(self) -> None:
        super().__init__(5.0)
        self.comments: dict[int, str] = {}

    def excluded_nodes(self) -> dict[SlurmName, set[int]]:
        return {A: {12, 13, 15}}

    def job(self, job_id: int) -> SlurmJob | None:
        return SlurmJob(
            job_id=job_id,
            name="train",
            user="alice",
            state="PENDING",
            state_reason="None",
            restarts=0,
            requeue=True,
            admin_comment="somebody else's" if job_id == 13 else "",
        )

    def admin_comment(self, job: SlurmJob, text: str) -> None:
        if job.job_id == 12:
            raise Refused(["scontrol"], "exit status 1", "Job has already finished")
        self.comments[job.job_id] = text


def result(at: float) -> Result:
    return Result(check="host", verdict=CheckOutcome.PASSED, detail="", nodes=(A,), at=at)


def test_a_job_that_has_ended_does_not_keep_others_from_being_told() -> None:
    slurm = Told()
    tell_excluding_jobs(slurm, [Inspected(node=A, was="idle", results=(result(500.5),))])
    assert slurm.comments == {15: "holdfast: NODE_TESTED node=worker-1 run=0 at=500"}


def test_a_job_is_told_when_the_test_of_the_node_began() -> None:
    """After its test the node is in service, while others are tested for hours: a job may find it bad then."""
    slurm = Told()
    node = Inspected(node=A, was="idle", results=(result(500.5), result(900.5)))
    tell_excluding_jobs(slurm, [node])
    assert slurm.comments[15].endswith("at=500")
