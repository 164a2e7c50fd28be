"""Keeping a node for a test, against a Slurm that behaves, with a crash at every call."""

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
from slurm_hooks.active import reservation_text as keeps
from slurm_hooks.active.inspector import Inspector, candidate
from slurm_hooks.active.node_reservation import NodeReservation, Occupied
from slurm_hooks.active.page import Inspected, as_json, as_text, exit_status
from slurm_hooks.active.reservation_text import Maker, Purpose, ReservationText
from slurm_hooks.active.result import Judged, Result, Verdict, encode

A, B = SlurmName("worker-1"), SlurmName("worker-2")
REASON = "holdfast:XID79: GPU 3 fell off boot=aaaaaaaa gpu=3"
ME = Maker(host="worker-1", boot_id="aaaaaaaa-1", pid=2**22 + 1, start=5)
NOW = 1_000_000.0


class Crashed(BaseException):
    """Our process died here."""


@dataclass
class FakeSlurm:
    """Nodes, reservations and jobs as slurmctld keeps them. ``crash_at``: the call that we die in."""

    table: dict[str, SlurmNode] = field(default_factory=dict)
    kept: dict[str, Reservation] = field(default_factory=dict)
    shown_after: int = 2
    calls: int = 0
    crash_at: int = -1
    open_to_users: list[str] = field(default_factory=list)
    verdict: Verdict = Verdict.PASSED
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
            assert self._holder(name), "never undrained before it is kept"
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
        line = encode(check, Judged(verdict=self.verdict, detail="said"))
        return Completed(status=0, out=line + "\n", err="")


@dataclass
class Bench:
    slurm: FakeSlurm
    config: Path
    maker: Maker = ME
    now: float = NOW

    def keeper(self) -> NodeReservation:
        def sleep(seconds: float) -> None:
            self.now += seconds

        slurm = cast("SlurmMaintenance", self.slurm)
        return NodeReservation(slurm, self.maker, self.config, clock=lambda: self.now, sleep=sleep)

    def whole_test(self) -> None:
        """As ``inspect`` does it."""
        keeper = self.keeper()
        kept = keeper.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
        try:
            assert keeper.test(kept, "host").verdict is self.slurm.verdict
        except Crashed:
            raise
        keeper.restore(kept.name, kept.keep)


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


def test_wherever_we_die_the_next_one_puts_everything_back(bench: Bench, tmp_path: Path) -> None:
    bench.whole_test()
    last = bench.slurm.calls
    for at in range(1, last + 1):
        slurm = FakeSlurm(crash_at=at)
        slurm.add(A, REASON)
        again = Bench(slurm, tmp_path / "none.yaml")
        with pytest.raises(Crashed):
            again.whole_test()
        slurm.crash_at = -1
        # Another machine comes later; the maker's time is up.
        other = replace(ME, host="login-0", boot_id="cccccccc-3")
        later = Bench(slurm, tmp_path / "none.yaml", maker=other, now=NOW + 86400)
        later.keeper().sweep()
        assert slurm.kept == {}, f"died in call {at}"
        assert slurm.table[A].drained_flag, f"died in call {at}"
        assert slurm.table[A].reason == REASON, f"died in call {at}"
        assert slurm.open_to_users == [], f"died in call {at}"


def test_the_same_machine_need_not_wait_for_the_time_to_be_up(bench: Bench) -> None:
    bench.keeper().take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    # ME's pid is of no process, so on its own host it counts as dead.
    assert bench.keeper().sweep() == ["holdfast_inspect_worker-1_aaaaaaaa"]
    assert bench.slurm.table[A].reason == REASON


def test_a_test_that_is_under_way_elsewhere_is_left_alone(bench: Bench) -> None:
    bench.maker = replace(ME, host="login-0")
    bench.keeper().take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.maker = ME
    assert bench.keeper().sweep() == []
    with pytest.raises(Occupied, match="under test by login-0"):
        bench.keeper().take(Purpose.GATE, [A], for_s=60, drained=REASON)
    assert not bench.slurm.table[A].drained_flag


def test_a_node_that_changed_meanwhile_is_let_go(bench: Bench) -> None:
    bench.slurm.table[A] = replace(bench.slurm.table[A], reason="swapping a DIMM")
    with pytest.raises(Occupied, match="no longer drained with that reason"):
        bench.keeper().take(Purpose.GATE, [A], for_s=60, drained=REASON)
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == "swapping a DIMM"
    states = bench.slurm.table[B].states | {NodeState.ALLOCATED}
    bench.slurm.table[B] = replace(bench.slurm.table[B], states=states)
    with pytest.raises(Occupied, match="a job started meanwhile"):
        bench.keeper().take(Purpose.INSPECT, [B], for_s=60)
    assert bench.slurm.kept == {}


