"""Drain and return to service, against a fake Slurm that records who drained a node, when and why."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import cast

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.errors import Refused, Unavailable
from holdfast.findings import Finding, Verdict
from holdfast.policy.flap_damping import Return
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import PastDrain, Undrained
from holdfast.policy.return_test import ReturnTestMode, ReturnTestResult
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse import NodeChanges
from holdfast.slurm.reservations import Reservation, SlurmMaintenance
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName
from slurm_hooks.active import node_reservation
from slurm_hooks.active.reservation_text import Maker, Purpose, ReservationText
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.messages import StepResult
from slurm_hooks.agent.drain.record import ENDED_KEPT, Drained, Records
from slurm_hooks.agent.drain.slurm_update import Step
from slurm_hooks.settings.sections import AgentConfig, BudgetConfig, NodeConfig
from slurm_hooks.settings.settings import Settings

ME = SlurmName("worker-1")
BOOT, NEXT_BOOT = "aaaaaaaa-1", "bbbbbbbb-2"


@dataclass
class FakeSlurm:
    """slurmctld's node table; every change has a user and a later second."""

    table: dict[str, SlurmNode] = field(default_factory=dict)
    now: datetime = field(
        default_factory=lambda: (datetime.now(timezone.utc) - timedelta(minutes=1)).replace(
            microsecond=0
        )
    )
    writes: list[str] = field(default_factory=list)
    started: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)
    events: list[PastDrain] | None = None
    """Events of this node in accounting; None: there is no accounting."""
    down: bool = False
    before_drain: list[str] = field(default_factory=list)
    kept: list[Reservation] = field(default_factory=list)
    in_use: int = 0

    def add(self, *names: str) -> None:
        for name in names:
            states = frozenset({NodeState.IDLE})
            self.table[name] = SlurmNode(
                name=SlurmName(name), states=states, instance_id=f"i-{name}"
            )

    def clock(self) -> datetime:
        self._ask()
        return self.now

    def nodes(self, names: list[SlurmName]) -> list[SlurmNode]:
        self._ask()
        return [self.table[name] for name in names]

    def nodes_fast(self) -> list[SlurmNode]:
        self._ask()
        return [replace(node, instance_id="") for node in self.table.values()]

    def drain(self, names: list[SlurmName], reason: str, user: str = "root") -> None:
        self._ask()
        for name in self.before_drain:  # other agents, in the same moment
            self._drain(name, "holdfast:XID79: another boot=x", "root")
        self.before_drain = []
        for name in names:
            self._drain(name, reason, user)

    def _drain(self, name: str, reason: str, user: str) -> None:
        self.now += timedelta(seconds=1)
        node = self.table[name]
        states = node.states | {NodeState.DRAIN}
        self.table[name] = replace(
            node, states=states, reason=reason, reason_user=user, reason_at=self.now
        )
        self.writes.append(f"drain {name}")

    def undrain(self, names: list[SlurmName]) -> None:
        self._ask()
        for name in names:
            node = self.table[name]
            self.table[name] = replace(node, states=node.states - {NodeState.DRAIN}, reason="")
            self.writes.append(f"undrain {name}")

    def comment(self, names: list[SlurmName], text: str) -> None:
        self._ask()
        for name in names:
            self.table[name] = replace(self.table[name], comment=text)
            self.writes.append(f"comment {name}")

    def reservations(self, prefix: str) -> list[Reservation]:
        self._ask()
        return [one for one in self.kept if one.name.startswith(prefix)]

    def unreserve(self, name: str) -> bool:
        self._ask()
        if self.in_use:
            self.in_use -= 1
            return False
        self.kept = [one for one in self.kept if one.name != name]
        self.writes.append("unreserve")
        return True

    def node_changes(self) -> NodeChanges:
        self._ask()
        return NodeChanges(self.now, 1, len(self.writes))

    def slurmctld_at(self) -> datetime:
        self._ask()
        return self.started

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        assert name == ME
        if self.events is None:
            raise Refused(["sacctmgr"], "Slurm accounting storage is disabled")
        return [one for one in self.events if one.end_at is None or one.end_at >= since]

    def restart(self, *, lose: bool) -> None:
        """slurmctld restarts, with its state or with an older one."""
        self.now += timedelta(seconds=5)
        self.started = self.now
        if lose:
            node = self.table[ME]
            self.table[ME] = replace(node, states=node.states - {NodeState.DRAIN}, reason="")

    def cancel_in(self, name: str) -> None:
        self.writes.append("cancel")

    def _ask(self) -> None:
        if self.down:
            raise Unavailable(["scontrol"], "no answer in 1 s")

    @property
    def mine(self) -> SlurmNode:
        return self.table[ME]


