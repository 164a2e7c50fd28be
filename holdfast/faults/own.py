"""Faults of one kind: what Holdfast says of itself and of its own part in Slurm."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN, _INFO = Severity.FATAL, Severity.WARN, Severity.INFO

OWN_FAULTS: tuple[Fault, ...] = (
    row(
        "KMSG_LOST", "kernel messages were lost before they were read",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "An Xid may have been among them: run holdfast check on the node.", "Linux /dev/kmsg",
    ),
    row(
        "PROBE_BLIND", "a probe gave no answer several times in a row",
        (_WARN, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast check on the node and read the agent's log.", "law 2 of the design",
        by_users=True,
    ),
    row(
        "STATE_UNWRITABLE", "the agent's state folder takes no writes",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "Make room on the node's disk, or see why it is read-only or does not answer. The node is drained and "
        "given back as ever; a power loss now would make the agent forget which drain is its own.", OWN,
    ),
    row(
        "RETURN_UNCONFIRMED", "nobody can tell what the node's last return ended",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "Start slurmdbd. If somebody drained the node in the second of its return, that drain is set again then; "
        "without accounting, ask who changed nodes at that time.", OWN,
    ),
    row(
        "PROLOG", "the prolog refused the node", (_FATAL, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast explain on the node.", OWN,
    ),
    row(
        "EPILOG", "the epilog refused the node", (_FATAL, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast explain on the node.", OWN,
    ),
    row(
        "KUBE_CORDON", "the Kubernetes node is cordoned",
        (_INFO, FaultClass.HOLDFAST, Action.NONE, True),
        "kubectl uncordon gives it back.", OWN,
    ),
)  # fmt: skip
