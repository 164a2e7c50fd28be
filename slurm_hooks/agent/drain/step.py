"""One step in Slurm: look, decide, write, look again. Runs in a contained worker.

What is decided is holdfast.policy.node's business; here is the order of things: the record is kept
before Slurm is told, on disk where that takes it, and after a drain everything is counted again (law 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from holdfast.errors import CommandError, Refused, Unavailable
from holdfast.history.event import DRAINED, GIVEN_BACK, RESUMED, WITHDRAWN
from holdfast.policy import budget
from holdfast.policy.budget import Admission
from holdfast.policy.node import decide, drain_lost
from holdfast.policy.node_inputs import Decision, Limits, Move, NodeSituation
from holdfast.policy.ownership import DrainRecord, Undrained, is_own_drain
from holdfast.policy.return_test import Held
from holdfast.reason import Reason, without_appended
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.agent.drain import return_test as tests
from slurm_hooks.agent.drain.manual_resume import by_person
from slurm_hooks.agent.drain.messages import AuditEntry, DrainInputs, SlurmStatus, StepResult
from slurm_hooks.agent.drain.record import Drained, Records, reopened
from slurm_hooks.agent.drain.return_test import Holding
from slurm_hooks.settings.sections import BudgetConfig, ReasonStyle
from slurm_hooks.settings.settings import Settings

UNDRAIN_S = 5
"""How long an undrain may take until nobody can tell any more what it ended."""

_ECHOES = ("Prolog error", "Epilog error")
"""What slurmctld writes when a hook refuses the node: with a fault open, our own verdict's echo."""