@dataclass
class Bench:
    slurm: FakeSlurm
    config: Settings
    path: Path
    boot_id: str = BOOT

    def run(self, case: DrainInputs) -> StepResult:
        drained, problem = self.records.load()
        assert not problem or "Not a directory" in problem
        return self.step().run(case, drained, ended=self.records.load_ended())

    def step(self) -> Step:
        slurm = cast("SlurmMaintenance", self.slurm)
        return Step(slurm, ME, self.boot_id, self.config, self.records)

    @property
    def records(self) -> Records:
        return Records(self.config.cluster.paths)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(node_reservation, "_RELEASE_S", 0.2)
    monkeypatch.setattr(node_reservation, "_LOOK_S", 0.01)
    slurm = FakeSlurm()
    slurm.add("worker-0", ME, "worker-2", "worker-3")
    config = Settings(
        path=tmp_path / "none.yaml",
        cluster=ClusterConfig(paths=PathsConfig(run=tmp_path / "run", state=tmp_path)),
        node=NodeConfig(budget=BudgetConfig(max_nodes=1, max_share=0)),
        agent=AgentConfig(recheck_passes=2, wait_s=0),
    )
    return Bench(slurm, config, tmp_path / "drain.json")


def fault(
    action: Action = Action.REBOOT, code: str = "XID79", severity: Severity = Severity.FATAL
) -> DrainInputs:
    found = Finding(
        code=code,
        severity=severity,
        subject="GPU-3",
        detail="GPU 3 fell off",
        action=action,
        gpu=3,
        check="gpu_xid",
    )
    return DrainInputs(verdict=Verdict(findings=(found,)), modes={"gpu_xid": Mode.DRAIN})


def clean(passes: int = 2, recovered: bool = True, uuid: str = "GPU-3") -> DrainInputs:
    return DrainInputs(
        modes={"gpu_xid": Mode.DRAIN},
        clean_passes=passes,
        recovered={3: recovered},
        uuids=frozenset({uuid, *(f"GPU-x{n}" for n in range(7))}),
    )


def test_a_fatal_fault_drains_with_a_reason_and_a_record(bench: Bench) -> None:
    outcome = bench.run(fault())
    assert bench.slurm.mine.reason == "holdfast:XID79: GPU 3 fell off boot=aaaaaaaa gpu=3"
    assert outcome.slurm_status.drained
    assert outcome.slurm_status.action == "drain"
    drained, _ = records.load(bench.path)
    assert drained is not None
    assert drained.record.at == bench.slurm.mine.reason_at
    assert drained.record.instance_id == "i-worker-1"
    bench.run(fault())
    assert bench.slurm.writes == ["drain worker-1"], "an unchanged state is not sent again"


