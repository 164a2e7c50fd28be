"""The conditions under which a node that Holdfast drained returns to service. Pure."""

from __future__ import annotations

from datetime import timedelta

from holdfast.node_states import CANNOT_RETURN
from holdfast.policy import flap_damping
from holdfast.policy.node_inputs import NodeSituation
from holdfast.policy.ownership import DrainRecord
from holdfast.vocabulary import Action

_REQUIRES_ACTION = {Action.REPLACE, Action.REBOOT, Action.RESET_GPU}
"""Once the action has happened, there is no minimum time out of service."""


def blocking_condition(situation: NodeSituation, record: DrainRecord) -> str:
    """Why the node, drained as in ``record``, may not return to service yet. Empty if it may."""
    inputs, limits = situation.inputs, situation.limits
    # Without an answer nobody knows whether the fault is over (rule 2).
    if inputs.verdict.blind:
        return f"no answer from probes ({', '.join(inputs.verdict.blind)})"
    states = sorted(state.value for state in situation.node.states & CANNOT_RETURN)
    if states:
        return f"Slurm keeps it out of service for another cause ({'+'.join(states)})"
    waiting = pending_requirement(situation, record)
    if waiting:
        return waiting
    if inputs.clean_passes < limits.recheck_passes:
        return f"re-check {inputs.clean_passes} of {limits.recheck_passes}"
    return ""


def pending_requirement(situation: NodeSituation, record: DrainRecord) -> str:
    """What the fault of ``record`` requires and has not happened yet. Empty if nothing is missing."""
    node, limits = situation.node, situation.limits
    rebooted = bool(record.boot_id and situation.boot_id) and situation.boot_id != record.boot_id
    replaced = (
        bool(record.instance_id and node.instance_id) and node.instance_id != record.instance_id
    )
    if record.by_hand and not replaced:
        within = flap_damping.span(limits.return_window_s)
        return (
            f"needs a person: it returned {flap_damping.times(record.returns)} in {within}; find the "
            "cause, then resume it in Slurm"
        )
    if record.action is Action.CONTACT_SUPPORT:
        return "needs a person: resume it in Slurm once the hardware is repaired"
    if record.action is Action.REPLACE and not replaced:
        return "waits for its replacement (a new instance id)"
    if record.action is Action.REBOOT and not (rebooted or replaced):
        return "waits for a reboot (a new boot id)"
    recovered = situation.gpu_recovered is True
    if record.action is Action.RESET_GPU and not (recovered or rebooted or replaced):
        return "waits for a GPU reset or a reboot"
    # Another machine starts with a clean record.
    returns = 0 if replaced else record.returns
    if record.action in _REQUIRES_ACTION and not returns:
        return ""
    since = record.at or record.written_at
    left = timedelta(seconds=flap_damping.wait_s(returns, limits)) - (situation.now - since)
    if left <= timedelta(0):
        return ""
    often = f", as it returned {flap_damping.times(returns)} before" if returns else ""
    return f"waits {left.total_seconds():.0f} s more{often}"


def fulfilled_requirement(action: Action) -> str:
    """What has happened to a node whose fault required ``action``."""
    return {
        Action.RESET_GPU: "GPU reset or node rebooted",
        Action.REBOOT: "node rebooted",
        Action.REPLACE: "node replaced",
    }.get(action, "waited")
