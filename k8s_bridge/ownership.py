"""Whose is it? What the bridge may undo, told by actor, time and text together, never by text
alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from holdfast.reason import Reason, without_appended
from holdfast.slurm.client import SlurmNode
from k8s_bridge.names import KUBE_CORDON

# slurmctld's clock is read just before the drain is sent, so its time stamp lies this little behind
# the text's.
_LATEST = timedelta(seconds=60)
_EARLIEST = timedelta(seconds=-2)
# What Slurm itself says of a node; nobody's words, so a drain may take their place.
_SLURMS_OWN_WORDS = ("", "none", "Not responding", "Node unexpectedly rebooted")


class Origin(str, Enum):
    """The side on which a fact began; the other side carries its mirror."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one drain led to on this Node, kept in the annotation ``holdfast.dev/record``.

    ``reason``, ``by``, ``at`` name the Slurm drain: text, actor, time (UTC). For ``Origin.SLURM``,
    ``cordon`` and ``taint`` say what the bridge set and nobody has taken over since. For
    ``Origin.KUBERNETES`` the drain is the mirror.
    """

    origin: Origin
    reason: str
    by: str = ""
    at: datetime | None = None
    cordon: bool = False
    taint: bool = False

    def dump(self) -> str:
        """The annotation's value."""
        at = self.at.astimezone(timezone.utc).isoformat() if self.at else None
        values: dict[str, object] = {
            "origin": self.origin.value,
            "reason": self.reason,
            "by": self.by,
            "at": at,
        }
        if self.origin is Origin.SLURM:
            values |= {"cordon": self.cordon, "taint": self.taint}
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> Record | None:
        """The record, or ``None`` where it was edited beyond recognition: then nothing is provably
        ours.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            at = datetime.fromisoformat(values["at"]) if values.get("at") else None
            return cls(
                origin=Origin(values["origin"]),
                reason=str(values["reason"]),
                by=str(values.get("by", "")),
                at=at if at is None or at.tzinfo else at.replace(tzinfo=timezone.utc),
                cordon=values.get("cordon") is True,
                taint=values.get("taint") is True,
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @classmethod
    def of(
        cls, node: SlurmNode, origin: Origin, *, cordon: bool = False, taint: bool = False
    ) -> Record:
        """The record of the drain that ``node`` carries now."""
        return cls(
            origin=origin,
            reason=without_appended(node.reason),
            by=node.reason_user,
            at=node.reason_at,
            cordon=cordon,
            taint=taint,
        )


def same_drain(node: SlurmNode, record: Record) -> bool:
    """Is the drain on ``node`` the one on record? What Slurm appends (the node is lost, or rebooted)
    brings a new time and actor, not a new drain.
    """
    text = without_appended(node.reason)
    if text != record.reason:
        return False
    appended = text != node.reason
    return appended or (node.reason_user, node.reason_at) == (record.by, record.at)


def cordon_reason(clock: datetime) -> str:
    """The reason for nodes drained because somebody cordoned them; ``clock`` is slurmctld's.

    The same text for all nodes of one write, so that they go to Slurm as one hostlist.
    """
    at = str(int(clock.timestamp()))
    return str(
        Reason(KUBE_CORDON, "cordoned in Kubernetes, kubectl uncordon gives it back", {"at": at})
    )


def is_cordon_drain(node: SlurmNode, record: Record | None, actor: str) -> bool:
    """Did this bridge drain ``node`` for a cordon? Proof: actor, and the text's own time equals
    Slurm's.

    The proof needs no record, so a bridge that died right after its write still knows its own. Once
    Slurm has appended words of its own the actor and time are Slurm's, and the record vouches for the
    text.
    """
    reason = Reason.parse(node.reason)
    if not node.drained_flag or reason is None or reason.code != KUBE_CORDON:
        return False
    if record and record.origin is Origin.KUBERNETES and same_drain(node, record):
        return record.by == actor
    return node.reason_user == actor and _stamped_then(reason, node.reason_at)


def _stamped_then(reason: Reason, reason_at: datetime | None) -> bool:
    stamp = reason.pairs.get("at", "")
    if reason_at is None or not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        return False
    lag = reason_at.timestamp() - int(stamp)
    return _EARLIEST.total_seconds() <= lag <= _LATEST.total_seconds()


def may_take(node: SlurmNode) -> bool:
    """May a drain's reason be written on this undrained node? Not over words of a human.

    Words of ours may be there: lifting the drain of a node that is down leaves them behind.
    """
    return node.reason in _SLURMS_OWN_WORDS or Reason.parse(node.reason) is not None