def test_a_node_in_no_partition_is_drained_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sinfo shows no such node (seen on 26.05.5), and its job may still run."""
    every = bench.slurm.nodes_fast
    monkeypatch.setattr(bench.slurm, "nodes_fast", lambda: [n for n in every() if n.name != ME])
    assert bench.run(fault()).slurm_status.drained
    assert bench.slurm.writes == ["drain worker-1"]


def test_it_returns_to_service_only_after_a_reboot_and_a_re_check(bench: Bench) -> None:
    bench.run(fault())
    bench.run(clean())
    assert bench.slurm.mine.drained_flag, "no reboot yet"
    bench.boot_id = NEXT_BOOT
    bench.run(clean(passes=1))
    assert bench.slurm.mine.drained_flag, "one pass is not a re-check"
    outcome = bench.run(clean())
    assert not bench.slurm.mine.drained_flag
    assert "returned to service" in outcome.entries[0].text
    entry = outcome.entries[0]
    assert (entry.event, entry.code, entry.gpu, entry.action) == (
        "returned_to_service",
        "XID79",
        3,
        "reboot",
    )
    assert not bench.path.exists()


def test_a_reset_shows_in_the_gpu_itself(bench: Bench) -> None:
    bench.run(fault(Action.RESET_GPU, "XID48"))
    bench.run(clean(recovered=False))
    assert bench.slurm.mine.drained_flag
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_a_worn_out_gpu_must_be_replaced(bench: Bench) -> None:
    bench.run(fault(Action.REPLACE, "ROW_REMAP_FAILED"))
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert bench.slurm.mine.drained_flag, "the same GPU is still there"
    bench.run(clean(uuid="GPU-new"))
    assert not bench.slurm.mine.drained_flag


def test_a_persons_drain_is_never_changed(bench: Bench) -> None:
    bench.slurm.drain([ME], "swapping DIMM", "alice")
    for case in (fault(), clean(), clean()):
        outcome = bench.run(case)
        assert outcome.slurm_status.drained
    assert bench.slurm.mine.reason == "swapping DIMM"
    assert bench.slurm.writes == ["drain worker-1"]


@pytest.mark.parametrize("user", ["alice", "root"])
def test_a_person_who_drains_a_drained_node_owns_the_drain(bench: Bench, user: str) -> None:
    bench.run(fault())
    same_words = bench.slurm.mine.reason
    bench.slurm.drain([ME], same_words, user)
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert bench.slurm.mine.drained_flag, "the text alone is not evidence"
    assert not bench.path.exists()


def test_a_resume_by_a_person_resets_earlier_events(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.undrain([ME])
    outcome = bench.run(fault())
    assert outcome.acknowledged
    assert not bench.slurm.mine.drained_flag, (
        "events are reset first; a fault that is still there drains again"
    )


def test_a_slurmctld_that_lost_the_drain_resets_nothing(bench: Bench) -> None:
    bench.run(fault())
    reason = bench.slurm.mine.reason
    bench.slurm.restart(lose=True)
    outcome = bench.run(fault())
    assert not outcome.acknowledged
    assert bench.slurm.mine.drained_flag
    assert bench.slurm.mine.reason == reason
    assert "slurmctld lost the drain for XID79" in outcome.entries[0].text
    assert [entry.event for entry in outcome.entries] == ["drained"]
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag, "the required action counts from the first drain"


def test_a_resume_by_a_person_after_a_restart_of_slurmctld_counts(bench: Bench) -> None:
    """The drain was confirmed by the restarted slurmctld, so it was not lost in the restart."""
    bench.run(fault())
    bench.slurm.restart(lose=False)
    bench.run(fault())
    bench.slurm.undrain([ME])
    assert bench.run(fault()).acknowledged


@pytest.mark.parametrize(
    ("ended_s", "replaced", "acknowledged"),
    [(-3, False, True), (-3, True, False), (0, False, False), (2, False, False), (None, False, False)],
    ids=["before", "by accounting", "at the restart", "after it", "never"],
)  # fmt: skip
def test_if_slurmctld_also_restarted_accounting_decides(
    bench: Bench, ended_s: int | None, replaced: bool, acknowledged: bool
) -> None:
    bench.run(fault())
    node = bench.slurm.mine
    bench.slurm.restart(lose=True)
    assert node.reason_at is not None
    end_at = None if ended_s is None else bench.slurm.started + timedelta(seconds=ended_s)
    bench.slurm.events = [
        PastDrain(
            start_at=node.reason_at, end_at=end_at, user="root(0)", reason=node.reason, replaced=replaced
        )
    ]  # fmt: skip
    assert bench.run(fault()).acknowledged is acknowledged
    assert bench.slurm.mine.drained_flag is not acknowledged


def test_a_lost_drain_for_a_cleared_fault_is_not_set_again(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.restart(lose=True)
    bench.boot_id = NEXT_BOOT
    outcome = bench.run(clean())
    assert not outcome.acknowledged
    assert not bench.slurm.mine.drained_flag
    assert not bench.path.exists()


def test_a_lost_drain_that_still_requires_an_action_is_set_again(bench: Bench) -> None:
    bench.run(fault(action=Action.REPLACE, code="ROW_REMAP_FAILED"))
    bench.slurm.restart(lose=True)
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert bench.slurm.mine.drained_flag


def test_a_lost_drain_over_the_budget_waits(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.restart(lose=True)
    for name in ("worker-0", "worker-2"):
        bench.slurm._drain(name, "holdfast:XID79: theirs boot=x", "root")
    outcome = bench.run(fault())
    assert outcome.slurm_status.action == "over-budget"
    assert not bench.slurm.mine.drained_flag
    bench.slurm.undrain([SlurmName("worker-0"), SlurmName("worker-2")])
    bench.run(fault())
    assert bench.slurm.mine.drained_flag


def test_a_drain_that_slurmctld_restored_is_still_holdfasts(bench: Bench) -> None:
    """Its older state is from before the agent's undrain."""
    bench.run(fault())
    drained = bench.slurm.mine
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag
    bench.slurm.restart(lose=False)
    bench.slurm.table[ME] = drained
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag
    bench.slurm.table[ME] = replace(drained, reason_user="alice")
    bench.run(clean())
    assert bench.slurm.mine.drained_flag


