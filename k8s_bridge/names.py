"""Every name that the bridge writes to Kubernetes.

They are stable: dashboards and other controllers depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "holdfast.dev/"

KEPT_LABELS = ("topology.", PREFIX)
"""How the labels begin that are kept of a Node."""

READY = "HoldfastSlurmReady"
"""Node condition: True while Slurm can use the node. A drain does not change it, as a cordon does not change
Ready."""
DRAINED = "HoldfastSlurmDrained"
"""Node condition: True while Slurm's DRAIN flag is set, by anyone."""
BUSY = "HoldfastSlurmBusy"
"""Node condition: True while a job or its epilog is on the node."""
MAINTENANCE = "HoldfastSlurmMaintenance"
"""Node condition: True while the node is in a maintenance reservation."""
REBOOTING = "HoldfastSlurmRebooting"
"""Node condition: True while Slurm is to reboot the node, or reboots it."""
POWER_SAVING = "HoldfastSlurmPowerSaving"
"""Node condition: True while Slurm's power saving has switched the node off, or is to switch it."""
ALWAYS = (READY, DRAINED, BUSY)
"""The conditions that every Node of a Slurm node has."""
WHEN_TRUE = (MAINTENANCE, REBOOTING, POWER_SAVING)
"""The conditions that a Node gets when they become True for the first time. Absent means False."""
CONDITIONS = (*ALWAYS, *WHEN_TRUE)

STATE_LABEL = PREFIX + "slurm-state"
"""Node label: Slurm's state as one word, e.g. ``idle``, ``mixed``, ``draining``, ``drained``, ``down``."""

ORIGIN = PREFIX + "origin"
"""Node annotation: the side on which the drain or cordon started, ``slurm`` or ``kubernetes``. Only that side
can end it."""
RECORD = PREFIX + "record"
"""Node annotation: JSON, what the bridge did and so may undo (``ownership.Record``)."""

KEEP_CORDONED = PREFIX + "keep-cordoned"
"""Node annotation that a person sets: the cordon is theirs too, and stays when the bridge's reason for it is
gone. ``kubectl cordon`` of a Node that is cordoned already writes nothing that the bridge could see."""

TAINT = PREFIX + "drained"
"""Taint key; its value is the code of Holdfast's drain reason, or the state for which ``bridge.isolate``
isolates the Node; its effect NoSchedule."""
TAINT_EFFECT = "NoSchedule"


def is_own_taint(taint: Mapping[str, Any]) -> bool:
    """A taint is identified by key and effect: with another effect, a person set it."""
    return (taint.get("key"), taint.get("effect")) == (TAINT, TAINT_EFFECT)


FIELD_MANAGER = "holdfast-bridge"
"""The field manager of the bridge's writes."""
REPORTER = PREFIX + "bridge"
"""``reportingController`` of the bridge's Events."""

RULES_LABEL = PREFIX + "rules"
"""Node label that people write: with the value ``off``, no rule applies to the Node."""

KUBE_RULE = "KUBE_RULE"
"""Code of the reason with which the bridge drains a node for a rule of ``bridge.rules``."""
KUBE_CORDON = "KUBE_CORDON"
"""Code of the reason with which the bridge drains a cordoned node."""

MAX_MESSAGE_BYTES = 1024
"""Limit for a condition's message and an Event's note (the API's limit for notes, in bytes of UTF-8)."""

SLURM, KUBERNETES = "slurm", "kubernetes"
"""The two sides, as a label of metrics."""
