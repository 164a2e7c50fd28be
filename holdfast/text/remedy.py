"""What must happen to a node, as text: one for each ``Action``. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.vocabulary import Action

NEEDS: Mapping[Action, str] = {
    Action.NONE: "nothing",
    Action.RESTART_JOB: "restart the job; the node needs nothing",
    Action.WAIT: "no action: the fault clears by itself",
    Action.RESET_GPU: "a GPU reset (nvidia-smi -r) or a reboot",
    Action.REBOOT: "a reboot",
    Action.REPLACE: "another machine",
    Action.CONTACT_SUPPORT: "a person: open a case, then resume the node in Slurm",
}
"""What must happen before a node returns to service, as the object of "needs"."""

DO: Mapping[Action, str] = {
    Action.WAIT: "Wait until the fault is gone",
    Action.RESET_GPU: "Reset the GPU or reboot the node",
    Action.REBOOT: "Reboot the node",
    Action.REPLACE: "Replace the node or the GPU",
    Action.CONTACT_SUPPORT: "Have the hardware repaired",
}
"""The same as an instruction, where there is something to do."""


def to_do(code: str, runbook: str, usual: Action, required: Action | None) -> str:
    """The runbook of a fault, after the ``required`` action where it is not the fault's ``usual`` one.

    An Xid 63 requires nothing, unless the driver requires a GPU reset for it.
    """
    if required is None or required is usual or required not in DO:
        return runbook
    return f"{DO[required]}. {code} by itself: {runbook}"
