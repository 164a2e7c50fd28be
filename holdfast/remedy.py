"""What must happen to a node, in words: one for each ``Action``. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.vocabulary import Action

NEEDS: Mapping[Action, str] = {
    Action.NONE: "nothing",
    Action.RESTART_JOB: "restart the job; the node needs nothing",
    Action.WAIT: "nothing but time: it clears by itself",
    Action.RESET_GPU: "a GPU reset (nvidia-smi -r) or a reboot",
    Action.REBOOT: "a reboot",
    Action.REPLACE: "another machine",
    Action.CONTACT_SUPPORT: "a person: open a case, then resume the node in Slurm",
}
"""What must happen before a node returns, as people say it."""

DO: Mapping[Action, str] = {
    Action.WAIT: "Nothing but time, until the fault is gone",
    Action.RESET_GPU: "Reset the GPU or reboot the node",
    Action.REBOOT: "Reboot the node",
    Action.REPLACE: "Replace the node or the GPU",
    Action.CONTACT_SUPPORT: "Have the hardware repaired",
}
"""The same as an order, where there is something to do."""


def to_do(code: str, runbook: str, by_itself: Action, asked: Action | None) -> str:
    """The runbook of a fault, unless something else is asked for here than ``by_itself``, what the
    code alone asks for: an Xid 63 wants nothing, until the driver wants the GPU reset for it.
    """
    if asked is None or asked is by_itself or asked not in DO:
        return runbook
    return f"{DO[asked]}. {code} by itself: {runbook}"
