"""Which drains and cordons are the bridge's own, and may be undone.

The proof is user, time and text together, never the text alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from holdfast.reason import Reason, without_appended
from holdfast.slurm.client import SlurmNode
from k8s_bridge.names import KUBE_CORDON, KUBE_RULE

# slurmctld's clock is read just before the drain is sent, so the reason's time is at most this much later
# than the time in its text.
_LATEST = timedelta(seconds=60)
_EARLIEST = timedelta(seconds=-2)
# Reasons that Slurm itself writes; a drain may overwrite them.
_SLURM_REASONS = ("", "none", "Not responding", "Node unexpectedly rebooted")


_FOLLOW_CORDONS = ("slurm-operator: ", "slurm-bridge:", "k8s: cordon")
"""The starts of the reasons with which other programs drain a node because its Node is cordoned:
slurm-operator's and slurm-bridge's (Slinky) and SUNK's."""
_OF_THE_POD = "slurm-operator: Pod "
"""slurm-operator's reasons for the end of a pod: they follow no cordon of the Node."""

CORDON = "cordon"
"""The cause of a drain that is no rule: the Node is cordoned."""
_OWN_CODES = (KUBE_CORDON, KUBE_RULE)


class Origin(str, Enum):
    """The side on which a drain or cordon started; the other side mirrors it."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeRecord:
    """What the bridge did on this Node for one drain, in the annotation ``holdfast.dev/record``.

    ``reason``, ``by``, ``at`` identify the Slurm drain: text, user, time (UTC); ``node`` is its Slurm
    node, empty in the records of earlier versions. For ``Origin.SLURM``,
    ``cordon`` and ``taint``: the bridge set them, and nobody has changed them since. For
    ``Origin.KUBERNETES`` the drain itself is the mirror, and ``causes`` are ``CORDON`` and the names of
    the rules that held while the node was drained. A cause among them does not drain the node again: a
    person has undrained it in spite of that cause.
    """

    origin: Origin
    reason: str
    by: str = ""
    at: datetime | None = None
    cordon: bool = False
    taint: bool = False
    causes: tuple[str, ...] = ()
    node: str = ""

    def dump(self) -> str:
        """The annotation's value."""
        at = self.at.astimezone(timezone.utc).isoformat() if self.at else None
        values: dict[str, object] = {
            "origin": self.origin.value,
            "reason": self.reason,
            "by": self.by,
            "at": at,
        }
        if self.node:
            values["node"] = self.node
        if self.origin is Origin.SLURM:
            values |= {"cordon": self.cordon, "taint": self.taint}
        elif self.causes not in ((), (CORDON,)):
            values["causes"] = list(self.causes)
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> BridgeRecord | None:
        """The record, or ``None`` if it is invalid: then nothing counts as the bridge's own."""
        try:
            values: dict[str, Any] = json.loads(text)
            at = datetime.fromisoformat(values["at"]) if values.get("at") else None
            origin = Origin(values["origin"])
            causes = tuple(map(str, values.get("causes") or (CORDON,)))
            return cls(
                origin=origin,
                reason=str(values["reason"]),
                by=str(values.get("by", "")),
                at=at if at is None or at.tzinfo else at.replace(tzinfo=timezone.utc),
                cordon=values.get("cordon") is True,
                taint=values.get("taint") is True,
                causes=causes if origin is Origin.KUBERNETES else (),
                node=str(values.get("node", "")),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @classmethod
    def of(
        cls,
        node: SlurmNode,
        origin: Origin,
        *,
        cordon: bool = False,
        taint: bool = False,
        causes: tuple[str, ...] = (),
    ) -> BridgeRecord:
        """The record of the present drain of ``node``."""
        return cls(
            origin=origin,
            reason=without_appended(node.reason),
            by=node.reason_user,
            at=node.reason_at,
            cordon=cordon,
            taint=taint,
            causes=causes,
            node=node.name,
        )


def same_drain(node: SlurmNode, record: BridgeRecord) -> bool:
    """Is the drain of ``node`` the recorded one? When Slurm appends to the reason (the node stops
    responding, or is rebooted), time and user change, but it is the same drain.
    """
    text = without_appended(node.reason)
    if text != record.reason:
        return False
    appended = text != node.reason
    return appended or (node.reason_user, node.reason_at) == (record.by, record.at)


def recorded(node: SlurmNode, record: BridgeRecord | None) -> BridgeRecord:
    """The record of the present drain, which is the bridge's own (``is_cordon_drain``)."""
    if record and record.origin is Origin.KUBERNETES and same_drain(node, record):
        return record
    return BridgeRecord.of(node, Origin.KUBERNETES, causes=(CORDON,))


def cordon_reason(clock: datetime) -> str:
    """The reason for nodes that are drained because they were cordoned; ``clock`` is slurmctld's.

    All nodes of one write get the same text, so that one hostlist is enough.
    """
    at = str(int(clock.timestamp()))
    return str(
        Reason(
            KUBE_CORDON,
            "cordoned in Kubernetes, kubectl uncordon returns it to service",
            {"at": at},
        )
    )


def rule_reason(name: str, clock: datetime, leave: Mapping[str, str] | None = None) -> str:
    """The reason for nodes that are drained for the rule ``name``, as ``cordon_reason``. ``leave``: what jobs
    are told (``holdfast.records.leave``); ``None``: they stay.
    """
    at = str(int(clock.timestamp()))
    detail = "a rule of bridge.rules holds for its Kubernetes node"
    return str(Reason(KUBE_RULE, detail, {"rule": name, **(leave or {}), "at": at}))


def is_own_reason(reason: Reason | None) -> bool:
    """Is it the text of a drain by the bridge? The text alone proves nothing."""
    return reason is not None and reason.code in _OWN_CODES


def is_cordon_drain(node: SlurmNode, record: BridgeRecord | None, actor: str) -> bool:
    """Did this bridge drain ``node``, for a cordon or a rule? Proof: the user, and the time in the text equals Slurm's.

    The proof needs no record, so a bridge that was killed right after its write recognizes its drain. Once
    Slurm has appended to the reason, user and time are Slurm's, and the record is the proof.
    """
    reason = Reason.parse(node.reason)
    if not node.drained_flag or reason is None or not is_own_reason(reason):
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


def follows_cordon(node: SlurmNode) -> bool:
    """Is it drained by a program that follows cordons of Nodes? Such a drain ends with the cordon, so a
    cordon by the bridge must not wait for the end of the drain."""
    return node.reason.startswith(_FOLLOW_CORDONS) and not node.reason.startswith(_OF_THE_POD)


def may_overwrite_reason(node: SlurmNode) -> bool:
    """May a drain's reason be written on this undrained node? Never over a person's reason.

    A reason of Holdfast's may be left there: an undrain of a DOWN node does not clear it.
    """
    return node.reason in _SLURM_REASONS or Reason.parse(node.reason) is not None