def test_after_a_step_without_result_the_records_are_read(bench: Bench) -> None:
    bench.run(fault())
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, NEXT_BOOT, bench.config, bench.records)
    outcome = step.run(clean(), None, reload=True)
    assert not bench.slurm.mine.drained_flag
    assert outcome.undrained is not None
    assert len(outcome.ended) == 1
    bench.slurm._drain(ME, "ticket 9", "alice")
    again = step.run(clean(), None, reload=True)
    assert (again.undrained, again.ended) == (outcome.undrained, outcome.ended)


def test_an_agent_killed_before_its_second_drain_still_owns_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new record is on the disk, and slurmctld still has the old drain."""
    bench.run(fault(Action.REBOOT, "XID64"))
    reason = bench.slurm.mine.reason

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bench.slurm, "drain", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.run(fault(Action.REPLACE, "ROW_REMAP_FAILED"))
    assert bench.slurm.mine.reason == reason
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_the_step_does_not_read_the_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that does not answer must not stop a drain or a return (rule 12)."""

    def hangs(*_: object) -> None:
        pytest.fail("the disk was read")

    monkeypatch.setattr("holdfast.adapters.durable_file.DurableFile.load", hangs)
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    outcome = step.run(fault(), None)
    assert bench.slurm.mine.drained_flag
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, NEXT_BOOT, bench.config, bench.records)
    outcome = step.run(clean(), outcome.drained)
    assert not bench.slurm.mine.drained_flag
    assert len(outcome.ended) == 1


def test_the_last_drains_that_ended_are_kept(bench: Bench) -> None:
    for number in range(ENDED_KEPT + 2):
        bench.run(fault(code=f"XID{number}"))
        bench.boot_id = f"{number:08d}-boot"
        bench.run(clean())
    kept = [drained.record.code for drained in bench.records.load_ended()]
    assert kept == [f"XID{number}" for number in range(2, ENDED_KEPT + 2)]


def test_returns_lengthen_the_wait_and_then_require_a_person(bench: Bench) -> None:
    def returns(count: int) -> tuple[Return, ...]:
        return (Return(code="XID79", at=time.time()),) * count

    bench.slurm.now = datetime.now(timezone.utc).replace(microsecond=0)
    bench.run(replace(fault(), returns=returns(1)))
    assert bench.slurm.mine.reason.endswith(" returns=1")
    bench.boot_id = NEXT_BOOT
    outcome = bench.run(replace(clean(), returns=returns(1)))
    assert "as it returned once before" in outcome.slurm_status.why
    assert bench.slurm.mine.drained_flag
    bench.slurm.undrain([ME])
    bench.run(fault())
    bench.boot_id = BOOT
    bench.run(replace(fault(), returns=returns(4)))
    assert ":XID79: returned 4 times in 60 min, resume by hand: " in bench.slurm.mine.reason
    bench.boot_id = NEXT_BOOT
    outcome = bench.run(clean())
    assert "needs a person" in outcome.slurm_status.why
    assert bench.slurm.mine.drained_flag
    bench.slurm.undrain([ME])
    assert bench.run(clean()).acknowledged


