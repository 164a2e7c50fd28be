"""One step in Slurm: read the node, decide, write, read it again. Runs in a contained worker.

``holdfast.policy.node_decision`` decides. This module fixes the order of the writes: the drain record is
saved before Slurm changes, and after a drain the budget is counted again (rule 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from holdfast.errors import CommandError, Refused, Unavailable
from holdfast.history.event import DRAINED, RESUMED, RETURNED, WITHDRAWN
from holdfast.policy import budget
from holdfast.policy.budget import Admission
from holdfast.policy.node_decision import decide, drain_lost
from holdfast.policy.node_inputs import DrainInputs, Move, NodeDecision, NodeSituation, ReturnLimits
from holdfast.policy.ownership import DrainRecord, Undrained, is_own_drain, to_ask_about
from holdfast.policy.return_test import ReservedBy
from holdfast.reason import Reason, without_appended
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.agent.drain import return_test
from slurm_hooks.agent.drain.manual_resume import by_person
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus, StepResult
from slurm_hooks.agent.drain.record import ENDED_KEPT, Drained, Records, reopened
from slurm_hooks.agent.drain.return_test import HoldfastReservation
from slurm_hooks.settings.sections import BudgetConfig, ReasonStyle
from slurm_hooks.settings.settings import Settings

UNDRAIN_S = 5
"""The longest time that one undrain may take in slurmctld, for the audit of what it ended."""

_HOOK_REASONS = ("Prolog error", "Epilog error")
"""The reasons that slurmctld sets when a hook refuses the node. With a fault open, the hook only
repeated Holdfast's own verdict."""

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
    _entries: list[AuditEntry] = field(default_factory=list)
    _reserved: HoldfastReservation | None = None
    _undrained: Undrained | None = None
    _asked: Undrained | None = None
    _drained: Drained | None = None
    _ended: tuple[Drained, ...] = ()
    _slurmctld_at: datetime | None = None
    _comments: int = 0
    _comment_waits: bool = False

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
        self._entries, self._undrained, self._asked = [], None, asked
        if reload:
            drained, _ = self.records.load()
            ended = self.records.load_ended()
            self._undrained, _ = self.records.load_return()
        self._drained, self._ended = drained, ended
        self._comments, self._comment_waits, self._slurmctld_at = 0, False, None
        self.records.settle()
        if drained is not None:
            # Before the node is read: if slurmctld restarts in between, the earlier start time counts.
            with suppress(CommandError):  # needed only if the drain is gone
                self._slurmctld_at = self.slurm.slurmctld_at()
        return replace(
            self._run(inputs, drained, restore),
            entries=tuple(self._entries),
            drained=self._drained,
            ended=self._ended,
            undrained=self._undrained,
            unwritten=self.records.problem,
            comments=self._comments,
            comment_waits=self._comment_waits,
        )

    def _run(self, inputs: DrainInputs, drained: Drained | None, restore: str) -> StepResult:
        node = self._read_node()
        if restore and (not node.drained_flag or (drained and is_own_drain(drained.record, node))):
            return StepResult(slurm_status=self._restore(restore))
        drained = self._reappeared(node, drained)
        self._reserved = return_test.reservation_on(self.slurm, self.name, node, drained)
        ended = drained is not None and drained.record.at is not None and not node.drained_flag
        if drained is not None and ended and self._reserved is None:
            if self._by_person(drained):
                return self._acknowledge(drained, node)
            again = self._drain_again(inputs, drained, node, self._table())
            return StepResult(slurm_status=again)
        table = self._table() if _needs_budget(inputs, drained, node) else None
        decision = self._decide(inputs, drained, node, table)
        slurm_status = self._apply(decision, inputs, drained, node)
        test_reason = drained.record.reason if drained and decision.move is Move.TEST else ""
        return StepResult(slurm_status=slurm_status, test_reason=test_reason)

    # --- reading -------------------------------------------------------------------------------

    def _table(self) -> list[SlurmNode]:
        """Every node. sinfo leaves out nodes in no partition, so this node is added if it is
        missing."""
        table = self.slurm.nodes_fast()
        if any(node.name == self.name for node in table):
            return table
        return [*table, *self.slurm.nodes([self.name])]

    def _this_node(self, table: Sequence[SlurmNode]) -> SlurmNode:
        for node in table:
            if node.name == self.name:
                return node
        raise Refused(["scontrol"], f"Slurm knows no node {self.name}")

    def _read_node(self) -> SlurmNode:
        return self._this_node(self.slurm.nodes([self.name]))

    def _by_person(self, drained: Drained) -> bool:
        if self._slurmctld_at is None:
            raise Unavailable(["scontrol"], "the start time of slurmctld is unknown")
        return by_person(self.slurm, self.name, drained.record, self._slurmctld_at)

    # --- deciding ------------------------------------------------------------------------------

    def _decide(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        table: Sequence[SlurmNode] | None,
    ) -> NodeDecision:
        return decide(self._situation(inputs, drained, node, table))

    def _situation(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        table: Sequence[SlurmNode] | None,
    ) -> NodeSituation:
        limits = self.config.node.budget
        gpus = self.config.node.expected_gpus
        record = drained.demanding(inputs.uuids, gpus) if drained else None
        gpu = record.gpu if record else None
        # A drain that slurmctld lost is set again for its own code, whatever is open now.
        code = inputs.worst.code if inputs.worst else record.code if record else ""
        return NodeSituation(
            inputs=inputs,
            node=without_hook_drain(node) if inputs.worst else node,
            boot_id=self.boot_id,
            limits=self._limits(),
            now=datetime.now(timezone.utc),
            record=record,
            gpu_recovered=_recovered(inputs, gpu),
            admission=_admission(self.name, table, limits, code),
            must_withdraw=table is not None and self.name in budget.withdrawals(table, limits),
            reserved_by=self._reserved.reserved_by if self._reserved else ReservedBy.NOBODY,
        )

    def _limits(self) -> ReturnLimits:
        agent = self.config.agent
        return ReturnLimits(
            recheck_passes=agent.recheck_passes,
            wait_s=agent.wait_s,
            return_test=agent.return_test,
            node_problem=self.config.node.reason_style is ReasonStyle.NODE_PROBLEM,
            max_wait_s=agent.max_wait_s,
            return_window_s=agent.return_window_s,
            max_returns=agent.max_returns,
        )

    # --- carrying out a decision ---------------------------------------------------------------

    def _apply(
        self, decision: NodeDecision, inputs: DrainInputs, drained: Drained | None, node: SlurmNode
    ) -> SlurmStatus:
        """Carry the decision out; the node's state afterwards."""
        if self._reserved is not None and decision.move is not Move.UNDRAIN:
            return self._during_test(self._reserved, decision, drained, node)
        if decision.move is Move.DRAIN:
            return self._drain(decision, inputs, node)
        # If a write raises, the rest is not written, and the next step decides again.
        for write in list(self._writes(decision, inputs, drained, node)):
            write()
        if decision.move is Move.UNDRAIN:
            return SlurmStatus(why=decision.why)
        if decision.move is Move.WITHDRAW:
            return SlurmStatus(
                action="over-budget", reason=decision.reason, why=decision.why, commented=True
            )
        return _slurm_status(decision, node, drained, written=not self._comment_waits)

    def _writes(
        self, decision: NodeDecision, inputs: DrainInputs, drained: Drained | None, node: SlurmNode
    ) -> Iterator[Write]:
        """The writes that a decision other than a drain requires, in order."""
        if decision.move is Move.UNDRAIN:
            if node.drained_flag:
                yield partial(self._undrain, node)
            if self._reserved is not None:
                yield partial(self._release, self._reserved)
            yield self._close_record
            if _has_own_comment(node):  # about a failed test, or a time over the budget
                yield partial(self._comment, "")
            yield self._note(drained, f"returned to service: {decision.why}", RETURNED)
            return
        if decision.move is Move.WITHDRAW:
            yield partial(self._undrain, node)
            yield self._close_record
            yield self._note(drained, f"withdrawn: {decision.why}", WITHDRAWN)
            if decision.reason:  # empty: the comment belongs to someone else
                yield partial(self._comment, decision.reason)
            return
        if decision.move is Move.COMMENT:
            yield partial(self._comment_if_allowed, decision.reason, inputs)
        if decision.forget and drained is not None:
            yield partial(self._save, None)
            yield self._note(None, f"drain record removed: {decision.why}")
        elif drained is not None and is_own_drain(drained.record, node):
            yield partial(self._confirm, drained, node)

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
        self, inputs: DrainInputs, drained: Drained, node: SlurmNode, table: Sequence[SlurmNode]
    ) -> SlurmStatus:
        """slurmctld restarted without Holdfast's drain: decision 026."""
        situation = self._situation(inputs, drained, node, table)
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
        before = self._drained
        if before is not None and before.record.reason != drained.record.reason:
            # The agent may be killed before slurmctld has the new drain, and slurmctld may be
            # restored with the old one.
            self._add_ended(before)
        self._save(drained)
        seen = without_hook_drain(self._read_node())
        if seen.drained_flag and (seen.reason, seen.reason_at) != (node.reason, node.reason_at):
            self._save(before)
            raise Unavailable(["scontrol"], "the node was drained by someone else in the meantime")
        self.slurm.drain([self.name], decision.reason)
        self._entries.append(_audit_entry(drained, f"{text}: {decision.reason}", DRAINED))
        table = self._table()
        node = self._this_node(table)
        again = self._decide(inputs, drained, node, table)
        if again.move is Move.WITHDRAW:
            return self._apply(again, inputs, drained, node)
        seen = self._read_node()
        if seen.drained_flag and seen.reason == decision.reason:
            self._confirm(drained, seen)
        return SlurmStatus(
            action="drain", reason=seen.reason, drained=seen.drained_flag, why=decision.why
        )

    def _acknowledge(self, drained: Drained, node: SlurmNode) -> StepResult:
        """A person ended Holdfast's drain."""
        self._save(None)
        text = "resumed by a person: drain record removed"
        self._entries.append(_audit_entry(drained, text, RESUMED))
        slurm_status = SlurmStatus(commented=_has_own_comment(node))
        return StepResult(slurm_status=slurm_status, acknowledged=True)

    def _reappeared(self, node: SlurmNode, drained: Drained | None) -> Drained | None:
        """The record of Holdfast's drain that is set. A slurmctld that was restored from an older
        state may have a drain again that the agent had already ended, and an agent that was killed
        may have recorded a new drain and not written it.
        """
        if not node.drained_flag or (drained is not None and is_own_drain(drained.record, node)):
            return drained
        for ended in self._ended:
            if ended.record.at is not None and is_own_drain(ended.record, node):
                self._save(ended)
                text = "slurmctld has an earlier drain by Holdfast, which is on record"
                self._entries.append(_audit_entry(ended, text))
                return ended
        return drained

    def _restore(self, reason: str) -> SlurmStatus:
        """Set a person's drain again that the last undrain ended."""
        self.slurm.drain([self.name], reason)
        self._save(None)
        self.records.save_return(None)
        why = "a person drained the node at the moment of its return"
        self._entries.append(AuditEntry(text=f"{why}: drained again with that reason: {reason}"))
        return SlurmStatus(reason=reason, drained=True, why=why)

    def _during_test(
        self,
        reserved: HoldfastReservation,
        decision: NodeDecision,
        drained: Drained | None,
        node: SlurmNode,
    ) -> SlurmStatus:
        """Leave another user's test alone, or end one that is over: first drain the node again with
        its old reason, then remove the reservation.
        """
        if reserved.reserved_by is ReservedBy.OTHERS:
            if drained is not None and not node.drained_flag:
                self._save(reopened(drained, datetime.now(timezone.utc)))
            return SlurmStatus(
                action="test",
                reason=reserved.text.drained,
                drained=node.drained_flag,
                why=decision.why,
            )
        return_test.stop_maker(reserved)
        if drained is not None:
            self._save(reopened(drained, datetime.now(timezone.utc)))
        removed = self._reservation().restore(reserved.name, reserved.text)
        seen = self._read_node()
        if drained is not None and seen.drained_flag and seen.reason == drained.record.reason:
            self._save(confirmed(drained, seen))
        if not removed:
            raise Unavailable(["scontrol"], f"a job in {reserved.name} does not end")
        self._entries.append(
            AuditEntry(text=f"test ended, previous state restored: {decision.why}")
        )
        return SlurmStatus(
            action="drain" if seen.drained_flag and drained is not None else "none",
            reason=seen.reason,
            drained=seen.drained_flag,
            why=decision.why,
        )

    # --- writes --------------------------------------------------------------------------------

    def _undrain(self, node: SlurmNode) -> None:
        """``node`` is its state before the decision. It is read again right before the write.
        Whether someone drained it between that read and the write is asked afterwards, if need be
        by the next agent. Raises ``Unavailable`` if the drain is no longer the same.
        """
        before = self.slurm.node_changes()
        seen = self._read_node()
        if not seen.drained_flag or seen.reason != node.reason or seen.reason_at != node.reason_at:
            raise Unavailable(["scontrol"], "the drain changed in the meantime")
        if node.reason_at is None:
            self.slurm.undrain([self.name])
            return
        undrained = Undrained(
            reason=without_appended(node.reason),
            since=node.reason_at,
            # Slurm reports whole seconds, so times may differ by one second.
            looked_at=before.at - timedelta(seconds=1),
            until=before.at + timedelta(seconds=UNDRAIN_S),
        )
        self.records.save_return(to_ask_about(self._asked, undrained))
        self._undrained = undrained
        self.slurm.undrain([self.name])
        with suppress(CommandError):  # the undrain itself has succeeded
            after = self.slurm.node_changes()
            same = after.counted_since == before.counted_since
            changes = after.changes - before.changes if same else None
            self._undrained = replace(undrained, until=after.at, changes=changes)
            self.records.save_return(to_ask_about(self._asked, self._undrained))

    def _release(self, reserved: HoldfastReservation) -> None:
        """Remove the reservation in which the node was tested. Raises ``Unavailable`` while a job
        runs in it; the step is then tried again.
        """
        if not self._reservation().release(reserved.name):
            raise Unavailable(["scontrol"], f"a job in {reserved.name} does not end")

    def _reservation(self) -> NodeReservation:
        return NodeReservation(self.slurm, this_process(), self.config.path)

    def _comment_if_allowed(self, text: str, inputs: DrainInputs) -> None:
        """Not if the comment changed too often lately: a finding may open and close repeatedly (rule
        6)."""
        self._comment_waits = not inputs.may_comment
        if inputs.may_comment:
            self._comment(text)

    def _comment(self, text: str) -> None:
        self.slurm.comment([self.name], text)
        self._comments += 1
        self._entries.append(AuditEntry(text=f"commented: {text}" if text else "comment cleared"))

    def _note(self, drained: Drained | None, text: str, event: str = "") -> Write:
        return partial(self._entries.append, _audit_entry(drained, text, event))

    def _confirm(self, drained: Drained, node: SlurmNode) -> None:
        """Save what slurmctld reports of Holdfast's drain, and which slurmctld it is, if not saved
        yet."""
        known = confirmed(drained, node) if drained.record.at is None else drained
        if self._slurmctld_at is not None:
            known = replace(known, record=replace(known.record, slurmctld_at=self._slurmctld_at))
        if known != drained:
            self._save(known)

    def _save(self, drained: Drained | None) -> None:
        self._drained = drained
        self.records.save(drained)

    def _close_record(self) -> None:
        """The drain has ended. Its record is kept apart, in case slurmctld is restored with that
        drain."""
        if self._drained is not None:
            self._add_ended(self._drained)
        self._save(None)

    def _add_ended(self, drained: Drained) -> None:
        if drained in self._ended:
            return
        self._ended = (*self._ended, drained)[-ENDED_KEPT:]
        self.records.save_ended(self._ended)


