"""One step in Slurm: read the node, decide, write, read it again. Runs in a contained worker.

``holdfast.policy.node_decision`` decides. This module fixes the order of the writes: the drain record is
saved before Slurm changes, and after a drain the budget is counted again (rule 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from holdfast.errors import CommandError, Unavailable
from holdfast.history.event import DRAINED, RESUMED, RETURNED, WITHDRAWN
from holdfast.policy.node_decision import decide, drain_lost
from holdfast.policy.node_inputs import DrainInputs, Move, NodeDecision, NodeSituation
from holdfast.policy.ownership import DrainRecord, Undrained, is_own_drain
from holdfast.policy.return_test import ReservedBy
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain import return_test
from slurm_hooks.agent.drain.manual_resume import by_person
from slurm_hooks.agent.drain.messages import SlurmStatus, StepResult, has_own_comment, status_after
from slurm_hooks.agent.drain.node_table import Counted, KnownDomain, NodeTable
from slurm_hooks.agent.drain.record import Drained, Records, reopened
from slurm_hooks.agent.drain.return_test import HoldfastReservation
from slurm_hooks.agent.drain.situation import Situations, needs_budget, without_hook_drain
from slurm_hooks.agent.drain.slurm_writes import SlurmWrites
from slurm_hooks.settings.settings import Settings

Write = Callable[[], None]
"""One change in Slurm or in the records, or the audit entry about it."""


@dataclass(slots=True)
class Step:
    """Brings one node's state in Slurm in line with the inputs. Every call may raise CommandError."""

    slurm: SlurmMaintenance
    name: SlurmName
    boot_id: str
    config: Settings
    records: Records
    known: SlurmNode | None = None
    """This node from an earlier step."""
    looked: tuple[int, int] | None = None
    """The number of changes of nodes (and since when it counts) before that step."""
    domain: KnownDomain | None = None
    """This node's failure domain, from an earlier step."""
    _table: NodeTable = field(init=False)
    _writes: SlurmWrites = field(init=False)
    _reserved: HoldfastReservation | None = field(default=None, init=False)

    def run(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        restore: str = "",
        ended: tuple[Drained, ...] = (),
        asked: Undrained | None = None,
        *,
        reload: bool = False,
    ) -> StepResult:
        """One step with at most one drain or undrain. ``drained`` and ``ended`` are the records of
        the drain that is set and of the last ones that ended: they are not read from the disk,
        which may not answer. ``restore``: the reason of a person's drain that the last undrain
        ended by mistake; setting it again comes before everything else. ``asked``: an undrain that
        accounting has not reported on yet. ``reload``: the last step
        gave no result, so what it wrote to the records is read from the disk after all."""
        undrained = None
        self._table = NodeTable(
            self.slurm, self.name, self.config.node.budget, inputs.count, self.known, self.domain
        )
        if reload:
            drained, _ = self.records.load()
            ended = self.records.load_ended()
            undrained, _ = self.records.load_return()
        self._writes = SlurmWrites(
            table=self._table,
            records=self.records,
            drained=drained,
            ended=ended,
            undrained=undrained,
            asked=asked,
        )
        self.records.settle()
        looked = self._changes() if drained is not None and inputs.worst is not None else None
        node = self.known if self._is_unchanged(looked) and not (reload or restore) else None
        if drained is not None and node is None:
            # Before the node is read: if slurmctld restarts in between, the earlier start time counts.
            with suppress(CommandError):  # needed only if the drain is gone
                self._writes.slurmctld_at = self.slurm.slurmctld_at()
        node = node or self._table.read()
        result = self._run(inputs, drained, restore, node)
        return replace(self._writes.in_result(result), node=node, looked=looked)

    def _changes(self) -> tuple[int, int] | None:
        with suppress(CommandError):
            found = self.slurm.node_changes()
            return found.counted_since, found.changes
        return None

    def _is_unchanged(self, looked: tuple[int, int] | None) -> bool:
        """Has nobody changed any node since the last step, and has slurmctld not restarted? Then this node's
        row need not be read: while a fault stays open, only other users can change it."""
        return looked is not None and looked == self.looked

    def _run(
        self, inputs: DrainInputs, drained: Drained | None, restore: str, node: SlurmNode
    ) -> StepResult:
        if restore and (not node.drained_flag or (drained and is_own_drain(drained.record, node))):
            return StepResult(slurm_status=self._restore(restore))
        drained = self._reappeared(node, drained)
        self._reserved = return_test.reservation_on(self.slurm, self.name, node, drained)
        if self._reserved is not None and return_test.is_over(self._reserved, self._writes):
            return_test.stop_maker(self._reserved)
            return_test.release(self.slurm, self._reserved, self.config.path)
            self._writes.note(
                None, f"reservation of an earlier test removed: {self._reserved.name}"
            )
            self._reserved = None
        ended = drained is not None and drained.record.at is not None and not node.drained_flag
        if drained is not None and ended and self._reserved is None:
            if self._by_person(drained):
                return self._acknowledge(drained, node)
            table = self._table.counted(drained.record.code, exact=True)
            if not self.config.may_act():
                return StepResult(slurm_status=SlurmStatus())
            again = self._drain_again(inputs, drained, node, table)
            return StepResult(slurm_status=again)
        decision = self._decide(inputs, drained, node, self._counted(inputs, drained, node))
        if self._reserved is None and not self.config.may_act():
            # Switched off while Slurm was read, which takes long when slurmctld is busy.
            decision = replace(decision, move=Move.NONE, forget=False)
        slurm_status = self._apply(decision, inputs, drained, node)
        test_reason = drained.record.reason if drained and decision.move is Move.TEST else ""
        return StepResult(slurm_status=slurm_status, test_reason=test_reason)

    def _counted(self, inputs: DrainInputs, drained: Drained | None, node: SlurmNode) -> Counted:
        if inputs.worst is None or not needs_budget(inputs, drained, node):
            return Counted()
        exact = inputs.recount or without_hook_drain(node).drained_flag
        return self._table.counted(inputs.worst.code, exact=exact)

    def _by_person(self, drained: Drained) -> bool:
        slurmctld_at = self._writes.slurmctld_at
        if slurmctld_at is None:
            raise Unavailable(["scontrol"], "the start time of slurmctld is unknown")
        return by_person(self.slurm, self.name, drained.record, slurmctld_at)

    # --- deciding ------------------------------------------------------------------------------

    def _decide(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        counted: Counted,
    ) -> NodeDecision:
        return decide(self._situation(inputs, drained, node, counted))

    def _situation(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        counted: Counted,
    ) -> NodeSituation:
        situations = Situations(self.name, self.boot_id, self.config)
        reserved_by = self._reserved.reserved_by if self._reserved else ReservedBy.NOBODY
        return situations.of(inputs, drained, node, counted, reserved_by)

    # --- carrying out a decision ---------------------------------------------------------------

    def _apply(
        self, decision: NodeDecision, inputs: DrainInputs, drained: Drained | None, node: SlurmNode
    ) -> SlurmStatus:
        """Carry the decision out; the node's state afterwards."""
        if self._reserved is not None and decision.move is not Move.UNDRAIN:
            return return_test.during(
                self._reserved, self._writes, self.config.path, decision.why, drained, node
            )
        if decision.move is Move.DRAIN:
            return self._drain(decision, inputs, node)
        # If a write raises, the rest is not written, and the next step decides again.
        for write in list(self._in_order(decision, inputs, drained, node)):
            write()
        if decision.move is Move.UNDRAIN:
            return SlurmStatus(why=decision.why)
        if decision.move is Move.WITHDRAW:
            return SlurmStatus(
                action="over-budget", reason=decision.reason, why=decision.why, commented=True
            )
        return status_after(decision, node, drained, written=not self._writes.comment_waits)

    def _in_order(
        self, decision: NodeDecision, inputs: DrainInputs, drained: Drained | None, node: SlurmNode
    ) -> Iterator[Write]:
        """The writes that a decision other than a drain requires, in order."""
        if decision.move is Move.UNDRAIN:
            if node.drained_flag:
                yield partial(self._writes.undrain, node)
            if self._reserved is not None:
                yield partial(return_test.release, self.slurm, self._reserved, self.config.path)
            yield self._writes.close_record
            if has_own_comment(node):  # about a failed test, or a time over the budget
                yield partial(self._writes.comment, "")
            yield partial(
                self._writes.note, drained, f"returned to service: {decision.why}", RETURNED
            )
            return
        if decision.move is Move.WITHDRAW:
            yield partial(self._writes.undrain, node)
            yield self._writes.close_record
            yield partial(self._writes.note, drained, f"withdrawn: {decision.why}", WITHDRAWN)
            if decision.reason:  # empty: the comment belongs to someone else
                yield partial(self._writes.comment, decision.reason)
            return
        if decision.move is Move.COMMENT:
            yield partial(self._writes.comment_if_allowed, decision.reason, inputs)
        if decision.forget and drained is not None:
            yield partial(self._writes.save, None)
            yield partial(self._writes.note, None, f"drain record removed: {decision.why}")
        elif drained is not None and is_own_drain(drained.record, node):
            yield partial(self._writes.confirm, drained, node)

    def _drain(self, decision: NodeDecision, inputs: DrainInputs, node: SlurmNode) -> SlurmStatus:
        finding = decision.finding
        assert finding is not None  # noqa: S101 - policy's contract for a drain
        record = DrainRecord(
            reason=decision.reason,
            actor="root",
            at=None,
            written_at=datetime.now(timezone.utc),
            code=finding.code,
            action=finding.action,
            boot_id=self.boot_id,
            instance_id=node.instance_id,
            gpu=finding.gpu,
            returns=decision.returns,
            by_hand=decision.by_hand,
        )
        drained = Drained(record=record, subject=finding.subject)
        return self._write_drain(decision, inputs, node, drained, "drained")

    def _drain_again(
        self, inputs: DrainInputs, drained: Drained, node: SlurmNode, counted: Counted
    ) -> SlurmStatus:
        """slurmctld restarted without Holdfast's drain: decision 026."""
        situation = self._situation(inputs, drained, node, counted)
        decision = drain_lost(situation)
        if decision.move is not Move.DRAIN:
            return self._apply(decision, inputs, drained, node)
        text = f"drained again, as {decision.why}"
        return self._write_drain(decision, inputs, node, reopened(drained, situation.now), text)

    def _write_drain(
        self,
        decision: NodeDecision,
        inputs: DrainInputs,
        node: SlurmNode,
        drained: Drained,
        text: str,
    ) -> SlurmStatus:
        """Save the record, drain, count the budget again, and withdraw if the budget is exceeded.

        ``node`` is its state before the decision. Raises ``Unavailable`` if someone drained it
        since then: saving the record takes time, and a person's reason must not be overwritten.
        """
        before = self._writes.drained
        if before is not None and before.record.reason != drained.record.reason:
            # The agent may be killed before slurmctld has the new drain, and slurmctld may be
            # restored with the old one.
            self._writes.add_ended(before)
        self._writes.save(drained)
        seen = without_hook_drain(self._table.read())
        if seen.drained_flag and (seen.reason, seen.reason_at) != (node.reason, node.reason_at):
            self._writes.save(before)
            raise Unavailable(["scontrol"], "the node was drained by someone else in the meantime")
        self.slurm.drain([self.name], decision.reason)
        self._writes.note(drained, f"{text}: {decision.reason}", DRAINED)
        counted = self._table.counted(drained.record.code, after=True)
        self._writes.has_room = counted.table is None
        if counted.table is not None:
            node = self._table.this_node(counted.table)
            again = self._decide(inputs, drained, node, counted)
            if again.move is Move.WITHDRAW:
                return self._apply(again, inputs, drained, node)
        seen = self._table.read()
        if seen.drained_flag and seen.reason == decision.reason:
            self._writes.confirm(drained, seen)
        return SlurmStatus(
            action="drain", reason=seen.reason, drained=seen.drained_flag, why=decision.why
        )

    def _acknowledge(self, drained: Drained, node: SlurmNode) -> StepResult:
        """A person ended Holdfast's drain."""
        self._writes.save(None)
        text = "resumed by a person: drain record removed"
        self._writes.note(drained, text, RESUMED)
        slurm_status = SlurmStatus(commented=has_own_comment(node))
        return StepResult(slurm_status=slurm_status, acknowledged=True)

    def _reappeared(self, node: SlurmNode, drained: Drained | None) -> Drained | None:
        """The record of Holdfast's drain that is set. A slurmctld that was restored from an older
        state may have a drain again that the agent had already ended, and an agent that was killed
        may have recorded a new drain and not written it.
        """
        if not node.drained_flag or (drained is not None and is_own_drain(drained.record, node)):
            return drained
        for ended in self._writes.ended:
            if ended.record.at is not None and is_own_drain(ended.record, node):
                self._writes.save(ended)
                text = "slurmctld has an earlier drain by Holdfast, which is on record"
                self._writes.note(ended, text)
                return ended
        return drained

    def _restore(self, reason: str) -> SlurmStatus:
        """Set a person's drain again that the last undrain ended."""
        self.slurm.drain([self.name], reason)
        self._writes.save(None)
        self.records.save_return(None)
        why = "a person drained the node at the moment of its return"
        self._writes.note(None, f"{why}: drained again with that reason: {reason}")
        return SlurmStatus(reason=reason, drained=True, why=why)