@dataclass(slots=True)
class Step:
    """Brings Slurm's view of one node in line with a case. Every call raises CommandError."""

    slurm: SlurmMaintenance
    name: SlurmName
    boot_id: str
    config: Settings
    records: Records
    _did: list[AuditEntry] = field(default_factory=list)
    _holding: Holding | None = None
    _undrained: Undrained | None = None
    _drained: Drained | None = None
    _slurmctld_at: datetime | None = None
    _comments: int = 0
    _comment_waits: bool = False

    def run(self, case: DrainInputs, drained: Drained | None, restore: str = "") -> StepResult:
        """One look, at most one drain or undrain. ``restore``: the reason of a person's drain that our
        last undrain ended; it comes before all else."""
        self._did, self._undrained, self._drained = [], None, drained
        self._comments, self._comment_waits, self._slurmctld_at = 0, False, None
        self.records.settle()
        if drained is not None:
            # Before the look: a slurmctld that starts in between is then taken for the one before it.
            with suppress(CommandError):  # only a drain that is gone needs it
                self._slurmctld_at = self.slurm.slurmctld_at()
        return replace(
            self._run(case, drained, restore),
            drained=self._drained,
            undrained=self._undrained,
            unwritten=self.records.problem,
            comments=self._comments,
            comment_waits=self._comment_waits,
        )

    def _run(self, case: DrainInputs, drained: Drained | None, restore: str) -> StepResult:
        # Draining is in a hurry and needs the whole table for the budget: one call for both.
        table = self._table() if case.worst else self.slurm.nodes([self.name])
        node = self._own(table)
        if restore and (not node.drained_flag or (drained and is_own_drain(drained.record, node))):
            return self._restore(restore)
        drained = self._brought_back(node, drained)
        self._holding = tests.look(self.slurm, self.name, node, drained)
        undrained = drained is not None and drained.record.at is not None and not node.drained_flag
        if drained is not None and undrained and self._holding is None:
            if not self._by_person(drained):
                return self._set_again(case, drained, node, table if case.worst else self._table())
            self._keep(None)
            text = "somebody put the node back into service: the drain record is dropped"
            self._did.append(_about(drained, text, RESUMED))
            standing = SlurmStatus(commented=_says_ours(node))
            return StepResult(standing=standing, did=tuple(self._did), forgiven=True)
        decision = self._decide(case, drained, node, table if case.worst else None)
        standing = self._apply(decision, case, drained, node)
        test = drained.record.reason if drained and decision.move is Move.TEST else ""
        return StepResult(standing=standing, did=tuple(self._did), test=test)

    def _brought_back(self, node: SlurmNode, drained: Drained | None) -> Drained | None:
        """The record of our drain that stands. A slurmctld that was restored from older state may show the
        one that we ended last.
        """
        if not node.drained_flag or (drained is not None and is_own_drain(drained.record, node)):
            return drained
        last = self.records.load_last()
        if last is None or last.record.at is None or not is_own_drain(last.record, node):
            return drained
        self._keep(last)
        self._did.append(_about(last, "slurmctld came back with a drain of ours that had ended"))
        return last

    def _by_person(self, drained: Drained) -> bool:
        if self._slurmctld_at is None:
            raise Unavailable(["scontrol"], "the start of slurmctld is not known")
        return by_person(self.slurm, self.name, drained.record, self._slurmctld_at)

    def _set_again(
        self, case: DrainInputs, drained: Drained, node: SlurmNode, table: Sequence[SlurmNode]
    ) -> StepResult:
        """slurmctld came back without our drain: decision 026."""
        situation, limits = self._situation(case, drained, node, table), self._limits()
        now = datetime.now(timezone.utc)
        decision = drain_lost(situation, limits, now)
        if decision.move is Move.DRAIN:
            deed = f"drained again, as {decision.why}"
            standing = self._set(decision, case, node, reopened(drained, now), deed)
        else:
            standing = self._apply(decision, case, drained, node)
        return StepResult(standing=standing, did=tuple(self._did))

    def _restore(self, reason: str) -> StepResult:
        self.slurm.drain([self.name], reason)
        self._keep(None)
        self.records.save_return(None)
        why = "somebody drained the node in the moment of its return"
        deed = AuditEntry(text=f"{why}: drained again with that reason: {reason}")
        return StepResult(standing=SlurmStatus(reason=reason, drained=True, why=why), did=(deed,))

    def _undrain(self, node: SlurmNode) -> None:
        """``node`` as it was seen. Looks again right before the write; whether somebody drained the node
        between that look and the write is to be asked afterwards, also by the agent after this one.
        Raises ``Unavailable`` where the drain that was meant stands no more.
        """
        before = self.slurm.node_changes()
        seen = self._own(self.slurm.nodes([self.name]))
        if not seen.drained_flag or seen.reason != node.reason or seen.reason_at != node.reason_at:
            raise Unavailable(["scontrol"], "the drain changed since it was looked at")
        if node.reason_at is None:
            self.slurm.undrain([self.name])
            return
        undrained = Undrained(
            reason=without_appended(node.reason),
            since=node.reason_at,
            # Slurm tells whole seconds, so a difference of one is none.
            looked_at=before.at - timedelta(seconds=1),
            until=before.at + timedelta(seconds=UNDRAIN_S),
        )
        self.records.save_return(undrained)
        self._undrained = undrained
        self.slurm.undrain([self.name])
        with suppress(CommandError):  # the undrain counts
            after = self.slurm.node_changes()
            same = after.counted_since == before.counted_since
            changes = after.changes - before.changes if same else None
            self._undrained = replace(undrained, until=after.at, changes=changes)
            self.records.save_return(self._undrained)

    def _table(self) -> list[SlurmNode]:
        """Every node, and this one also where no partition has it: sinfo leaves such nodes out."""
        table = self.slurm.nodes_fast()
        if any(node.name == self.name for node in table):
            return table
        return [*table, *self.slurm.nodes([self.name])]

    def _own(self, table: Sequence[SlurmNode]) -> SlurmNode:
        for node in table:
            if node.name == self.name:
                return node
        raise Refused(["scontrol"], f"Slurm knows no node {self.name}")

    def _decide(
        self,
        case: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        table: Sequence[SlurmNode] | None,
    ) -> Decision:
        situation = self._situation(case, drained, node, table)
        return decide(situation, self._limits(), datetime.now(timezone.utc))

    def _situation(
        self,
        case: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        table: Sequence[SlurmNode] | None,
    ) -> NodeSituation:
        limits = self.config.node.budget
        gpus = self.config.node.expected_gpus
        record = drained.demanding(case.uuids, gpus) if drained else None
        gpu = record.gpu if record else None
        # A drain that slurmctld lost is set again for its own code, whatever is open now.
        code = case.worst.code if case.worst else record.code if record else ""
        return NodeSituation(
            verdict=case.verdict,
            node=without_echo(node) if case.worst else node,
            boot_id=self.boot_id,
            modes=case.modes,
            record=record,
            clean_passes=case.clean_passes,
            gpu_recovered=_recovered(case, gpu),
            admission=_admission(self.name, table, limits, code),
            must_withdraw=table is not None and self.name in budget.withdrawals(table, limits),
            trial=case.trial,
            held=self._holding.held if self._holding else Held.NO,
            returns=case.returns,
        )

    def _limits(self) -> Limits:
        agent = self.config.agent
        return Limits(
            recheck_passes=agent.recheck_passes,
            wait_s=agent.wait_s,
            gate=agent.gate_back,
            node_problem=self.config.node.reason_style is ReasonStyle.NODE_PROBLEM,
            max_wait_s=agent.max_wait_s,
            return_window_s=agent.return_window_s,
            max_returns=agent.max_returns,
        )

    def _apply(
        self, decision: Decision, case: DrainInputs, drained: Drained | None, node: SlurmNode
    ) -> SlurmStatus:
        if self._holding is not None and decision.move is not Move.UNDRAIN:
            return self._about_test(self._holding, decision, drained, node)
        if decision.move is Move.DRAIN:
            return self._drain(decision, case, node)
        if decision.move is Move.UNDRAIN:
            if node.drained_flag:
                self._undrain(node)
            self._let_go()
            self._end()
            if _says_ours(node):
                self._comment("")  # of a test that was not passed, or of a time past the budget
            self._did.append(_about(drained, f"given back: {decision.why}", GIVEN_BACK))
            return SlurmStatus(why=decision.why)
        if decision.move is Move.WITHDRAW:
            return self._withdraw(decision, drained, node)
        if decision.move is Move.COMMENT:
            self._say(decision.reason, case)
        if decision.forget and drained is not None:
            self._keep(None)
            self._did.append(AuditEntry(text=f"drain record dropped: {decision.why}"))
        elif drained is not None and is_own_drain(drained.record, node):
            self._confirm(drained, node)
        return _standing(decision, node, drained, written=not self._comment_waits)

    def _drain(self, decision: Decision, case: DrainInputs, node: SlurmNode) -> SlurmStatus:
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
        return self._set(decision, case, node, drained, "drained")

    def _set(
        self, decision: Decision, case: DrainInputs, node: SlurmNode, drained: Drained, deed: str
    ) -> SlurmStatus:
        """``node`` as it was decided about. Raises ``Unavailable`` where somebody drained it since: the
        record is kept first, which takes a while, and a person's reason is not to be overwritten.
        """
        before = self._drained
        self._keep(drained)
        seen = without_echo(self._own(self.slurm.nodes([self.name])))
        if seen.drained_flag and (seen.reason, seen.reason_at) != (node.reason, node.reason_at):
            self._keep(before)
            raise Unavailable(["scontrol"], "somebody drained the node meanwhile")
        self.slurm.drain([self.name], decision.reason)
        self._did.append(_about(drained, f"{deed}: {decision.reason}", DRAINED))
        table = self._table()
        node = self._own(table)
        again = self._decide(case, drained, node, table)
        if again.move is Move.WITHDRAW:
            return self._withdraw(again, drained, node)
        seen = self._own(self.slurm.nodes([self.name]))
        if seen.drained_flag and seen.reason == decision.reason:
            self._confirm(drained, seen)
        return SlurmStatus(
            action="drain", reason=seen.reason, drained=seen.drained_flag, why=decision.why
        )

    def _withdraw(
        self, decision: Decision, drained: Drained | None, node: SlurmNode
    ) -> SlurmStatus:
        self._undrain(node)
        self._end()
        self._did.append(_about(drained, f"withdrawn: {decision.why}", WITHDRAWN))
        if decision.reason:  # else somebody else's comment stands there
            self._comment(decision.reason)
        return SlurmStatus(
            action="over-budget", reason=decision.reason, why=decision.why, commented=True
        )

    def _let_go(self) -> None:
        """Free the node of the reservation that it was tested in. Raises ``Unavailable``: a job in it
        does not end; the step is tried again.
        """
        if self._holding is None:
            return
        keeper = NodeReservation(self.slurm, this_process(), self.config.path)
        if not keeper.release(self._holding.name):
            raise Unavailable(["scontrol"], f"a job in {self._holding.name} does not end")

    def _about_test(
        self, holding: Holding, decision: Decision, drained: Drained | None, node: SlurmNode
    ) -> SlurmStatus:
        """Leave an inspection alone, or end a test that is over: the drain first, with its old
        reason, then the reservation.
        """
        if holding.held is Held.BY_OTHERS:
            if drained is not None and not node.drained_flag:
                self._keep(reopened(drained, datetime.now(timezone.utc)))
            return SlurmStatus(
                action="test",
                reason=holding.keep.drained,
                drained=node.drained_flag,
                why=decision.why,
            )
        tests.stop_maker(holding)
        if drained is not None:
            self._keep(reopened(drained, datetime.now(timezone.utc)))
        keeper = NodeReservation(self.slurm, this_process(), self.config.path)
        gone = keeper.restore(holding.name, holding.keep)
        seen = self._own(self.slurm.nodes([self.name]))
        if drained is not None and seen.drained_flag and seen.reason == drained.record.reason:
            self._keep(confirmed(drained, seen))
        if not gone:
            raise Unavailable(["scontrol"], f"a job in {holding.name} does not end")
        self._did.append(AuditEntry(text=f"test ended, as before: {decision.why}"))
        return SlurmStatus(
            action="drain" if seen.drained_flag and drained is not None else "none",
            reason=seen.reason,
            drained=seen.drained_flag,
            why=decision.why,
        )

    def _say(self, text: str, case: DrainInputs) -> None:
        """Unless the comment changed too often lately: a finding that comes and goes is no news (law 6)."""
        self._comment_waits = not case.may_comment
        if case.may_comment:
            self._comment(text)

    def _comment(self, text: str) -> None:
        self.slurm.comment([self.name], text)
        self._comments += 1
        self._did.append(AuditEntry(text=f"commented: {text}" if text else "comment taken back"))

    def _confirm(self, drained: Drained, node: SlurmNode) -> None:
        """Keep what slurmctld tells of our drain, and which slurmctld that is, where the record lacks it."""
        known = confirmed(drained, node) if drained.record.at is None else drained
        if self._slurmctld_at is not None:
            known = replace(known, record=replace(known.record, slurmctld_at=self._slurmctld_at))
        if known != drained:
            self._keep(known)

    def _keep(self, drained: Drained | None) -> None:
        self._drained = drained
        self.records.save(drained)

    def _end(self) -> None:
        """Our drain is over. Its record is put aside, in case slurmctld comes back with that drain."""
        if self._drained is not None:
            self.records.save_last(self._drained)
        self._keep(None)


