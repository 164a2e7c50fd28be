"""Law 3: whose drain is it? Pure.

The proof that a drain is ours is actor, time and exact text, each as slurmctld showed it right
after our own write. Text alone can be typed by anybody, and a node drained twice keeps the second
reason.

When a drained node stops responding, comes back rebooted, or is rebooted by ``scontrol reboot``,
slurmctld appends its own words to the reason and makes itself its author, with a new time (seen on
24.11.5 and 26.05.5: ``OUR TEXT : Not responding [slurm@LATER]``). That is still our drain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from holdfast.policy.budget import KUBE_CORDON
from holdfast.reason import Reason, without_slurms_words
from holdfast.vocabulary import Action, NodeState, SlurmName

_UNREAD = timedelta(seconds=300)
"""How far slurmctld's clock may be from ours for a write of ours that could not be read back."""

ACCOUNTED_CHARS = 255
"""slurmdbd keeps a reason in a TINYTEXT (as_mysql_cluster.c, event_table): 255 bytes, and a Reason is ASCII."""


class NodeView(Protocol):
    """A node as Slurm sees it (``holdfast.slurm.client.SlurmNode`` has it)."""

    @property
    def name(self) -> SlurmName: ...
    @property
    def states(self) -> frozenset[NodeState]: ...
    @property
    def reason(self) -> str: ...
    @property
    def reason_user(self) -> str: ...
    @property
    def reason_at(self) -> datetime | None: ...
    @property
    def comment(self) -> str: ...
    @property
    def instance_id(self) -> str: ...
    @property
    def drained_flag(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRecord:
    """What an actor wrote down about its own drain.

    ``reason``      the exact text that it sent.
    ``actor``       the user that slurmctld named as the reason's author.
    ``at``          the reason's time as slurmctld gave it back; None: it could not be read back.
    ``written_at``  our own clock just before the write (UTC).
    ``action``      what the fault asks for before the node may return.
    ``boot_id``, ``instance_id``  of the node when it was drained; empty where unknown.
    ``slurmctld_at``  the start of the slurmctld that showed this drain last; None: not known.
    ``returns``     how often the node had returned in the time before it (``policy.damping``).
    ``by_hand``     returned too often: only a person gives the node back.
    """

    reason: str
    actor: str
    at: datetime | None
    written_at: datetime
    code: str
    action: Action
    boot_id: str
    instance_id: str = ""
    gpu: int | None = None
    slurmctld_at: datetime | None = None
    returns: int = 0
    by_hand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDrain:
    """A drain that accounting remembers. ``end_at``: None while it stands. slurmctld's clock, whole
    seconds. ``replaced``: another event of the node begins where this one ends, so nobody resumed it."""

    start_at: datetime
    end_at: datetime | None
    user: str
    reason: str
    replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrained:
    """What to look for after an undrain: the drain that was meant (``reason``, ``since``: when it began),
    and the time from our last look to just after the write. slurmctld's clock, whole seconds.

    ``changes``: how many changes of nodes slurmctld made from before that look to after the write; 1:
    ours alone, so nobody's drain was ended. None: not known.
    """

    reason: str
    since: datetime
    looked_at: datetime
    until: datetime
    changes: int | None = None

    @property
    def alone(self) -> bool:
        """Nobody but us changed any node in the moment of the return."""
        return self.changes == 1


def overtaken(past: Iterable[PastDrain], undrained: Undrained) -> PastDrain | None:
    """The drain that the undrain really ended: somebody else's, made since our last look. ``None``: it
    was the one that was meant.

    Slurm changes a node whatever it was before, so between a look and a write there are always some
    milliseconds. Raises ``LookupError`` while accounting does not know yet what the undrain ended.
    """
    ended = [one for one in past if undrained.since <= one.start_at <= undrained.until]
    if not ended:
        raise LookupError("no drain known")
    last = max(ended, key=lambda one: one.start_at)
    if last.end_at is None:
        raise LookupError("the drain has not ended")
    met = last.start_at >= undrained.looked_at and last.end_at <= undrained.until
    return last if met and not _agents_own(last.reason, undrained.reason) else None


def _agents_own(kept: str, reason: str) -> bool:
    """Whether accounting's text ``kept`` is the agent's drain for ``reason``, or an earlier drain of the
    same agent that it replaced: of two drains in one second accounting may keep either text.
    """
    cut = len(kept) >= ACCOUNTED_CHARS and kept.startswith(reason[:ACCOUNTED_CHARS])
    if cut or without_slurms_words(kept) == reason:
        return True
    other, own = Reason.parse(kept), Reason.parse(reason)
    return (
        other is not None
        and own is not None
        and other.code != KUBE_CORDON
        and "boot" in own.pairs
        and other.pairs.get("boot") == own.pairs["boot"]
    )


def same_slurmctld(record: DrainRecord, slurmctld_at: datetime) -> bool:
    """Whether the slurmctld that started at ``slurmctld_at`` is the one that showed the drain. It loses
    no drain, so where the drain is gone somebody ended it.
    """
    if record.slurmctld_at is not None:
        return slurmctld_at == record.slurmctld_at
    return record.at is not None and slurmctld_at < record.at


def ended_before(past: Iterable[PastDrain], record: DrainRecord, slurmctld_at: datetime) -> bool:
    """Whether accounting says that somebody resumed the node after our drain and before the slurmctld of
    ``slurmctld_at`` started. A drain that slurmctld lost with its state stands in accounting without an
    end.
    """
    if record.at is None:
        return False
    since = record.at - timedelta(seconds=1)
    later = [one for one in past if one.start_at >= since]
    last = max(later, key=lambda one: one.start_at, default=None)
    if last is None or last.end_at is None or last.replaced:
        return False
    return last.end_at < slurmctld_at


def is_ours(record: DrainRecord | None, node: NodeView) -> bool:
    """True when the drain that stands on the node is the one of the record."""
    if record is None or not node.drained_flag or node.reason_at is None:
        return False
    text = without_slurms_words(node.reason)
    if text != record.reason:
        return False
    if text != node.reason:  # slurmctld is the author of what it appended to
        return record.at is None or node.reason_at >= record.at
    if node.reason_user != record.actor:
        return False
    if record.at is None:
        return abs(node.reason_at - record.written_at) <= _UNREAD
    return node.reason_at == record.at