def _needs_budget(inputs: DrainInputs, drained: Drained | None, node: SlurmNode) -> bool:
    """May the step drain the node, or withdraw its drain? Only then is the node table read, which costs
    slurmctld a hundred times as much as one node.
    """
    if inputs.worst is None:
        return False
    unconfirmed = drained is not None and drained.record.at is None
    return inputs.recount or unconfirmed or not without_hook_drain(node).drained_flag


def _admission(
    name: SlurmName, table: Sequence[SlurmNode] | None, limits: BudgetConfig, code: str
) -> Admission | None:
    """The budget's answer for a fault; ``None``: not needed."""
    return budget.admit(name, table, limits, code) if table is not None and code else None


def _audit_entry(drained: Drained | None, text: str, event: str = "") -> AuditEntry:
    if drained is None:
        return AuditEntry(text=text, event=event)
    record = drained.record
    return AuditEntry(
        text=text,
        event=event,
        code=record.code,
        subject=drained.subject,
        gpu=record.gpu,
        action=record.action.value,
    )


def without_hook_drain(node: SlurmNode) -> SlurmNode:
    """The node without a drain that slurmctld set because a Holdfast hook refused it.

    The verdict is published before the drain, so a prolog may refuse the node first. The agent has
    to take that drain over: no one else would ever end it.
    """
    if node.drained_flag and node.reason in _HOOK_REASONS:
        return replace(node, states=node.states - {NodeState.DRAIN}, reason="")
    return node