def test_a_comment_that_changes_too_often_waits(bench: Bench) -> None:
    case = replace(fault(), modes={"gpu_xid": Mode.COMMENT}, may_comment=False)
    outcome = bench.run(case)
    assert outcome.comment_waits
    assert not bench.slurm.mine.comment
    assert not outcome.slurm_status.commented
    outcome = bench.run(replace(case, may_comment=True))
    assert (outcome.comments, outcome.comment_waits) == (1, False)
    assert bench.slurm.mine.comment


def test_a_crash_between_record_and_drain_is_recovered(bench: Bench) -> None:
    bench.run(fault())
    drained, _ = records.load(bench.path)
    assert drained is not None
    records.save(bench.path, replace(drained, record=replace(drained.record, at=None)))
    bench.run(fault())  # the drain was set but not confirmed
    again, _ = records.load(bench.path)
    assert again is not None
    assert again.record.at == bench.slurm.mine.reason_at
    bench.slurm.undrain([ME])
    records.save(bench.path, replace(drained, record=replace(drained.record, at=None)))
    outcome = bench.run(fault())  # the record was saved, the drain was not set
    assert not outcome.acknowledged
    assert bench.slurm.mine.drained_flag


def test_a_drain_by_a_hook_refusal_is_taken_over(bench: Bench) -> None:
    bench.slurm.drain([ME], "Prolog error", "root")
    bench.run(fault())
    assert bench.slurm.mine.reason.startswith("holdfast:XID79")
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_a_prolog_error_of_another_program_stays(bench: Bench) -> None:
    bench.slurm.drain([ME], "Prolog error", "root")
    bench.run(clean())
    assert bench.slurm.mine.reason == "Prolog error"


def test_over_the_budget_a_node_only_gets_a_comment(bench: Bench) -> None:
    bench.slurm.drain([SlurmName("worker-0")], "holdfast:XID79: x boot=1")
    outcome = bench.run(fault())
    assert not bench.slurm.mine.drained_flag
    assert outcome.slurm_status.action == "over-budget"
    assert bench.slurm.mine.comment.startswith("holdfast:XID79: over budget")
    bench.run(fault())
    assert bench.slurm.writes.count("comment worker-1") == 1
    bench.run(clean())
    assert bench.slurm.mine.comment == ""


def test_an_outdated_comment_is_cleared_also_while_a_persons_drain_is_set(bench: Bench) -> None:
    bench.slurm.drain([SlurmName("worker-0")], "holdfast:XID79: x boot=1")
    bench.run(fault())
    bench.slurm.drain([ME], "ticket 9", "alice")
    assert bench.run(fault()).slurm_status.commented
    assert bench.slurm.mine.comment.startswith("holdfast:XID79: over budget"), "it still applies"
    outcome = bench.run(clean())
    assert (bench.slurm.mine.comment, outcome.slurm_status.commented) == ("", False)
    assert (bench.slurm.mine.drained_flag, bench.slurm.mine.reason) == (True, "ticket 9")


