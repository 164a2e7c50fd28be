"""Groups of Slurm node states, each with the question that it answers. Pure.

Source: slurm.h (``enum node_states``, ``NODE_STATE_*``) and "NODE STATE CODES" in sinfo(1). A node has
one base state and any number of flags, so each group is meant for ``node.states & GROUP``.
"""

from __future__ import annotations

from holdfast.vocabulary import NodeState

_S = NodeState

NOT_DEFINED = frozenset({_S.FUTURE, _S.DYNAMIC_FUTURE})
"""Is it only a placeholder of slurm.conf? No machine registered for it: it does not count as a node."""

NO_STATE = frozenset({_S.UNKNOWN, _S.FUTURE})
"""Has slurmctld no state for it yet? Nothing can be concluded about such a node."""

BUSY = frozenset({_S.ALLOCATED, _S.MIXED, _S.COMPLETING, _S.BLOCKED})
"""Is a job, or the epilog of one, on the node?"""

FAILED = frozenset({_S.DOWN, _S.FAIL, _S.ERROR})
"""Did Slurm or a person take it out of service without the DRAIN flag?"""

POWERED_OFF = frozenset({_S.POWERED_DOWN, _S.POWERING_DOWN})
"""Has Slurm's power saving switched it off, or is it doing so?"""

OUT_OF_SERVICE = (
    FAILED | POWERED_OFF | {_S.DRAIN, _S.MAINTENANCE, _S.INVALID_REG, _S.NOT_RESPONDING}
)
"""Does it accept no new job, for whatever reason?"""

JOBS_LOST = POWERED_OFF | {_S.DOWN, _S.FAIL}
"""Are the processes of its jobs gone?"""

CANNOT_RETURN = FAILED | {_S.INVALID_REG, _S.NOT_RESPONDING, _S.REBOOT_REQUESTED}
"""Does more than the DRAIN flag keep it out of service? An undrain would not return it. A requested
reboot (``scontrol reboot ASAP``) needs that flag itself."""

CANNOT_RUN_JOBS = (
    FAILED
    | POWERED_OFF
    | {
        *(_S.NOT_RESPONDING, _S.POWERING_UP, _S.INVALID_REG, _S.FUTURE, _S.UNKNOWN),
        *(_S.REBOOT_ISSUED, _S.REBOOT_REQUESTED),
    }
)
"""Would Slurm start no job on it, not even one inside a reservation?"""