def confirmed(drained: Drained, node: SlurmNode) -> Drained:
    """The record with user, time and instance as slurmctld reports them after the drain."""
    record = replace(
        drained.record,
        at=node.reason_at,
        actor=node.reason_user,
        instance_id=node.instance_id or drained.record.instance_id,
    )
    return replace(drained, record=record)


def _recovered(inputs: DrainInputs, gpu: int | None) -> bool | None:
    """Whether the drained GPU (all GPUs, if the fault is not that of a single one) answers and
    requires no action; None: unknown.
    """
    if not inputs.recovered:
        return None
    return all(inputs.recovered.values()) if gpu is None else inputs.recovered.get(gpu)


def _slurm_status(
    decision: NodeDecision, node: SlurmNode, drained: Drained | None, *, written: bool = True
) -> SlurmStatus:
    own_drain = drained is not None and is_own_drain(drained.record, node)
    action = "none"
    wrote_comment = decision.move is Move.COMMENT and written
    commented = bool(decision.reason) if wrote_comment else _has_own_comment(node)
    if decision.over_budget:
        action = "over-budget"
    elif own_drain:
        action = "drain"
    elif decision.move is Move.COMMENT and decision.reason:
        action = "comment"
    return SlurmStatus(
        action=action,
        reason=node.reason if node.drained_flag else decision.reason,
        drained=node.drained_flag,
        why=decision.why,
        commented=commented or decision.over_budget,
    )


def _has_own_comment(node: SlurmNode) -> bool:
    return Reason.parse(node.comment) is not None