def test_a_drain_by_a_person_during_the_test_stays_theirs(bench: Bench) -> None:
    keeper = bench.keeper()
    kept = keeper.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.slurm.drain([A], "hands off")
    assert keeper.restore(kept.name, kept.keep)
    assert bench.slurm.table[A].reason == "hands off"


def test_slurms_own_words_behind_our_reason_do_not_matter(bench: Bench) -> None:
    said = replace(bench.slurm.table[A], reason=f"{REASON} : Node unexpectedly rebooted")
    bench.slurm.table[A] = said
    kept = bench.keeper().take(Purpose.GATE, [A], for_s=60, drained=REASON)
    assert kept.keep.drained == REASON


def test_a_reservation_that_never_shows_is_given_up(bench: Bench) -> None:
    bench.slurm.shown_after = 10_000
    with pytest.raises(Unavailable, match="does not show"):
        bench.keeper().take(Purpose.GATE, [A], for_s=60, drained=REASON)
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == REASON


def test_a_job_that_does_not_end_keeps_the_node_kept(bench: Bench) -> None:
    keeper = bench.keeper()
    kept = keeper.take(Purpose.INSPECT, [A], for_s=60, drained=REASON)
    bench.slurm.in_use = 10_000
    assert not keeper.restore(kept.name, kept.keep)
    assert bench.slurm.table[A].drained_flag, "but it is drained already"
    assert kept.name in bench.slurm.kept


def test_what_slurm_does_not_run_could_not_run(bench: Bench) -> None:
    keeper = bench.keeper()
    kept = keeper.take(Purpose.INSPECT, [B], for_s=60)

    def refused(job: TestJob, *, timeout_s: float) -> Completed:
        return Completed(status=1, out="", err="srun: error: Unable to allocate resources: busy")

    bench.slurm.run_job = refused  # type: ignore[method-assign]
    result = keeper.test(kept, "storage")
    assert result.verdict is Verdict.COULD_NOT_RUN
    assert "Unable to allocate resources" in result.detail

    def hung(job: TestJob, *, timeout_s: float) -> Completed:
        raise Unavailable(["srun"], "no answer in 5 s")

    bench.slurm.run_job = hung  # type: ignore[method-assign]
    assert keeper.test(kept, "storage").verdict is Verdict.COULD_NOT_RUN


# --- names and comments


@pytest.mark.parametrize("drained", ["", REASON, "[node_problem] holdfast:X: 100 % = a\tb 'c'"])
def test_what_a_reservation_says_reads_back(drained: str) -> None:
    keep = ReservationText(
        purpose=Purpose.GATE, nodes=("w.1", "w.2"), maker=ME, until=9, drained=drained
    )
    stored = Reservation(
        name=keep.name, nodes=(SlurmName("w.1"), SlurmName("w.2")), comment=keep.comment
    )
    assert keeps.read(stored) == keep
    line = f"ReservationName={keep.name} StartTime=1763701445 EndTime=1763705045 Nodes=w.[1-2]"
    parsed = parse_reservations(f"{line} Flags=MAINT Comment={keep.comment}\n")
    assert keeps.read(parsed[0]) == keep


@pytest.mark.parametrize(
    "comment", ["", "by hand", "holdfast/1", "holdfast/1 gate pid=x", "holdfast/2 gate"]
)
def test_a_reservation_of_somebody_else_is_not_ours(comment: str) -> None:
    stored = Reservation(name="holdfast_gate_x_1", nodes=(A,), comment=comment)
    assert keeps.read(stored) is None
    assert parse_reservations("No reservations in the system\n") == []


def test_stale_by_time_by_boot_and_by_process() -> None:
    keep = ReservationText(purpose=Purpose.GATE, nodes=(A,), maker=ME, until=int(NOW))
    assert not keeps.stale(keep, ME, [ME.start], NOW)
    assert keeps.stale(keep, ME, [ME.start], NOW + 1)
    assert keeps.stale(keep, ME, [], NOW)
    assert keeps.stale(keep, ME, [ME.start + 1], NOW), "another process with that pid"
    assert keeps.stale(keep, replace(ME, boot_id="bbbb"), [ME.start], NOW)
    assert not keeps.stale(keep, replace(ME, host="other"), [], NOW)


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


