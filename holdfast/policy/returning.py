"""What still stands between a node of ours and its return to service. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.policy.ownership import DrainRecord, NodeView
from holdfast.policy.situation import Limits, NodeSituation
from holdfast.vocabulary import Action, NodeState

_CANNOT_RETURN = {
    NodeState.DOWN,
    NodeState.FAIL,
    NodeState.ERROR,
    NodeState.INVALID_REG,
    NodeState.NOT_RESPONDING,
    NodeState.REBOOT_REQUESTED,  # somebody's `scontrol reboot ASAP` needs the same DRAIN flag
}


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
    if record.action is Action.CONTACT_SUPPORT:
        return "needs a person: resume it in Slurm once the hardware is repaired"
    if record.action is Action.REPLACE:
        return "" if replaced else "waits for its replacement (a new instance id)"
    if record.action is Action.REBOOT:
        return "" if rebooted or replaced else "waits for a reboot (a new boot id)"
    if record.action is Action.RESET_GPU:
        recovered = situation.gpu_recovered is True
        return "" if recovered or rebooted or replaced else "waits for a GPU reset or a reboot"
    since = record.at or record.written_at
    left = timedelta(seconds=limits.wait_s) - (now - since)
    return f"waits {left.total_seconds():.0f} s more" if left > timedelta(0) else ""


def done(action: Action) -> str:
    return {
        Action.RESET_GPU: "GPU reset or node rebooted",
        Action.REBOOT: "node rebooted",
        Action.REPLACE: "node replaced",
    }.get(action, "waited")