def _admission(
    name: SlurmName, table: Sequence[SlurmNode] | None, limits: BudgetConfig, code: str
) -> Admission | None:
    """The budget's answer for a fault; ``None``: not asked."""
    return budget.admit(name, table, limits, code) if table is not None and code else None


def _about(drained: Drained | None, text: str, event: str = "") -> AuditEntry:
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


def without_echo(node: SlurmNode) -> SlurmNode:
    """The node as it would be without slurmctld's drain for a hook of ours that refused it.

    The verdict is published before the drain, so a prolog may refuse the node first; that drain
    must become ours, or nobody would ever undo it.
    """
    if node.drained_flag and node.reason in _ECHOES:
        return replace(node, states=node.states - {NodeState.DRAIN}, reason="")
    return node


def confirmed(drained: Drained, node: SlurmNode) -> Drained:
    """The record with actor, time and machine as slurmctld tells them after our write."""
    record = replace(
        drained.record,
        at=node.reason_at,
        actor=node.reason_user,
        instance_id=node.instance_id or drained.record.instance_id,
    )
    return replace(drained, record=record)


def _recovered(case: DrainInputs, gpu: int | None) -> bool | None:
    """Whether the drained GPU (all, when no single one was at fault) answers and asks for
    nothing.
    """
    if not case.recovered:
        return None
    return all(case.recovered.values()) if gpu is None else case.recovered.get(gpu)


def _standing(
    decision: Decision, node: SlurmNode, drained: Drained | None, *, written: bool = True
) -> SlurmStatus:
    ours = drained is not None and is_own_drain(drained.record, node)
    action = "none"
    said = decision.move is Move.COMMENT and written
    told = bool(decision.reason) if said else _says_ours(node)
    if decision.over_budget:
        action = "over-budget"
    elif ours:
        action = "drain"
    elif decision.move is Move.COMMENT and decision.reason:
        action = "comment"
    return SlurmStatus(
        action=action,
        reason=node.reason if node.drained_flag else decision.reason,
        drained=node.drained_flag,
        why=decision.why,
        commented=told or decision.over_budget,
    )


def _says_ours(node: SlurmNode) -> bool:
    return Reason.parse(node.comment) is not None
