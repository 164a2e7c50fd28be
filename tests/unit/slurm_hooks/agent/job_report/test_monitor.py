"""The job monitor with real notes, real processes and a scontrol that writes to a file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.agent.job_report.monitor import JobMonitor
from slurm_hooks.facts import GpuProcess, NodeFacts
from slurm_hooks.node import machine
from slurm_hooks.node.step_sockets import KilledStep
from slurm_hooks.settings import settings
from tests.unit.slurm_hooks.agent.job_runs.builders import facts, xid

USER = 65534 if os.geteuid() == 0 else os.getuid()
"""The jobs' user: not root, whose processes are never killed."""

JOB = 1_000_000 + os.getpid()
"""Processes found here are really killed, so no other process on this machine may have this job id.
"""

SCONTROL = """#!/bin/sh
case "$1" in
show) printf '{"jobs": [{"job_id": %s, "admin_comment": "%s"}]}' "$3" "$(cat {0}/comment 2>/dev/null)" ;;
update) for word in "$@"; do case $word in AdminComment=*) printf %s "${word#*=}" >{0}/comment ;; esac; done
  echo "$@" >>{0}/updates ;;
esac
"""


class Site:
    """One node's folders, its job monitor, and the input for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / "run"
        (folder / "bin").mkdir()
        scontrol = folder / "bin/scontrol"
        scontrol.write_text(SCONTROL.replace("{0}", str(folder)))
        scontrol.chmod(0o755)
        for path in (self.run, folder / "state"):
            path.mkdir()
        self.boot = machine.boot_id()
        self.health: JobMonitor | None = None
        self.started: list[subprocess.Popen[bytes]] = []

    def agent(self, more: str = "") -> JobMonitor:
        """A new agent, as after a restart."""
        if self.health is not None:
            self.health.close()
        config = self.folder / "holdfast.yaml"
        config.write_text(
            f"paths: {{run: {self.run}, state: {self.folder}/state}}\n"
            f"slurm: {{bin: {self.folder}/bin}}\n"
            f"node: {{leftover_grace_s: 0.2, expected_gpus: 2{more}}}\n"
            "checks: {gpu_xid: {mode: drain}, job_leftovers: {mode: drain}}\n"
        )
        self.health = JobMonitor("worker-1", self.boot, settings.load(config))
        return self.health

    def note(
        self, kind: str, job: int = JOB, restarts: int = 0, *, gpus: str = "0,1", skip: str = "-"
    ) -> None:
        line = f"holdfast-job/1 {kind} {job} {restarts} {machine.uptime_s()} {self.boot} {USER} {gpus} - {skip} end\n"
        (self.run / f"notes/{job}.{restarts}.{kind}").write_text(line)

    def look(self, found: NodeFacts) -> None:
        """One whole pass over the probes."""
        assert self.health is not None
        self.health.turn(time.monotonic())
        self.health.add_pass(found, machine.uptime_s() + 0.01)

    def until(self, reached: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
        assert self.health is not None
        end = time.monotonic() + timeout_s
        while not reached():
            assert time.monotonic() < end, what
            self.health.turn(time.monotonic())
            time.sleep(0.01)

    def process(
        self, job: int = JOB, command: str = "sleep 60", **env: str
    ) -> subprocess.Popen[bytes]:
        full = {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "PATH": os.environ["PATH"], **env}
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            env=full,
            user=USER,
            group=USER,
            extra_groups=[],
        )
        self.started.append(child)
        return child

    def report(self, job: int = JOB) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.run / f"reports/{job}.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def ended(self, job: int = JOB) -> dict[str, Any]:
        self.until(lambda: bool(self.report(job).get("final")), "the report")
        return self.report(job)

    @property
    def comment(self) -> str:
        path = self.folder / "comment"
        return path.read_text() if path.exists() else ""

    def notes(self) -> list[str]:
        return sorted(path.name for path in (self.run / "notes").iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.agent()
    yield made
    if made.health is not None:
        made.health.close()
    for child in made.started:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


def test_a_clean_job_is_judged_without_incidents(site: Site) -> None:
    site.look(facts(uncorrected=3))
    time.sleep(0.05)
    site.note("start")
    site.look(facts(uncorrected=3))
    assert site.health is not None
    assert not site.health.wants_pass(time.monotonic())
    site.note("end")
    site.look(facts(uncorrected=3))
    found = site.ended()
    assert (found["evaluated"], found["attribution"], found["not_evaluated_reason"]) == (
        True,
        "none",
        "",
    )
    assert found["baseline_after_s"] <= 0
    assert site.notes() == []
    assert site.comment == ""
    assert (site.run / f"reports/{JOB}.json").stat().st_mode & 0o777 == 0o644


def test_an_xid_is_reported_while_the_job_runs(site: Site) -> None:
    site.look(facts())
    site.note("start")
    site.look(facts())
    site.process()
    assert site.health is not None
    site.health.add_xids(
        [xid(13, gpu=1, at_s=machine.uptime_s(), text="pid=4242, name=x, Graphics")]
    )
    site.until(lambda: bool(site.comment), "the comment")
    assert site.comment.startswith("holdfast: XID13 node=worker-1 gpu=1 step=0 pid=4242 run=0 at=")
    assert site.report()["xids"][0]["attribution"] == "job"
    assert site.report()["not_evaluated_reason"] == "it is still running"


def test_errors_during_the_job_are_reported_as_they_occur(site: Site) -> None:
    site.look(facts(uncorrected=3))
    site.note("start", gpus="1")
    site.look(facts(uncorrected=3))
    site.look(facts(uncorrected=5))
    site.until(lambda: bool(site.comment), "the comment")
    assert site.comment.startswith("holdfast: ECC_UNCORRECTED node=worker-1 gpu=1 n=2 run=0 at=")
    site.note("end", gpus="1")
    site.look(facts(uncorrected=5))
    (counted,) = site.ended()["counters"]
    assert (counted["gpu"], counted["count"], counted["attribution"]) == (1, 2, "node")


def test_a_killed_slurmstepd_is_reported_while_the_job_runs_also_by_a_restarted_agent(
    site: Site,
) -> None:
    site.note("start")
    site.look(facts())
    assert site.health is not None
    site.health.add_killed(KilledStep(job=JOB, step="0"))
    site.until(lambda: bool(site.comment), "the comment")
    expected = r"holdfast: STEPD_KILLED node=worker-1 step=0 run=0 at=[0-9]+"
    assert re.fullmatch(expected, site.comment)
    (site.folder / "comment").unlink()
    assert site.report()["attribution"] == "none"
    site.agent().add_killed(KilledStep(job=JOB, step="1"))
    site.until(lambda: site.comment.count("STEPD_KILLED") == 2, "both in the comment")


def test_a_comment_that_another_agent_overwrote_with_what_it_had_read_before_is_written_again(
    site: Site,
) -> None:
    site.note("start")
    site.look(facts())
    assert site.health is not None
    site.health.add_killed(KilledStep(job=JOB, step="0"))
    site.until(lambda: bool(site.comment), "the comment")
    site.until(lambda: not site.health.workers, "the worker is done")  # type: ignore[union-attr]
    (site.folder / "comment").write_text("holdfast: journal=/mnt/c/job.jsonl")
    site.until(lambda: "STEPD_KILLED" in site.comment, "the comment again")
    assert site.comment.endswith("; journal=/mnt/c/job.jsonl")
    site.until(lambda: site.health.next_at == site.health._next_look, "nothing is left to do")  # type: ignore[union-attr]


def test_another_users_comment_stays(site: Site) -> None:
    (site.folder / "comment").write_text("ticket 1234")
    site.note("start")
    site.look(facts())
    assert site.health is not None
    site.health.add_xids([xid(79, gpu=0, at_s=machine.uptime_s())])
    site.until(lambda: bool(site.report().get("xids")), "the report")
    site.until(lambda: not site.health.workers, "the worker is done")  # type: ignore[union-attr]
    assert site.comment == "ticket 1234"
    assert not (site.folder / "updates").exists()


def test_a_restarted_agent_continues_from_the_jobs_baseline(site: Site) -> None:
    site.look(facts(uncorrected=3))
    site.note("start")
    site.look(facts(uncorrected=3))
    site.agent()
    site.look(facts(uncorrected=7))
    site.note("end")
    site.look(facts(uncorrected=7))
    assert {one["count"] for one in site.ended()["counters"]} == {4}


def test_an_incomplete_baseline_is_one_log_line_and_no_judgement(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    site.look(facts(uncorrected=3))
    site.note("start")
    site.look(facts(uncorrected=3))
    book = site.folder / "state/jobs.json"
    book.write_text(book.read_text()[:40])
    capfd.readouterr()
    time.sleep(0.02)
    site.agent()
    said = capfd.readouterr().err
    assert said.count("incomplete JSON") == 1
    assert book.with_suffix(".unreadable").exists(), "kept for inspection"
    site.look(facts(uncorrected=9))
    site.note("end")
    site.look(facts(uncorrected=9))
    found = site.ended()
    assert (found["evaluated"], found["not_evaluated_reason"]) == (False, "its baseline was lost")
    assert (found["counters"], site.comment) == ([], "")
    site.agent()
    assert "incomplete JSON" not in capfd.readouterr().err, "reported once"


def test_a_late_baseline_is_reported_as_such(site: Site) -> None:
    site.note("start")
    time.sleep(0.15)
    site.look(facts(uncorrected=3))
    site.note("end")
    site.look(facts(uncorrected=3))
    assert site.ended()["baseline_after_s"] > 0.1


def test_an_incomplete_note_is_one_log_line_and_removed(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    (site.run / f"notes/{JOB}.0.start").write_text(f"holdfast-job/1 start {JOB} 0")
    site.look(facts())
    assert "half-written note" in capfd.readouterr().err
    assert site.notes() == []


def test_runs_and_notes_of_another_boot_are_ignored(site: Site) -> None:
    site.note("start")
    site.look(facts(uncorrected=3))
    site.boot = "another"
    site.agent()
    site.look(facts(uncorrected=9))
    assert site.notes() == []
    site.note("end")
    site.look(facts(uncorrected=9))
    assert site.ended()["not_evaluated_reason"] == "its prolog left no note"


def test_leftovers_are_only_reported_by_default(site: Site) -> None:
    site.note("start")
    site.look(facts())
    child = site.process()
    other = site.process(job=JOB + 1)
    site.note("end")
    site.look(facts())
    (left,) = site.ended()["leftovers"]
    assert (left["pid"], left["fate"], left["confirmed"]) == (child.pid, "alive", True)
    assert child.poll() is None
    assert other.poll() is None
    assert site.health is not None
    assert [one.pid for one in site.health.leftovers] == [child.pid]
    child.kill()
    child.wait()
    site.look(facts())
    assert site.health.leftovers == ()


def test_with_the_policy_kill_only_leftovers_are_killed(site: Site) -> None:
    site.agent(", leftovers: kill")
    older = site.process()
    time.sleep(0.05)
    site.note("start")
    site.look(facts())
    gentle, stubborn = (
        site.process(),
        site.process(command="sh -c 'trap : TERM; while :; do sleep 0.1; done'"),
    )
    other, bare = site.process(job=JOB + 1), site.process(job=JOB * 10)
    time.sleep(0.1)
    site.note("end")
    site.look(facts())
    found = site.ended()
    fates = {one["pid"]: one["fate"] for one in found["leftovers"]}
    assert (fates[gentle.pid], fates[stubborn.pid]) == ("ended", "ended")
    assert (gentle.wait(5), stubborn.wait(5)) == (-15, -9)
    assert all(child.poll() is None for child in (older, other, bare))
    assert older.pid not in fates


def test_a_job_that_skips_the_checks_is_neither_judged_nor_cleaned_up(site: Site) -> None:
    site.agent(", leftovers: kill, allow_skip: true")
    assert (site.run / "allow_skip").exists()
    site.look(facts(uncorrected=1))
    site.note("start", skip="skip")
    site.look(facts(uncorrected=5))
    child = site.process()
    site.note("end", skip="skip")
    site.look(facts(uncorrected=5))
    found = site.ended()
    assert (found["evaluated"], found["attribution"], site.comment) == (False, "none", "")
    assert child.poll() is None
    site.agent()
    assert not (site.run / "allow_skip").exists()


def test_the_kill_switch_stops_all_but_the_report(site: Site) -> None:
    site.agent(", leftovers: kill")
    (site.folder / "off").mkdir()
    (site.folder / "off/all").touch()
    site.note("start")
    site.look(facts())
    child = site.process()
    assert site.health is not None
    site.health.add_xids([xid(13, at_s=machine.uptime_s())])
    site.note("end")
    site.look(facts())
    assert site.ended()["xids"]
    assert child.poll() is None
    assert site.comment == ""


def test_a_process_of_no_known_job_on_a_gpu_is_reported_and_never_killed(site: Site) -> None:
    site.agent(", leftovers: kill")
    site.note("start", gpus="0")
    site.look(facts())
    stranger = subprocess.Popen(["sleep", "60"])
    site.started.append(stranger)
    held = facts(processes=(GpuProcess(pid=stranger.pid, used_bytes=1 << 30),))
    site.note("end", gpus="0")
    site.look(held)
    (left,) = site.ended()["leftovers"]
    assert (left["pid"], left["confirmed"], left["gpus"]) == (stranger.pid, False, [0])
    assert stranger.poll() is None
    assert site.health is not None
    assert site.health.leftovers[0].used_bytes == 1 << 30
    site.look(facts())
    assert site.health.leftovers == ()


def test_gpus_that_do_not_answer_delay_the_final_report_only_for_a_while(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_hooks.agent.job_report import monitor

    site.look(facts(uncorrected=1))
    site.note("start")
    site.look(facts(uncorrected=1))
    site.note("end")
    blind = NodeFacts(expected_gpus=2)
    site.look(blind)
    assert not site.report().get("final")
    monkeypatch.setattr(monitor, "_PATIENCE_S", 0.0)
    site.look(blind)
    assert site.ended()["counters"] == []


def test_a_leftover_that_holds_a_gpu_is_known_to_the_next_agent(site: Site) -> None:
    site.note("start")
    site.look(facts())
    child = site.process()
    held = facts(processes=(GpuProcess(pid=child.pid, used_bytes=1 << 30),))
    site.note("end")
    site.look(held)
    assert site.ended()["leftovers"][0]["gpus"] == [0, 1]
    site.agent()
    assert site.health is not None
    assert site.health.leftovers[0].gpus == ()
    site.look(held)
    (left,) = site.health.leftovers
    assert (left.pid, left.gpus, left.used_bytes) == (child.pid, (0, 1), 2 << 30)
    child.kill()
    child.wait()
    site.look(facts())
    assert site.health.leftovers == ()


def test_gpu_memory_without_a_known_holder_is_reported(site: Site) -> None:
    site.look(facts(memory_used_bytes=500 << 20))
    time.sleep(0.05)
    site.note("start", gpus="1")
    site.look(facts(memory_used_bytes=9 << 30))
    site.note("end", gpus="1")
    more = facts(memory_used_bytes=2 << 30)
    site.look(more)
    site.until(lambda: site.health.wants_pass(time.monotonic() + 5), "requires another pass")  # type: ignore[union-attr]
    site.look(more)
    found = site.ended()
    assert found["gpu_memory_not_released"] == [
        {"gpu": 1, "before_bytes": 500 << 20, "after_bytes": 2 << 30}
    ]


def test_gpu_memory_that_is_freed_a_moment_later_is_not_reported(site: Site) -> None:
    site.look(facts(memory_used_bytes=500 << 20))
    time.sleep(0.05)
    site.note("start")
    site.look(facts(memory_used_bytes=500 << 20))
    site.note("end")
    site.look(facts(memory_used_bytes=2 << 30))
    site.until(lambda: site.health.wants_pass(time.monotonic() + 5), "requires another pass")  # type: ignore[union-attr]
    site.look(facts(memory_used_bytes=501 << 20))
    assert site.ended()["gpu_memory_not_released"] == []


def test_unreadable_processes_are_not_reported_as_none(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_hooks.agent.job_runs import processes

    def broken(*_: object) -> Iterator[object]:
        raise OSError(5, "Input/output error")
        yield

    monkeypatch.setattr(processes, "scan", broken)
    site.look(facts())
    site.note("start")
    site.look(facts())
    site.note("end")
    site.look(facts())
    found = site.ended()
    assert (found["leftovers"], found["evaluated"]) == ([], True)
    assert "Input/output error" in found["leftovers_unknown"]


def test_an_xid_that_a_killed_agent_did_not_report_is_reported_by_the_next(site: Site) -> None:
    scontrol = site.folder / "bin/scontrol"
    scontrol.rename(site.folder / "bin/away")
    site.note("start")
    site.look(facts())
    assert site.health is not None
    site.health.add_xids([xid(31, gpu=0, at_s=machine.uptime_s())])
    site.until(lambda: bool(site.report().get("xids")), "the report")
    (site.folder / "bin/away").rename(scontrol)
    site.agent()
    site.until(lambda: "XID31 node=worker-1 gpu=0" in site.comment, "the comment")
