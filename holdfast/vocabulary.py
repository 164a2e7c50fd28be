"""The terms of the field as types: severity, action, mode, status and node state."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NewType

SlurmName = NewType("SlurmName", str)
"""NodeName in slurm.conf; equals the worker pod's name on Soperator."""

KubeName = NewType("KubeName", str)
"""Name of the Kubernetes Node object; equals Slurm's InstanceId on Soperator."""


class Severity(IntEnum):
    """How bad a finding is, ordered so that ``max`` is the worst."""

    INFO = 0
    """Recorded only; no statement about the node."""
    WARN = 1
    """Degraded: running jobs go on, and new jobs should not start on the node."""
    FATAL = 2
    """Work on this node is lost or wrong: it has to leave service at once."""


class Action(str, Enum):
    """What a fault requires before the node may return to service, weakest first."""

    NONE = "none"
    RESTART_JOB = "restart-job"
    WAIT = "wait"
    """Only time: the fault clears without an action on the node (a full disk, a hot GPU, a lost mount)."""
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    REPLACE = "replace"
    CONTACT_SUPPORT = "contact-support"


class FaultClass(str, Enum):
    """The part that is at fault."""

    APPLICATION = "application"
    GPU = "gpu"
    LINK = "link"
    SWITCH = "switch"
    DRIVER = "driver"
    NETWORK = "network"
    STORAGE = "storage"
    HOST = "host"
    HOLDFAST = "holdfast"


class Mode(str, Enum):
    """What a check may do with its findings (rule 5: every check starts in mode observe)."""

    OFF = "off"
    OBSERVE = "observe"
    COMMENT = "comment"
    DRAIN = "drain"


class Status(str, Enum):
    """The node verdict in one word; the first word of the verdict file."""

    OK = "ok"
    SUSPECT = "suspect"
    BAD = "bad"
    BLIND = "blind"


class Context(str, Enum):
    """The hook that reads the verdict. Checks do not depend on it: they run only in the agent."""

    PROLOG = "prolog"
    EPILOG = "epilog"


NODE_IN_SERVICE = 0
"""Exit status of a hook: leave the node in service."""

NODE_BAD = 10
"""Exit status of a hook: the node is bad. Any other status is an internal error and counts as 0."""

DO_NOT_REQUEUE = 93
"""Exit code with which a job requests that it is not requeued (as in NVRx)."""


class NodeState(str, Enum):
    """Every base state and flag that Slurm 24.11 to 26.05 prints for a node.

    Source: slurm.h ``enum node_states`` and ``NODE_STATE_*``; names as in ``scontrol show node``.
    """

    # base states
    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"
    # flags
    EXTERNAL = "EXTERNAL"
    RESERVED = "RESERVED"
    UNDRAIN = "UNDRAIN"
    CLOUD = "CLOUD"
    RESUME = "RESUME"
    DRAIN = "DRAIN"
    COMPLETING = "COMPLETING"
    NOT_RESPONDING = "NOT_RESPONDING"
    POWERED_DOWN = "POWERED_DOWN"
    FAIL = "FAIL"
    POWERING_UP = "POWERING_UP"
    MAINTENANCE = "MAINTENANCE"
    REBOOT_REQUESTED = "REBOOT_REQUESTED"
    REBOOT_CANCELED = "REBOOT_CANCELED"
    POWERING_DOWN = "POWERING_DOWN"
    DYNAMIC_FUTURE = "DYNAMIC_FUTURE"
    REBOOT_ISSUED = "REBOOT_ISSUED"
    PLANNED = "PLANNED"
    INVALID_REG = "INVALID_REG"
    POWER_DOWN = "POWER_DOWN"
    POWER_UP = "POWER_UP"
    POWER_DRAIN = "POWER_DRAIN"
    DYNAMIC_NORM = "DYNAMIC_NORM"
    BLOCKED = "BLOCKED"
