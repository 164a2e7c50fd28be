"""Faults of one kind: Holdfast itself and its hooks in Slurm."""

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
        "Run holdfast check on the node and read the agent's log.", "rule 2 of Holdfast",
        by_users=True,
    ),
    row(
        "STATE_UNWRITABLE", "the agent's state folder cannot be written",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "Free space on the node's disk, or find out why it is read-only or does not respond. The node is drained and "
        "returned to service as usual; after a power loss the agent would not recognize its own drain.", OWN,
    ),
    row(
        "RETURN_UNCONFIRMED", "accounting does not show which drain the last return ended",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "Start slurmdbd. If somebody drained the node in the second of its return, that drain is set again; "
        "without accounting, find out who changed nodes at that time.", OWN,
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
        "kubectl uncordon returns it to service.", OWN,
    ),
    row(
        "KUBE_RULE", "a rule of the bridge holds for the Kubernetes node",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, True),
        "kubectl describe node shows the condition or taint. The bridge returns the node when it is gone.", OWN,
    ),
)  # fmt: skip
