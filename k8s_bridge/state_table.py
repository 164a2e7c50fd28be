"""Every base state and flag of Slurm: how Kubernetes shows it, and whether policy may isolate the Node. Pure.

The only list of this kind: conditions, label and policy follow it, and docs/reference/node-states.md is written
from it. Source: slurm.h (``enum node_states``, ``NODE_STATE_*``) and "NODE STATE CODES" in sinfo(1), of
24.11 to 26.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from holdfast.vocabulary import NodeState
from k8s_bridge.names import BUSY, DRAINED, MAINTENANCE, POWER_SAVING, READY, REBOOTING


class Isolation(str, Enum):
    """What the bridge does to the Node of a Slurm node in some state."""

    NONE = "none"
    """Only show the state."""
    TAINT = "taint"
    """Taint the Node ``holdfast.dev/drained=STATE:NoSchedule``."""
    CORDON = "cordon"
    """Cordon it, and taint it too."""


class Shown(NamedTuple):
    """A condition with this status and reason."""

    condition: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One state. For each condition, the first row of the table whose state the node has counts.

    ``label``: the word of the label ``holdfast.dev/slurm-state``; empty: another state of the node gives it.
    ``on_idle``: that word only replaces ``idle``, as sinfo does. ``may_isolate``: ``bridge.isolate`` may
    name it. ``meaning``: what it means for the node and what the bridge does, one sentence.
    """

    state: NodeState
    meaning: str
    shown: tuple[Shown, ...] = ()
    label: str = ""
    on_idle: bool = False
    may_isolate: bool = False


_S = NodeState

