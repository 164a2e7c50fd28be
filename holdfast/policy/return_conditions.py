"""What still stands between a node of ours and its return to service. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.policy import flap_damping
from holdfast.policy.node_inputs import Limits, NodeSituation
from holdfast.policy.ownership import DrainRecord, NodeView
from holdfast.vocabulary import Action, NodeState

_CANNOT_RETURN = {
    NodeState.DOWN,
    NodeState.FAIL,
    NodeState.ERROR,
    NodeState.INVALID_REG,
    NodeState.NOT_RESPONDING,
    NodeState.REBOOT_REQUESTED,  # somebody's `scontrol reboot ASAP` needs the same DRAIN flag
}

_ASKS_MORE = {Action.REPLACE, Action.REBOOT, Action.RESET_GPU}
"""Once that has happened, time by itself is not waited for."""


def not_yet(
    situation: NodeSituation, node: NodeView, record: DrainRecord, limits: Limits, now: datetime
) -> str:
    """What still stands against giving our node back; empty: nothing."""
    if situation.verdict.blind:
        return f"cannot look ({', '.join(situation.verdict.blind)})"
    stuck = sorted(state.value for state in node.states & _CANNOT_RETURN)
    if stuck:
        return f"Slurm holds it for another cause ({'+'.join(stuck)})"
    waiting = waits_for(situation, node, record, limits, now)
    if waiting:
        return waiting
    if situation.clean_passes < limits.recheck_passes:
        return f"re-check {situation.clean_passes} of {limits.recheck_passes}"
    return ""


def waits_for(
    situation: NodeSituation, node: NodeView, record: DrainRecord, limits: Limits, now: datetime
) -> str:
    """What the fault asked for and has not happened; empty: it has."""
    rebooted = bool(record.boot_id and situation.boot_id) and situation.boot_id != record.boot_id
    replaced = (
        bool(record.instance_id and node.instance_id) and node.instance_id != record.instance_id
    )
    if record.by_hand and not replaced:
        within = flap_damping.span(limits.return_window_s)
        return (
            f"needs a person: it returned {flap_damping.times(record.returns)} in {within}; find out why it comes and "
            "goes, then resume it in Slurm"
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
    returns = 0 if replaced else record.returns
    if record.action in _ASKS_MORE and not returns:
        return ""
    since = record.at or record.written_at
    left = timedelta(seconds=flap_damping.wait_s(returns, limits)) - (now - since)
    if left <= timedelta(0):
        return ""
    often = f", as it returned {flap_damping.times(returns)} before" if returns else ""
    return f"waits {left.total_seconds():.0f} s more{often}"


def done(action: Action) -> str:
    return {
        Action.RESET_GPU: "GPU reset or node rebooted",
        Action.REBOOT: "node rebooted",
        Action.REPLACE: "node replaced",
    }.get(action, "waited")
