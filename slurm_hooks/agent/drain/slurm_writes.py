"""The changes that one step makes, in Slurm and in the agent's records, and what it did.

Each change is saved or written at once, so an agent that is killed between two of them finds the first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from holdfast.errors import CommandError, Unavailable
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import Undrained, to_ask_about
from holdfast.reason import without_appended
from holdfast.slurm.client import SlurmNode
from slurm_hooks.agent.drain.messages import AuditEntry, StepResult
from slurm_hooks.agent.drain.node_table import NodeTable
from slurm_hooks.agent.drain.record import ENDED_KEPT, Drained, Records, confirmed

UNDRAIN_S = 5
"""The longest time that one undrain may take in slurmctld, for the audit of what it ended."""


@dataclass(slots=True, kw_only=True)
class SlurmWrites:
    """The writes of one step, and the records as they are after them.

    ``asked``         an earlier undrain that accounting has not reported on yet.
    ``slurmctld_at``  the start of slurmctld, known only while a drain is on record.
    """

    table: NodeTable
    records: Records
    drained: Drained | None = None
    ended: tuple[Drained, ...] = ()
    undrained: Undrained | None = None
    asked: Undrained | None = None
    slurmctld_at: datetime | None = None
    entries: list[AuditEntry] = field(default_factory=list)
    comments: int = 0
    comment_waits: bool = False
    has_room: bool = False

    def in_result(self, result: StepResult) -> StepResult:
        """The result with what was written, and the records after it."""
        return replace(
            result,
            entries=tuple(self.entries),
            drained=self.drained,
            ended=self.ended,
            undrained=self.undrained,
            unwritten=self.records.problem,
            comments=self.comments,
            comment_waits=self.comment_waits,
            count=self.table.count,
            domain=self.table.domain,
            has_room=self.has_room,
        )

    def undrain(self, node: SlurmNode) -> None:
        """``node`` is its state before the decision. It is read again right before the write.
        Whether someone drained it between that read and the write is asked afterwards, if need be
        by the next agent. Raises ``Unavailable`` if the drain is no longer the same.
        """
        before = self.table.slurm.node_changes()
        seen = self.table.read()
        if not seen.drained_flag or seen.reason != node.reason or seen.reason_at != node.reason_at:
            raise Unavailable(["scontrol"], "the drain changed in the meantime")
        if node.reason_at is None:
            self.table.slurm.undrain([self.table.name])
            return
        undrained = Undrained(
            reason=without_appended(node.reason),
            since=node.reason_at,
            # Slurm reports whole seconds, so times may differ by one second.
            looked_at=before.at - timedelta(seconds=1),
            until=before.at + timedelta(seconds=UNDRAIN_S),
        )
        self.records.save_return(to_ask_about(self.asked, undrained))
        self.undrained = undrained
        self.table.slurm.undrain([self.table.name])
        with suppress(CommandError):  # the undrain itself has succeeded
            after = self.table.slurm.node_changes()
            same = after.counted_since == before.counted_since
            changes = after.changes - before.changes if same else None
            self.undrained = replace(undrained, until=after.at, changes=changes)
            self.records.save_return(to_ask_about(self.asked, self.undrained))

    def comment_if_allowed(self, text: str, inputs: DrainInputs) -> None:
        """Not if the comment changed too often lately: a finding may open and close repeatedly (rule
        6)."""
        self.comment_waits = not inputs.may_comment
        if inputs.may_comment:
            self.comment(text)

    def comment(self, text: str) -> None:
        """Sets the node's comment; an empty text clears it."""
        self.table.slurm.comment([self.table.name], text)
        self.comments += 1
        self.entries.append(AuditEntry(text=f"commented: {text}" if text else "comment cleared"))

    def note(self, drained: Drained | None, text: str, event: str = "") -> None:
        """One entry of the audit, about this drain; None: about none."""
        self.entries.append(AuditEntry.about(drained, text, event))

    def confirm(self, drained: Drained, node: SlurmNode) -> None:
        """Save what slurmctld reports of Holdfast's drain, and which slurmctld it is, if not saved
        yet."""
        known = confirmed(drained, node) if drained.record.at is None else drained
        if self.slurmctld_at is not None:
            known = replace(known, record=replace(known.record, slurmctld_at=self.slurmctld_at))
        if known != drained:
            self.save(known)

    def save(self, drained: Drained | None) -> None:
        """Saves the record of Holdfast's drain; None removes it."""
        self.drained = drained
        self.records.save(drained)

    def close_record(self) -> None:
        """The drain has ended. Its record is kept apart, in case slurmctld is restored with that
        drain."""
        if self.drained is not None:
            self.add_ended(self.drained)
        self.save(None)

    def add_ended(self, drained: Drained) -> None:
        """Keeps the record of a drain that ended or is replaced."""
        if drained in self.ended:
            return
        self.ended = (*self.ended, drained)[-ENDED_KEPT:]
        self.records.save_ended(self.ended)