def test_who_may_be_tested() -> None:
    slurm = FakeSlurm()
    slurm.add(A, REASON)
    slurm.add(B)
    idle, ours = slurm.table[B], slurm.table[A]
    assert candidate(idle, idle_only=True).skip == ""
    assert candidate(ours, idle_only=False).drained == REASON
    assert candidate(ours, idle_only=True).skip
    theirs = replace(ours, reason="swapping a DIMM")
    assert "not ours to touch" in candidate(theirs, idle_only=False).skip
    cordoned = replace(ours, reason="holdfast:KUBE_CORDON: kubectl cordon")
    assert "not ours to touch" in candidate(cordoned, idle_only=False).skip
    for state in (NodeState.ALLOCATED, NodeState.DOWN, NodeState.RESERVED, NodeState.COMPLETING):
        assert candidate(
            replace(idle, states=frozenset({NodeState.IDLE, state})), idle_only=False
        ).skip


def test_an_inspection_puts_everything_back_and_reports(bench: Bench) -> None:
    bench.slurm.verdict = Verdict.FAILED
    slurm = cast("SlurmMaintenance", bench.slurm)
    inspector = Inspector(slurm, bench.keeper(), at_once=1, say=lambda _: None)
    found = inspector.candidates([], idle_only=False)
    done = inspector.inspect(found, ["host", "storage"])
    assert [one.verdict for one in done] == ["failed", "failed"]
    assert bench.slurm.kept == {}
    assert bench.slurm.table[A].reason == REASON
    assert not bench.slurm.table[B].drained_flag, "a report takes nobody out"


def test_a_node_that_cannot_be_kept_does_not_stop_the_others(bench: Bench) -> None:
    slurm = cast("SlurmMaintenance", bench.slurm)
    bench.slurm.table[A] = replace(bench.slurm.table[A], reason="holdfast:XID79: other")
    inspector = Inspector(slurm, bench.keeper(), at_once=1, say=lambda _: None)
    found = inspector.candidates([], idle_only=False)
    stolen = [replace(found[0], drained=REASON), found[1]]
    done = inspector.inspect(stolen, ["host"])
    assert done[0].skipped
    assert done[1].verdict == "passed"


def inspected(*verdicts: Verdict) -> Inspected:
    results = tuple(
        Result(check=f"check{n}", verdict=verdict, detail="") for n, verdict in enumerate(verdicts)
    )
    return Inspected(node="worker-0", was="idle", results=results)


@pytest.mark.parametrize(
    ("verdicts", "verdict", "tally", "status"),
    [
        ("PP", "passed", "passed", 0),
        ("PPCCCC", "incomplete", "incomplete: passed 2 of 6", 3),
        ("CC", "could-not-run", "could-not-run", 3),
        ("PCF", "failed", "failed", 1),
        ("", "not tested", "not tested", 1),
    ],
)
def test_what_could_not_run_has_not_passed(
    verdicts: str, verdict: str, tally: str, status: int
) -> None:
    words = {"P": Verdict.PASSED, "C": Verdict.COULD_NOT_RUN, "F": Verdict.FAILED}
    one = inspected(*(words[letter] for letter in verdicts))
    assert (one.verdict, one.tally) == (verdict, tally)
    assert exit_status([one]) == status
    page = as_text([one], began=datetime(2026, 1, 1, tzinfo=timezone.utc), took_s=3)
    assert f"worker-0 {tally} idle" in " ".join(page.split())
    assert ("1 node tested" in page) is bool(verdicts)
    assert as_json([one], began=1, ended=2)["nodes"][0]["verdict"] == verdict


def test_one_nodes_pass_hides_no_other_nodes_gap() -> None:
    passed, gap = inspected(Verdict.PASSED), inspected(Verdict.PASSED, Verdict.COULD_NOT_RUN)
    assert exit_status([passed, Inspected(node="b", was="busy", skipped="a job runs there")]) == 0
    assert exit_status([passed, gap]) == 3
    assert exit_status([gap, inspected(Verdict.FAILED)]) == 1


def test_the_page_names_what_is_wrong_first() -> None:
    said = [
        Inspected(node="worker-0", was="idle", skipped="a job runs there"),
        Inspected(node="worker-1", was="idle", results=()),
    ]
    page = as_text(said, began=datetime(2026, 1, 1, tzinfo=timezone.utc), took_s=3)
    assert "worker-0  not tested  idle  a job runs there" in page
    assert as_json(said, began=1, ended=2)["nodes"][0]["skipped"] == "a job runs there"
