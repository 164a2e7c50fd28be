"""Drain and return to service: what a step reads, decides and writes."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.budget import Count
from holdfast.policy.flap_damping import Return
from holdfast.policy.node_inputs import DrainInputs
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, SlurmName
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.record import Drained, Records
from slurm_hooks.settings.sections import BudgetConfig
from tests.unit.slurm_hooks.agent.drain.fake_slurm import (
    BOOT,
    ME,
    NEXT_BOOT,
    Bench,
    clean,
    fault,
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


@pytest.fixture
def tables(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each read of the node table, of a cluster whose budget is 150 nodes."""
    found: list[int] = []
    every = bench.slurm.nodes_fast

    def counted() -> list[SlurmNode]:
        found.append(1)
        return every()

    monkeypatch.setattr(bench.slurm, "nodes_fast", counted)
    node = replace(bench.config.node, budget=BudgetConfig(max_nodes=150, max_share=0))
    bench.config = replace(bench.config, node=node)
    return found


def known(bench: Bench, out: int = 0, since: int = 1) -> DrainInputs:
    changes = bench.slurm.node_changes().changes
    count = Count(total=10_000, out=out, by_users=0, changes=changes, since=since)
    return replace(fault(), count=count)


def test_a_drain_with_plenty_of_room_reads_no_table(bench: Bench, tables: list[int]) -> None:
    """1,000 drains in one second read it 2,000 times: 30 s of slurmctld's time."""
    outcome = bench.run(known(bench))
    assert bench.slurm.mine.drained_flag
    assert outcome.slurm_status.action == "drain"
    assert outcome.has_room
    assert not tables
    drained, _ = records.load(bench.path)
    assert drained is not None
    assert drained.record.at == bench.slurm.mine.reason_at
    bench.run(replace(known(bench), recount=True))
    assert len(tables) == 1, "the later count is exact"


def test_changes_since_the_last_count_that_may_have_spent_the_budget_are_counted(
    bench: Bench, tables: list[int]
) -> None:
    inputs = known(bench, out=49)
    bench.slurm.writes.append("another node's comment")
    outcome = bench.run(inputs)
    assert bench.slurm.mine.drained_flag
    assert len(tables) == 1, "by that count there is plenty of room after the drain too"
    assert outcome.count is not None
    assert outcome.count.total == len(bench.slurm.table)


def test_drains_of_others_at_the_same_time_are_counted_after_the_drain(
    bench: Bench, tables: list[int]
) -> None:
    node = replace(bench.config.node, budget=BudgetConfig(max_nodes=101, max_share=0))
    bench.config = replace(bench.config, node=node)
    bench.slurm.before_drain = ["worker-0"]
    outcome = bench.run(known(bench))
    assert outcome.slurm_status.drained
    assert not outcome.has_room
    assert len(tables) == 1


def test_a_slurmctld_that_has_restarted_is_counted_anew(bench: Bench, tables: list[int]) -> None:
    outcome = bench.run(known(bench, since=0))
    assert bench.slurm.mine.drained_flag
    assert len(tables) == 1
    assert outcome.has_room, "proven by the new count"


def test_of_two_drains_in_one_second_the_recount_withdraws_the_surplus(bench: Bench) -> None:
    """The other one's drain came after this agent's count, in the same second, with an earlier name."""
    bench.run(fault())
    mine = bench.slurm.table[ME]
    bench.slurm.table["aaa"] = replace(mine, name=SlurmName("aaa"))
    bench.run(fault())
    assert bench.slurm.mine.drained_flag
    bench.run(replace(fault(), recount=True))
    assert not bench.slurm.mine.drained_flag


def test_a_node_that_is_known_is_read_at_little_cost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scontrol asks slurmctld for all nodes and prints one: 12 ms of 10,000 nodes."""
    first = bench.run(fault())
    assert first.node is not None
    assert first.node.instance_id == "i-worker-1"
    step = bench.step()
    step.known = first.node
    monkeypatch.setattr(bench.slurm, "nodes", None)
    drained, _ = bench.records.load()
    again = step.run(replace(fault(), passes=1), drained)
    assert again.slurm_status.action == "drain"
    assert again.node is not None
    assert again.node.instance_id == "i-worker-1", "as it was read before"
    assert bench.slurm.rows == 1


def test_a_known_node_in_no_partition_is_read_in_full(bench: Bench) -> None:
    bench.slurm.hidden = True
    step = bench.step()
    step.known = bench.slurm.mine
    assert step.run(fault(), None).slurm_status.drained


def test_while_nobody_changes_any_node_the_own_one_is_not_read(bench: Bench) -> None:
    bench.run(fault())
    drained, _ = bench.records.load()
    first = bench.step().run(fault(), drained)
    step = bench.step()
    step.known, step.looked = first.node, first.looked
    assert step.run(fault(), drained).slurm_status.action == "drain"
    assert bench.slurm.rows == 0
    bench.slurm.undrain([ME])
    again = step.run(fault(), drained)
    assert bench.slurm.rows == 1
    assert not again.slurm_status.drained, "another user's change is seen"


def test_what_is_switched_off_while_slurm_is_read_is_not_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy slurmctld may take longer to answer than an administrator waits after off/all."""
    switch = bench.config.path.parent / "off/all"
    switch.parent.mkdir(parents=True)
    every = bench.slurm.nodes_fast

    def slow() -> list[SlurmNode]:
        switch.touch()
        return every()

    monkeypatch.setattr(bench.slurm, "nodes_fast", slow)
    bench.run(fault())
    assert switch.exists()
    assert bench.slurm.writes == []
    switch.unlink()
    monkeypatch.setattr(bench.slurm, "nodes_fast", every)
    bench.run(fault())
    assert bench.slurm.writes == ["drain worker-1"]
