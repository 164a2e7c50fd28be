"""Reserving a node for a test, with a fake Slurm and a crash at every call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import cast

import pytest

from holdfast.adapters.command import Completed
from holdfast.errors import Unavailable
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import (
    Reservation,
    SlurmMaintenance,
    TestJob,
    job_argv,
    outside_any_job,
    parse_reservations,
    reserve_argv,
)
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import reservation_text
from slurm_hooks.active.inspector import Inspector, candidate
from slurm_hooks.active.node_reservation import NodeReservation, Occupied
from slurm_hooks.active.report import Inspected, as_json, as_text, exit_status
from slurm_hooks.active.reservation_text import Maker, Purpose, ReservationText
from slurm_hooks.active.result import CheckOutcome, Judged, Measurement, Result, encode, judged_by

A, B = SlurmName("worker-1"), SlurmName("worker-2")
REASON = "holdfast:XID79: GPU 3 fell off boot=aaaaaaaa gpu=3"
ME = Maker(host="worker-1", boot_id="aaaaaaaa-1", pid=2**22 + 1, start=5)
NOW = 1_000_000.0


class Crashed(BaseException):
    """The process was killed here."""


@dataclass
class FakeSlurm:
    """Nodes, reservations and jobs as in slurmctld. ``crash_at``: the call that does not return."""

    table: dict[str, SlurmNode] = field(default_factory=dict)
    kept: dict[str, Reservation] = field(default_factory=dict)
    shown_after: int = 2
    calls: int = 0
    crash_at: int = -1
    open_to_users: list[str] = field(default_factory=list)
    verdict: CheckOutcome = CheckOutcome.PASSED
    in_use: int = 0
    jobs: list[TestJob] = field(default_factory=list)

    def add(self, name: SlurmName, reason: str = "") -> None:
        states = {NodeState.IDLE} | ({NodeState.DRAIN} if reason else set())
        self.table[name] = SlurmNode(
            name=name, states=frozenset(states), reason=reason, reason_user="root" if reason else "",
            partitions=("main",), cpus=16, gpus=8,
        )  # fmt: skip

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.crash_at:
            raise Crashed
        for name, node in self.table.items():
            if not node.drained_flag and not self._holder(name) and "was drained" in node.comment:
                self.open_to_users.append(f"{name} at call {self.calls}")

    def _holder(self, name: str) -> str:
        return next((one.name for one in self.kept.values() if name in one.nodes), "")

    def nodes(self, names: list[SlurmName]) -> list[SlurmNode]:
        self._call()
        self.shown_after -= bool(self.kept)
        shown = self.shown_after <= 0
        return [
            replace(self.table[n], reservation=self._holder(n) if shown else "")
            for n in names or self.table
        ]

    def drain(self, names: list[SlurmName], reason: str) -> None:
        self._call()
        for name in names:
            node = self.table[name]
            self.table[name] = replace(node, states=node.states | {NodeState.DRAIN}, reason=reason)

    def undrain(self, names: list[SlurmName]) -> None:
        self._call()
        for name in names:
            node = self.table[name]
            assert self._holder(name), "never undrained before it is reserved"
            self.table[name] = replace(
                node, states=node.states - {NodeState.DRAIN}, reason="", comment="was drained"
            )

    def reservations(self, prefix: str) -> list[Reservation]:
        self._call()
        return [one for one in self.kept.values() if one.name.startswith(prefix)]

    def reserve(
        self, name: str, nodes: list[SlurmName], comment: str, *, minutes: int | None
    ) -> bool:
        self._call()
        if name in self.kept:
            return False
        self.kept[name] = Reservation(name=name, nodes=tuple(nodes), comment=comment)
        return True

    def unreserve(self, name: str) -> bool:
        self._call()
        if self.in_use:
            self.in_use -= 1
            return False
        self.kept.pop(name, None)
        return True

    def cancel_in(self, name: str) -> None:
        self._call()

    def run_job(self, job: TestJob, *, timeout_s: float) -> Completed:
        self._call()
        self.jobs.append(job)
        for name in job.nodes:
            assert not self.table[name].drained_flag, "Slurm starts no job on a drained node"
        check = job.name.removeprefix("holdfast-")
        line = encode(check, Judged(verdict=self.verdict, detail="detail"))
        return Completed(status=0, out=line + "\n", err="")


@dataclass
class Bench:
    slurm: FakeSlurm
    config: Path
    maker: Maker = ME
    now: float = NOW

    def reservation(self) -> NodeReservation:
        def sleep(seconds: float) -> None:
            self.now += seconds

        slurm = cast("SlurmMaintenance", self.slurm)
        return NodeReservation(slurm, self.maker, self.config, clock=lambda: self.now, sleep=sleep)

    def whole_test(self) -> None:
        """As ``inspect`` does it."""
        reservation = self.reservation()
        reserved = reservation.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
        try:
            assert reservation.test(reserved, "host").verdict is self.slurm.verdict
        except Crashed:
            raise
        reservation.restore(reserved.name, reserved.text)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    slurm = FakeSlurm()
    slurm.add(A, REASON)
    slurm.add(B)
    return Bench(slurm, tmp_path / "none.yaml")


def test_a_drained_node_is_tested_and_drained_again_with_its_old_reason(bench: Bench) -> None:
    bench.whole_test()
    node = bench.slurm.table[A]
    assert (node.drained_flag, node.reason) == (True, REASON)
    assert bench.slurm.kept == {}
    assert bench.slurm.open_to_users == []
    job = bench.slurm.jobs[0]
    assert (job.name, job.cpus, job.gpus, job.partition) == ("holdfast-host", 16, 8, "main")


def test_after_a_crash_at_any_call_the_next_sweep_restores_the_node(
    bench: Bench, tmp_path: Path
) -> None:
    bench.whole_test()
    last = bench.slurm.calls
    for at in range(1, last + 1):
        slurm = FakeSlurm(crash_at=at)
        slurm.add(A, REASON)
        again = Bench(slurm, tmp_path / "none.yaml")
        with pytest.raises(Crashed):
            again.whole_test()
        slurm.crash_at = -1
        # Another machine sweeps later, after the maker's time is up.
        other = replace(ME, host="login-0", boot_id="cccccccc-3")
        later = Bench(slurm, tmp_path / "none.yaml", maker=other, now=NOW + 86400)
        later.reservation().sweep()
        assert slurm.kept == {}, f"crashed in call {at}"
        assert slurm.table[A].drained_flag, f"crashed in call {at}"
        assert slurm.table[A].reason == REASON, f"crashed in call {at}"
        assert slurm.open_to_users == [], f"crashed in call {at}"


def test_a_sweep_on_the_same_machine_does_not_wait_for_the_time_to_be_up(bench: Bench) -> None:
    bench.reservation().take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    # No process has ME's pid, so on its own host the maker has exited.
    assert bench.reservation().sweep() == ["holdfast_inspect_worker-1_aaaaaaaa"]
    assert bench.slurm.table[A].reason == REASON


def test_a_running_test_of_another_machine_is_not_touched(bench: Bench) -> None:
    bench.maker = replace(ME, host="login-0")
    bench.reservation().take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.maker = ME
    assert bench.reservation().sweep() == []
    with pytest.raises(Occupied, match="under test by login-0"):
        bench.reservation().take(Purpose.RETURN_TEST, [A], for_s=60, drained=REASON)
    assert not bench.slurm.table[A].drained_flag


def test_a_node_that_changed_in_the_meantime_is_released(bench: Bench) -> None:
    bench.slurm.table[A] = replace(bench.slurm.table[A], reason="swapping a DIMM")
    with pytest.raises(Occupied, match="no longer drained with that reason"):
        bench.reservation().take(Purpose.RETURN_TEST, [A], for_s=60, drained=REASON)
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == "swapping a DIMM"
    states = bench.slurm.table[B].states | {NodeState.ALLOCATED}
    bench.slurm.table[B] = replace(bench.slurm.table[B], states=states)
    with pytest.raises(Occupied, match="a job has started"):
        bench.reservation().take(Purpose.INSPECT, [B], for_s=60)
    assert bench.slurm.kept == {}


def test_a_drain_by_an_administrator_during_the_test_stays(bench: Bench) -> None:
    reservation = bench.reservation()
    reserved = reservation.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.slurm.drain([A], "hands off")
    assert reservation.restore(reserved.name, reserved.text)
    assert bench.slurm.table[A].reason == "hands off"


def test_text_that_slurm_appends_to_the_reason_does_not_matter(bench: Bench) -> None:
    changed = replace(bench.slurm.table[A], reason=f"{REASON} : Node unexpectedly rebooted")
    bench.slurm.table[A] = changed
    reserved = bench.reservation().take(Purpose.RETURN_TEST, [A], for_s=60, drained=REASON)
    assert reserved.text.drained == REASON


def test_a_reservation_that_slurm_never_shows_is_removed(bench: Bench) -> None:
    bench.slurm.shown_after = 10_000
    with pytest.raises(Unavailable, match="is not shown"):
        bench.reservation().take(Purpose.RETURN_TEST, [A], for_s=60, drained=REASON)
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == REASON


def test_a_job_that_does_not_end_keeps_the_node_reserved(bench: Bench) -> None:
    reservation = bench.reservation()
    reserved = reservation.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.slurm.in_use = 10_000
    assert not reservation.restore(reserved.name, reserved.text)
    assert bench.slurm.table[A].drained_flag, "but it is drained already"
    assert reserved.name in bench.slurm.kept


def test_a_job_that_slurm_does_not_run_could_not_run(bench: Bench) -> None:
    reservation = bench.reservation()
    reserved = reservation.take(Purpose.INSPECT, [B], for_s=60)

    def refused(job: TestJob, *, timeout_s: float) -> Completed:
        return Completed(status=1, out="", err="srun: error: Unable to allocate resources: busy")

    bench.slurm.run_job = refused  # type: ignore[method-assign]
    result = reservation.test(reserved, "storage")
    assert result.verdict is CheckOutcome.ERROR
    assert "Unable to allocate resources" in result.detail

    def hung(job: TestJob, *, timeout_s: float) -> Completed:
        raise Unavailable(["srun"], "no answer in 5 s")

    bench.slurm.run_job = hung  # type: ignore[method-assign]
    assert reservation.test(reserved, "storage").verdict is CheckOutcome.ERROR


# --- names and comments


@pytest.mark.parametrize("drained", ["", REASON, "[node_problem] holdfast:X: 100 % = a\tb 'c'"])
def test_the_text_of_a_reservation_reads_back(drained: str) -> None:
    text = ReservationText(
        purpose=Purpose.RETURN_TEST, nodes=("w.1", "w.2"), maker=ME, until=9, drained=drained
    )
    stored = Reservation(
        name=text.name, nodes=(SlurmName("w.1"), SlurmName("w.2")), comment=text.comment
    )
    assert reservation_text.read(stored) == text
    line = f"ReservationName={text.name} StartTime=1763701445 EndTime=1763705045 Nodes=w.[1-2]"
    parsed = parse_reservations(f"{line} Flags=MAINT Comment={text.comment}\n")
    assert reservation_text.read(parsed[0]) == text


@pytest.mark.parametrize(
    "comment",
    ["", "by hand", "holdfast/1", "holdfast/1 return-test pid=x", "holdfast/2 return-test"],
)
def test_a_reservation_of_another_owner_is_not_holdfasts(comment: str) -> None:
    stored = Reservation(name="holdfast_return-test_x_1", nodes=(A,), comment=comment)
    assert reservation_text.read(stored) is None
    assert parse_reservations("No reservations in the system\n") == []


def test_stale_by_time_by_boot_and_by_process() -> None:
    text = ReservationText(purpose=Purpose.RETURN_TEST, nodes=(A,), maker=ME, until=int(NOW))
    assert not reservation_text.stale(text, ME, [ME.start], NOW)
    assert reservation_text.stale(text, ME, [ME.start], NOW + 1)
    assert reservation_text.stale(text, ME, [], NOW)
    assert reservation_text.stale(text, ME, [ME.start + 1], NOW), "another process with that pid"
    assert reservation_text.stale(text, replace(ME, boot_id="bbbb"), [ME.start], NOW)
    assert not reservation_text.stale(text, replace(ME, host="other"), [], NOW)


def test_command_lines() -> None:
    argv = reserve_argv("r", ["worker-1", "worker-2"], "c d", None)
    assert argv[3:] == [
        "ReservationName=r", "Nodes=worker-[1-2]", "Users=root", "StartTime=now",
        "Duration=UNLIMITED", "Flags=MAINT,IGNORE_JOBS", "Comment=c d",
    ]  # fmt: skip
    job = TestJob(
        name="holdfast-x", reservation="r", nodes=(A, B), argv=("p",), time_limit_s=61, gpus=8,
        cpus=16, tasks_per_node=8, mpi="pmix",
    )  # fmt: skip
    words = job_argv(job)
    assert {"--time=2", "--cpus-per-task=2", "--gres=gpu:8", "--mpi=pmix", "--nodes=2"} <= set(
        words
    )
    assert words[-1] == "p"
    env = outside_any_job({"SLURM_JOB_ID": "7", "SLURM_CONF": "/x", "SRUN_DEBUG": "1", "HOME": "/"})
    assert env["SLURM_JOB_ID"] is None
    assert env["SRUN_DEBUG"] is None
    assert "SLURM_CONF" not in env
    assert "HOME" not in env


# --- inspections


def test_which_nodes_may_be_tested() -> None:
    slurm = FakeSlurm()
    slurm.add(A, REASON)
    slurm.add(B)
    idle, drained = slurm.table[B], slurm.table[A]
    assert candidate(idle, idle_only=True).skip == ""
    assert candidate(drained, idle_only=False).drained == REASON
    assert candidate(drained, idle_only=True).skip
    by_admin = replace(drained, reason="swapping a DIMM")
    assert "not drained by Holdfast's agent" in candidate(by_admin, idle_only=False).skip
    cordoned = replace(drained, reason="holdfast:KUBE_CORDON: kubectl cordon")
    assert "not drained by Holdfast's agent" in candidate(cordoned, idle_only=False).skip
    for state in (NodeState.ALLOCATED, NodeState.DOWN, NodeState.RESERVED, NodeState.COMPLETING):
        assert candidate(
            replace(idle, states=frozenset({NodeState.IDLE, state})), idle_only=False
        ).skip


def test_an_inspection_restores_every_node_and_reports(bench: Bench) -> None:
    bench.slurm.verdict = CheckOutcome.FAILED
    slurm = cast("SlurmMaintenance", bench.slurm)
    inspector = Inspector(slurm, bench.reservation(), at_once=1, say=lambda _: None)
    found = inspector.candidates([], idle_only=False)
    done = inspector.inspect(found, ["host", "storage"])
    assert [one.verdict for one in done] == ["failed", "failed"]
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == REASON
    assert not bench.slurm.table[B].drained_flag, "an inspection drains no node"


def test_a_node_that_cannot_be_reserved_does_not_stop_the_others(bench: Bench) -> None:
    slurm = cast("SlurmMaintenance", bench.slurm)
    bench.slurm.table[A] = replace(bench.slurm.table[A], reason="holdfast:XID79: other")
    inspector = Inspector(slurm, bench.reservation(), at_once=1, say=lambda _: None)
    found = inspector.candidates([], idle_only=False)
    changed = [replace(found[0], drained=REASON), found[1]]
    done = inspector.inspect(changed, ["host"])
    assert done[0].skipped
    assert done[1].verdict == "passed"


def inspected(*verdicts: CheckOutcome) -> Inspected:
    results = tuple(
        Result(check=f"check{n}", verdict=verdict, detail="") for n, verdict in enumerate(verdicts)
    )
    return Inspected(node="worker-0", was="idle", results=results)


@pytest.mark.parametrize(
    ("verdicts", "verdict", "summary", "status"),
    [
        ("PP", "passed", "passed", 0),
        ("PPCCCC", "incomplete", "incomplete: passed 2 of 6", 3),
        ("CC", "error", "error", 3),
        ("PCF", "failed", "failed", 1),
        ("", "not tested", "not tested", 1),
    ],
)
def test_a_check_that_could_not_run_is_no_pass(
    verdicts: str, verdict: str, summary: str, status: int
) -> None:
    words = {"P": CheckOutcome.PASSED, "C": CheckOutcome.ERROR, "F": CheckOutcome.FAILED}
    node = inspected(*(words[letter] for letter in verdicts))
    assert (node.verdict, node.summary) == (verdict, summary)
    assert exit_status([node]) == status
    page = as_text([node], began=datetime(2026, 1, 1, tzinfo=timezone.utc), took_s=3)
    assert f"worker-0 {summary} idle" in " ".join(page.split())
    assert ("1 node tested" in page) is bool(verdicts)
    assert as_json([node], began=1, ended=2)["nodes"][0]["verdict"] == verdict


def test_the_pass_of_one_node_does_not_hide_an_incomplete_other() -> None:
    passed, gap = (
        inspected(CheckOutcome.PASSED),
        inspected(CheckOutcome.PASSED, CheckOutcome.ERROR),
    )
    assert exit_status([passed, Inspected(node="b", was="busy", skipped="a job runs on it")]) == 0
    assert exit_status([passed, gap]) == 3
    assert exit_status([gap, inspected(CheckOutcome.FAILED)]) == 1


def test_the_page_has_the_reason_of_a_node_that_is_not_tested() -> None:
    nodes = [
        Inspected(node="worker-0", was="idle", skipped="a job runs on it"),
        Inspected(node="worker-1", was="idle", results=()),
    ]
    page = as_text(nodes, began=datetime(2026, 1, 1, tzinfo=timezone.utc), took_s=3)
    assert "worker-0  not tested  idle  a job runs on it" in page
    assert as_json(nodes, began=1, ended=2)["nodes"][0]["skipped"] == "a job runs on it"


def test_the_page_shows_every_reading_that_did_not_pass() -> None:
    readings = tuple(
        Measurement(section="GPUs", subject=f"GPU {n}", value="bad", limit="good", ok=n < 3)
        for n in range(9)
    )
    judged = judged_by(readings, passed="")
    failed = Result(
        check="host", verdict=judged.verdict, detail=judged.detail, readings=judged.readings
    )
    gap = Result(check="storage", verdict=CheckOutcome.ERROR, detail="no such program")
    node = Inspected(node="worker-0", was="idle", results=(failed, gap))
    page = as_text([node], began=datetime(2026, 1, 1, tzinfo=timezone.utc), took_s=3)
    rows = page.partition("Not passed:")[2].partition("\n\n")[0].splitlines()
    for n in range(3, 9):
        assert any(f"GPU {n} bad (limit good)" in row for row in rows)
    assert "no such program" in rows[-1]
    assert "error" in rows[-1]
    assert "3 readings" in page
