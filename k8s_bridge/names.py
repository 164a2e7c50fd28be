"""Every name that the bridge writes into Kubernetes.

Fixed: dashboards and other controllers rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "holdfast.dev/"

READY = "HoldfastSlurmReady"
"""Node condition: True while Slurm can use the node.

A drain does not change it, as a cordon does not change Ready.
"""
DRAINED = "HoldfastSlurmDrained"
"""Node condition: True while Slurm's DRAIN flag is set, whoever set it."""
BUSY = "HoldfastSlurmBusy"
"""Node condition: True while a job or its epilog is on the node."""
CONDITIONS = (READY, DRAINED, BUSY)

STATE_LABEL = PREFIX + "slurm-state"
"""Node label: Slurm's state as one word, e.g.

``idle``, ``mixed``, ``draining``, ``drained``, ``down``.
"""

ORIGIN = PREFIX + "origin"
"""Node annotation: where the mirrored fact came from, ``slurm`` or ``kubernetes``.

A mirror is never a source.
"""
RECORD = PREFIX + "record"
"""Node annotation: JSON, what the bridge did for that origin and so may undo (ownership.Record)."""

TAINT = PREFIX + "drained"
"""Taint key; its value is the code of Holdfast's drain reason, its effect NoSchedule."""
TAINT_EFFECT = "NoSchedule"


def is_our_taint(taint: Mapping[str, Any]) -> bool:
    """A taint is its key and its effect: with another effect it is one that a person set beside ours."""
    return (taint.get("key"), taint.get("effect")) == (TAINT, TAINT_EFFECT)


FIELD_MANAGER = "holdfast-bridge"
"""Who the API server records as writer of each field."""
REPORTER = PREFIX + "bridge"
"""``reportingController`` of our Events."""

KUBE_CORDON = "KUBE_CORDON"
"""Code of the reason with which the bridge drains a node that somebody cordoned."""

MAX_MESSAGE_BYTES = 1024
"""Cap of a condition's message and of an Event's note (the API's own limit for notes, in UTF-8)."""