TABLE: tuple[StateRow, ...] = (
    StateRow(
        state=_S.UNKNOWN,
        shown=(Shown(READY, "Unknown", "Unknown"),),
        label="unknown",
        on_idle=True,
        meaning="slurmctld knows nothing about it yet: all conditions are Unknown, and no action follows",
    ),
    StateRow(
        state=_S.FUTURE,
        shown=(Shown(READY, "Unknown", "Future"),),
        label="future",
        on_idle=True,
        meaning="a placeholder of slurm.conf: all conditions are Unknown, and no action follows",
    ),
    StateRow(
        state=_S.DYNAMIC_FUTURE,
        shown=(Shown(READY, "Unknown", "Future"),),
        meaning="a placeholder that a dynamic node has taken or may take",
    ),
    StateRow(
        state=_S.REBOOT_ISSUED,
        shown=(Shown(READY, "False", "Rebooting"), Shown(REBOOTING, "True", "Issued")),
        label="rebooting",
        may_isolate=True,
        meaning="Slurm is rebooting it: that it does not respond is expected",
    ),
    StateRow(
        state=_S.POWERED_DOWN,
        shown=(Shown(READY, "False", "PoweredDown"), Shown(POWER_SAVING, "True", "PoweredDown")),
        label="powered-down",
        may_isolate=True,
        meaning="power saving has switched it off: a missing Node is no fault",
    ),
    StateRow(
        state=_S.POWERING_DOWN,
        shown=(Shown(READY, "False", "PoweringDown"), Shown(POWER_SAVING, "True", "PoweringDown")),
        label="powering-down",
        may_isolate=True,
        meaning="power saving is switching it off",
    ),
    StateRow(
        state=_S.POWERING_UP,
        shown=(Shown(READY, "False", "PoweringUp"), Shown(POWER_SAVING, "True", "PoweringUp")),
        label="powering-up",
        may_isolate=True,
        meaning="Slurm is starting it, for at most ResumeTimeout",
    ),
    StateRow(
        state=_S.INVALID_REG,
        shown=(Shown(READY, "False", "InvalidRegistration"),),
        may_isolate=True,
        meaning="its slurmd registered with other resources than slurm.conf has; Slurm refuses to undrain it",
    ),
    StateRow(
        state=_S.DOWN,
        shown=(Shown(READY, "False", "Down"),),
        label="down",
        may_isolate=True,
        meaning="Slurm or a person took it out of service; its jobs have ended",
    ),
    StateRow(
        state=_S.ERROR,
        shown=(Shown(READY, "False", "Error"),),
        label="error",
        may_isolate=True,
        meaning="in error, as a person or plugin set it",
    ),
    StateRow(
        state=_S.FAIL,
        shown=(Shown(READY, "False", "Fail"),),
        label="fail",
        may_isolate=True,
        meaning="a person expects it to fail: no new jobs",
    ),
    StateRow(
        state=_S.NOT_RESPONDING,
        shown=(Shown(READY, "Unknown", "NotResponding"),),
        may_isolate=True,
        meaning="its slurmd does not answer; after SlurmdTimeout it is DOWN. No fault on an EXTERNAL node",
    ),
    StateRow(
        state=_S.DRAIN,
        shown=(Shown(DRAINED, "True", "Drained"),),
        label="drained",
        may_isolate=True,
        meaning="no new jobs. `draining` and the reason Draining while a job is there. `bridge.isolate` is "
        "about the drains of others; for Holdfast's own see `bridge.cordon` and `bridge.taint`",
    ),
    StateRow(
        state=_S.REBOOT_REQUESTED,
        shown=(Shown(REBOOTING, "True", "Requested"),),
        may_isolate=True,
        meaning="Slurm reboots it when its jobs have ended; an undrain would not return it",
    ),
    StateRow(
        state=_S.POWER_DRAIN,
        shown=(Shown(POWER_SAVING, "True", "PowerDrain"),),
        may_isolate=True,
        meaning="Slurm switches it off when its jobs have ended; no new jobs",
    ),
    StateRow(
        state=_S.POWER_DOWN,
        shown=(Shown(POWER_SAVING, "True", "PowerDownRequested"),),
        may_isolate=True,
        meaning="somebody requested that Slurm switches it off",
    ),
    StateRow(
        state=_S.POWER_UP,
        shown=(Shown(POWER_SAVING, "True", "PowerUpRequested"),),
        meaning="somebody requested that Slurm starts it",
    ),
    StateRow(
        state=_S.COMPLETING,
        shown=(Shown(BUSY, "True", "Completing"),),
        label="completing",
        meaning="a job has ended and its epilog may still run: busy",
    ),
    StateRow(
        state=_S.ALLOCATED,
        shown=(Shown(BUSY, "True", "Allocated"),),
        label="allocated",
        on_idle=True,
        meaning="jobs have all of its CPUs",
    ),
    StateRow(
        state=_S.MIXED,
        shown=(Shown(BUSY, "True", "Allocated"),),
        label="mixed",
        on_idle=True,
        meaning="jobs have some of its CPUs",
    ),
    StateRow(
        state=_S.MAINTENANCE,
        shown=(Shown(READY, "True", "Maintenance"), Shown(MAINTENANCE, "True", "Reserved")),
        label="maint",
        on_idle=True,
        may_isolate=True,
        meaning="in a maintenance reservation: other jobs do not start, and the bridge returns nothing",
    ),
    StateRow(
        state=_S.RESERVED,
        shown=(Shown(READY, "True", "Reserved"),),
        label="reserved",
        on_idle=True,
        meaning="in a reservation: only jobs of the reservation start",
    ),
    StateRow(
        state=_S.BLOCKED,
        shown=(Shown(BUSY, "True", "Blocked"),),
        label="blocked",
        on_idle=True,
        meaning="a job that has its block of the topology for itself keeps it free: counts as busy",
    ),
    StateRow(
        state=_S.PLANNED,
        shown=(Shown(BUSY, "False", "Planned"),),
        meaning="a pending job is going to start here. Shown only with `bridge.show_planned`, because it "
        "changes with each pass of the scheduler",
    ),
    StateRow(state=_S.IDLE, label="idle", on_idle=True, meaning="free"),
    StateRow(
        state=_S.UNDRAIN, meaning="an undrain is under way: DRAIN beside it does not count any more"
    ),
    StateRow(state=_S.RESUME, meaning="a resume is under way"),
    StateRow(state=_S.REBOOT_CANCELED, meaning="a requested reboot was cancelled"),
    StateRow(state=_S.CLOUD, meaning="may be switched off: a missing Node is no fault then"),
    StateRow(
        state=_S.DYNAMIC_NORM, meaning="registered itself; Slurm may forget it when it is gone"
    ),
    StateRow(
        state=_S.EXTERNAL,
        meaning="has no slurmd, so NOT_RESPONDING is not counted against it",
    ),
)

ROWS: Mapping[NodeState, StateRow] = {row.state: row for row in TABLE}

ISOLATABLE = tuple(row.state.value for row in TABLE if row.may_isolate)
"""The states that ``bridge.isolate`` may name. All others leave a node in service."""


def first_shown(states: frozenset[NodeState], condition: str) -> tuple[NodeState, Shown] | None:
    """What the first row for ``condition`` says of a node with these states; ``None``: no row does."""
    return next(
        (
            (row.state, shown)
            for row in TABLE
            if row.state in states
            for shown in row.shown
            if shown.condition == condition
        ),
        None,
    )


def counted(states: frozenset[NodeState]) -> frozenset[NodeState]:
    """The states without those that another one cancels."""
    gone = set[NodeState]()
    if _S.EXTERNAL in states:
        gone.add(_S.NOT_RESPONDING)
    if _S.UNDRAIN in states:
        gone.add(_S.DRAIN)
    return states - gone if gone else states


def isolating(
    states: frozenset[NodeState], policy: Mapping[str, Isolation]
) -> tuple[NodeState, Isolation] | None:
    """The first state in the table's order for which policy isolates the Node; ``None``: there is none."""
    if not policy:
        return None
    found = counted(states)
    for row in TABLE:
        wanted = policy.get(row.state.value, Isolation.NONE)
        if row.state in found and row.may_isolate and wanted is not Isolation.NONE:
            return row.state, wanted
    return None
