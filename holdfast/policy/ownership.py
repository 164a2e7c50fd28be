"""Rule 3: did Holdfast make this drain? Pure.

A drain is Holdfast's own if its user, time and exact text are those that slurmctld showed right after
Holdfast's write. The text alone proves nothing: anyone can type it, and a node that is drained twice
keeps the second reason.

When a drained node stops responding, registers after a reboot, or is rebooted by ``scontrol reboot``,
slurmctld appends a phrase to the reason and sets itself as its author, with a new time (seen on
24.11.5 and 26.05.5: ``OUR TEXT : Not responding [slurm@LATER]``). That is still the same drain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from holdfast.policy.budget import KUBE_CORDON, NodeRow
from holdfast.reason import Reason, without_appended
from holdfast.vocabulary import Action

_UNREAD = timedelta(seconds=300)
"""The largest difference between slurmctld's clock and this machine's for a write that could not be read
back."""

HOOK_REASONS = frozenset({"Prolog error", "Epilog error"})
"""The reasons that slurmctld writes when a hook fails; Holdfast's hooks fail only on a bad node. While
the fault is open, its own reason replaces them: only then can the drain be undone automatically."""
ACCOUNTED_CHARS = 255
"""slurmdbd keeps a reason in a TINYTEXT (as_mysql_cluster.c, event_table): 255 bytes, and a Reason is ASCII."""


class NodeView(NodeRow, Protocol):
    """A node as Slurm shows it (implemented by ``holdfast.slurm.client.SlurmNode``)."""

    @property
    def reason_user(self) -> str: ...
    @property
    def comment(self) -> str: ...
    @property
    def instance_id(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRecord:
    """What the agent recorded about its own drain.

    ``reason``      the exact text that it sent.
    ``actor``       the user that slurmctld showed as the reason's author.
    ``at``          the reason's time as slurmctld showed it; None: it could not be read back.
    ``written_at``  just before the write (UTC): this machine's clock, slurmctld's if a hook wrote it.
    ``action``      what must happen before the node may return to service.
    ``boot_id``, ``instance_id``  of the node when it was drained; empty where unknown.
    ``slurmctld_at``  the start time of the slurmctld that showed this drain last; None: unknown.
    ``returns``     how often the node had returned to service before it (``policy.flap_damping``).
    ``by_hand``     the node returned too often: only a person returns it to service.
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
    """A drain in Slurm's accounting. Times are slurmctld's, in whole seconds.

    ``end_at``    None while the node is drained.
    ``replaced``  another event of the node starts when this one ends, so nobody resumed the node.
    """

    start_at: datetime
    end_at: datetime | None
    user: str
    reason: str
    replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrained:
    """An undrain whose effect is to be checked. Times are slurmctld's, in whole seconds.

    ``reason``, ``since``      the drain that it was meant for, and when that drain started.
    ``looked_at``, ``until``   the last read of the node before the write, and just after the write.
    ``changes``  how many changes of nodes slurmctld made between these two; 1: only this undrain, so no
                 other drain was ended. None: unknown.
    """

    reason: str
    since: datetime
    looked_at: datetime
    until: datetime
    changes: int | None = None

    @property
    def alone(self) -> bool:
        """Nothing but this undrain changed any node at that time."""
        return self.changes == 1


def to_ask_about(before: Undrained | None, new: Undrained) -> Undrained:
    """Of an undrain that accounting has not reported on and a later one: the one to ask about. The earlier
    one stays unless only the later one may have ended another drain.
    """
    if before is None or before.alone:
        return new
    return new if new.changes is not None and not new.alone else before


def overtaken(past: Iterable[PastDrain], undrained: Undrained) -> PastDrain | None:
    """The drain of somebody else that the undrain ended by accident, set after the last read of the node.
    None: it ended the drain that it was meant for.

    Slurm has no compare-and-set: a drain can arrive between the read and the write. Raises
    ``LookupError`` while accounting does not show yet which drain the undrain ended.
    """
    ended = [drain for drain in past if undrained.since <= drain.start_at <= undrained.until]
    if not ended:
        raise LookupError("accounting shows no drain")
    last = max(ended, key=lambda drain: drain.start_at)
    if last.end_at is None:
        raise LookupError("the drain has not ended")
    met = last.start_at >= undrained.looked_at and last.end_at <= undrained.until
    return last if met and not _agents_own(last.reason, undrained.reason) else None


def _agents_own(kept: str, reason: str) -> bool:
    """Whether accounting's text ``kept`` is the agent's drain for ``reason``, or an earlier drain of the
    same agent that it replaced: of two drains in one second accounting may keep either text.
    """
    # slurmdbd may have cut the text in the middle.
    cut = len(kept) >= ACCOUNTED_CHARS and kept.startswith(reason[:ACCOUNTED_CHARS])
    if cut or without_appended(kept) == reason:
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
    """Whether the slurmctld that started at ``slurmctld_at`` is the one that showed the drain.

    A running slurmctld loses no drain: if the drain is gone, somebody ended it.
    """
    if record.slurmctld_at is not None:
        return slurmctld_at == record.slurmctld_at
    return record.at is not None and slurmctld_at < record.at


def ended_before(past: Iterable[PastDrain], record: DrainRecord, slurmctld_at: datetime) -> bool:
    """Whether, according to accounting, somebody resumed the node after the recorded drain and before
    the slurmctld of ``slurmctld_at`` started. A drain that slurmctld lost with its state has no end there;
    one of somebody else does not hide a resume before it, nor does one that began under this slurmctld.
    """
    if record.at is None:
        return False
    since = record.at - timedelta(seconds=1)
    later = [
        drain
        for drain in past
        if since <= drain.start_at < slurmctld_at and not _lost(drain, record)
    ]
    last = max(later, key=lambda drain: drain.start_at, default=None)
    if last is None or last.end_at is None or last.replaced:
        return False
    return last.end_at < slurmctld_at


def _lost(drain: PastDrain, record: DrainRecord) -> bool:
    """Somebody else's drain that has no end although the node is not drained."""
    return drain.end_at is None and not _agents_own(drain.reason, record.reason)


def is_own_drain(record: DrainRecord | None, node: NodeView) -> bool:
    """True when the drain that the node has now is the one of the record."""
    if record is None or not node.drained_flag or node.reason_at is None:
        return False
    text = without_appended(node.reason)
    if text != record.reason:
        return False
    if text != node.reason:  # slurmctld appended to it: then it is the author
        return record.at is None or node.reason_at >= record.at
    if node.reason_user != record.actor:
        return False
    if record.at is None:
        return abs(node.reason_at - record.written_at) <= _UNREAD
    return node.reason_at == record.at