def test_a_comment_is_still_known_after_a_person_resumed_the_node(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.comment([ME], "holdfast:XID79: re-test host failed boot=1")
    bench.slurm.undrain([ME])
    assert bench.run(clean()).slurm_status.commented
    assert not bench.run(clean()).slurm_status.commented
    assert bench.slurm.mine.comment == ""


def test_of_several_nodes_that_drain_at_once_those_over_the_budget_withdraw(bench: Bench) -> None:
    bench.slurm.before_drain = ["worker-0"]
    outcome = bench.run(fault())
    assert not bench.slurm.mine.drained_flag
    assert bench.slurm.table["worker-0"].drained_flag
    assert outcome.slurm_status.action == "over-budget"
    assert not bench.path.exists()


def test_a_persons_comment_is_never_overwritten(bench: Bench) -> None:
    bench.slurm.comment([ME], "ask Bob first")
    bench.slurm.drain([SlurmName("worker-0")], "holdfast:XID79: x boot=1")
    bench.run(fault())
    assert bench.slurm.mine.comment == "ask Bob first"


def test_a_persons_comment_stays_after_a_withdrawal(bench: Bench) -> None:
    bench.slurm.comment([ME], "ask Bob first")
    bench.slurm.before_drain = ["worker-0"]
    assert bench.run(fault()).slurm_status.action == "over-budget"
    assert bench.slurm.mine.comment == "ask Bob first"


def test_a_later_fault_may_require_more(bench: Bench) -> None:
    bench.run(fault(Action.RESET_GPU, "XID48"))
    bench.run(fault(Action.REPLACE, "ROW_REMAP_FAILED"))
    assert bench.slurm.mine.reason.startswith("holdfast:ROW_REMAP_FAILED")
    bench.run(clean())
    assert bench.slurm.mine.drained_flag


def test_a_slurmctld_that_does_not_answer_changes_nothing(bench: Bench) -> None:
    bench.slurm.down = True
    with pytest.raises(Unavailable):
        bench.run(fault())
    assert not bench.path.exists()


# --- the active check before the return


def kept_by(
    bench: Bench, purpose: Purpose, *, host: str = "elsewhere", until: int = 1 << 40
) -> None:
    """The node is undrained in a reservation, as during a test."""
    maker = Maker(host=host, boot_id="x", pid=2**22 + 1, start=1)
    drained = bench.slurm.mine.reason
    keep = ReservationText(purpose=purpose, nodes=(ME,), maker=maker, until=until, drained=drained)
    stored = Reservation(name=keep.name, nodes=(ME,), comment=keep.comment)
    bench.slurm.kept = [stored]
    bench.slurm.undrain([ME])
    bench.slurm.writes.clear()


def with_return_test(bench: Bench) -> None:
    agent = replace(bench.config.agent, return_test=ReturnTestMode.REQUIRE)
    bench.config = replace(bench.config, agent=agent)
    bench.run(fault())
    bench.boot_id = NEXT_BOOT


def result_of_test(bench: Bench, verdict: str) -> ReturnTestResult:
    drained, _ = records.load(bench.path)
    assert drained is not None
    return ReturnTestResult(reason=drained.record.reason, check="host", verdict=verdict)


def test_with_a_return_test_the_step_requests_a_test_first(bench: Bench) -> None:
    with_return_test(bench)
    outcome = bench.run(clean())
    assert outcome.test_reason == bench.slurm.mine.reason
    assert bench.slurm.mine.drained_flag


def test_after_a_passed_test_the_reserved_node_returns_to_service(bench: Bench) -> None:
    with_return_test(bench)
    passed = replace(clean(), test_result=result_of_test(bench, "passed"))
    kept_by(bench, Purpose.RETURN_TEST)
    bench.slurm.in_use = 1  # the job's epilog is still running
    outcome = bench.run(passed)
    assert bench.slurm.kept == []
    assert not bench.slurm.mine.drained_flag
    assert not bench.path.exists()
    assert "host passed" in outcome.entries[-1].text


@pytest.mark.parametrize("verdict", ["failed", "error", None])
def test_otherwise_the_old_drain_is_set_again(bench: Bench, verdict: str | None) -> None:
    with_return_test(bench)
    before = bench.slurm.mine.reason
    case = replace(clean(), test_result=result_of_test(bench, verdict) if verdict else None)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(case)
    assert bench.slurm.mine.reason == before
    assert bench.slurm.writes == ["drain worker-1", "unreserve"], "the drain comes first"
    drained, _ = records.load(bench.path)
    assert drained is not None
    assert drained.record.at == bench.slurm.mine.reason_at
    again = bench.run(case)
    assert again.slurm_status.action == "drain"


def test_a_failed_test_is_in_the_comment_until_one_passes(bench: Bench) -> None:
    with_return_test(bench)
    bench.run(replace(clean(), test_result=result_of_test(bench, "failed")))
    assert "re-test host failed" in bench.slurm.mine.comment
    passed = replace(clean(), test_result=result_of_test(bench, "passed"))
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(passed)
    assert not bench.slurm.mine.drained_flag
    assert bench.slurm.mine.comment == ""


def test_a_fault_during_the_test_drains_at_once_and_keeps_the_record(bench: Bench) -> None:
    with_return_test(bench)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(fault(Action.RESET_GPU, "XID48"))
    assert bench.slurm.mine.drained_flag
    assert bench.slurm.kept == []


def test_an_inspection_is_not_a_return_and_the_drain_stays_holdfasts(bench: Bench) -> None:
    bench.run(fault())
    before = bench.slurm.mine.reason
    kept_by(bench, Purpose.INSPECT)
    outcome = bench.run(fault())
    assert outcome.slurm_status.action == "test"
    assert not outcome.acknowledged
    assert bench.slurm.writes == []
    bench.slurm.drain([ME], before)  # the inspection ends
    bench.slurm.kept = []
    bench.slurm.now = datetime.now(timezone.utc).replace(microsecond=0)
    bench.slurm.drain([ME], before)
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag, "returned to service by the agent that had drained it"


def test_the_agent_cleans_up_after_a_killed_inspection(bench: Bench) -> None:
    bench.run(fault())
    before = bench.slurm.mine.reason
    kept_by(bench, Purpose.INSPECT, until=1)
    bench.run(fault())
    assert bench.slurm.mine.reason == before
    assert bench.slurm.kept == []


def test_a_job_that_does_not_end_keeps_the_reservation_and_the_drain(bench: Bench) -> None:
    with_return_test(bench)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.slurm.in_use = 1 << 20
    with pytest.raises(Unavailable, match="does not end"):
        bench.run(clean())
    assert bench.slurm.mine.drained_flag
    assert bench.path.exists()


def test_a_persons_drain_that_an_undrain_ended_is_set_again(bench: Bench) -> None:
    """Accounting reported it (`slurm_hooks.agent.drain.undrain_audit`); the person's drain comes
    first."""
    drained, _ = records.load(bench.path)
    since = bench.slurm.now - timedelta(minutes=9)
    bench.records.save_return(
        Undrained(reason="r", since=since, looked_at=since, until=bench.slurm.now)
    )
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    outcome = step.run(DrainInputs(), drained, "ticket 9")
    assert bench.records.load_return() == (None, ""), "or a later agent sets it once more"
    assert bench.slurm.mine.reason == "ticket 9"
    assert bench.slurm.mine.drained_flag
    assert outcome.slurm_status.drained
    assert [entry.text for entry in outcome.entries if "ticket 9" in entry.text]
    assert step.run(DrainInputs(passes=9, clean_passes=9), None).undrained is None
    assert bench.slurm.mine.reason == "ticket 9"


def test_a_person_who_drained_it_meanwhile_keeps_the_later_reason(bench: Bench) -> None:
    bench.slurm._drain(ME, "ticket 10", "alice")
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    step.run(DrainInputs(), None, "ticket 9")
    assert bench.slurm.mine.reason == "ticket 10"


# --- records that cannot be written --------------------------------------------------


def without_disk(bench: Bench, tmp_path: Path) -> Bench:
    (tmp_path / "no-folder").write_text("a file where the state folder should be")
    paths = PathsConfig(run=tmp_path / "run", state=tmp_path / "no-folder")
    return replace(bench, config=replace(bench.config, cluster=ClusterConfig(paths=paths)))


def test_a_disk_that_cannot_be_written_stops_no_drain_and_no_return(
    bench: Bench, tmp_path: Path
) -> None:
    bench = without_disk(bench, tmp_path)
    outcome = bench.run(fault())
    assert bench.slurm.mine.drained_flag
    assert "Not a directory" in outcome.unwritten or "File exists" in outcome.unwritten
    assert outcome.drained is not None
    assert bench.records.load() == (outcome.drained, ""), "the next agent knows it"
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_the_record_is_written_once_the_disk_works_again(bench: Bench, tmp_path: Path) -> None:
    broken = without_disk(bench, tmp_path)
    drained = broken.run(fault()).drained
    (tmp_path / "no-folder").unlink()
    written = broken.run(fault())
    assert written.unwritten == ""
    assert not broken.records.unwritten
    assert written.drained is not None
    assert drained is not None
    assert written.drained.record.at == drained.record.at
    assert records.load(tmp_path / "no-folder/drain.json") == (written.drained, "")


def test_the_return_is_recorded_before_the_undrain(bench: Bench) -> None:
    bench.run(fault())
    meant = bench.slurm.mine
    bench.boot_id = NEXT_BOOT

    def dies(_names: list[SlurmName]) -> None:
        raise RuntimeError("killed")

    bench.slurm.undrain = dies  # type: ignore[method-assign,assignment]
    with pytest.raises(RuntimeError, match="killed"):
        bench.run(clean())
    kept, problem = bench.records.load_return()
    assert problem == ""
    assert kept is not None
    assert (kept.reason, kept.since, kept.changes) == (meant.reason, meant.reason_at, None)
    assert kept.looked_at <= bench.slurm.now <= kept.until


def test_a_return_without_other_changes_is_known_to_be_the_only_change(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    undrained = bench.run(clean()).undrained
    assert undrained is not None
    assert undrained.alone
    assert bench.records.load_return() == (undrained, "")


def test_a_change_by_another_user_at_the_moment_of_the_return_is_counted(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    undrain = bench.slurm.undrain

    def meets(names: list[SlurmName]) -> None:
        bench.slurm._drain("worker-3", "ticket", "alice")
        undrain(names)

    bench.slurm.undrain = meets  # type: ignore[method-assign]
    undrained = bench.run(clean()).undrained
    assert undrained is not None
    assert (undrained.changes, undrained.alone) == (2, False)


def test_an_unanswered_question_stays_on_disk_at_the_next_return(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    since = bench.slurm.now
    asked = Undrained(reason="r", since=since, looked_at=since, until=since, changes=2)
    bench.records.save_return(asked)
    drained, _ = bench.records.load()
    step = bench.step()
    undrained = step.run(clean(), drained, "", bench.records.load_ended(), asked).undrained
    assert undrained is not None
    assert undrained.alone
    assert bench.records.load_return() == (asked, "")


def test_a_drain_that_changed_since_the_decision_is_not_ended(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    count = bench.slurm.node_changes

    def meets() -> NodeChanges:
        found = count()
        bench.slurm._drain(ME, "ticket 9", "alice")
        return found

    bench.slurm.node_changes = meets  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="changed"):
        bench.run(clean())
    assert bench.slurm.mine.reason == "ticket 9"


def test_a_person_who_drains_while_the_record_is_saved_keeps_the_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may need a second for it."""
    real = Records.save

    def slow(records: Records, drained: Drained | None) -> None:
        real(records, drained)
        if not bench.slurm.mine.drained_flag:
            bench.slurm._drain(ME, "ticket 9 | ask Anna", "root")

    monkeypatch.setattr(Records, "save", slow)
    with pytest.raises(Unavailable):
        bench.run(fault())
    assert bench.slurm.mine.reason == "ticket 9 | ask Anna"
    assert bench.records.load() == (None, ""), "the drain is not Holdfast's"
    bench.run(fault())
    assert bench.slurm.mine.reason == "ticket 9 | ask Anna"


def test_the_node_table_is_read_to_drain_and_not_while_the_fault_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 nodes out of service cost slurmctld 1.5 cores: each read the table at each pass."""
    tables = []
    every = bench.slurm.nodes_fast

    def counted() -> list[SlurmNode]:
        tables.append(1)
        return every()

    monkeypatch.setattr(bench.slurm, "nodes_fast", counted)
    bench.run(fault())
    assert bench.slurm.mine.drained_flag
    assert len(tables) == 2, "before and after the drain"
    for _ in range(5):
        bench.run(fault())
    assert len(tables) == 2
    bench.run(replace(fault(), recount=True))
    assert len(tables) == 3


def test_of_two_drains_in_one_second_the_recount_withdraws_the_surplus(bench: Bench) -> None:
    """The other one's drain came after this agent's count, in the same second, with an earlier name."""
    bench.run(fault())
    mine = bench.slurm.table[ME]
    bench.slurm.table["aaa"] = replace(mine, name=SlurmName("aaa"))
    bench.run(fault())
    assert bench.slurm.mine.drained_flag
    bench.run(replace(fault(), recount=True))
    assert not bench.slurm.mine.drained_flag
