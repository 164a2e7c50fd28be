"""Lines of the launcher that name a bad node: the fault that made Holdfast end or requeue the job.

Without them the last line of such a log is Slurm's ``CANCELLED … DUE TO JOB REQUEUE``, which is
Holdfast's own requeue and not the cause.
"""

from __future__ import annotations

import re
from functools import cache

from holdfast.faults import fault_of, severity_of
from holdfast.vocabulary import FaultClass, Severity
from slurm_hooks.job.signatures import Kind, Retry, Signature, Suspect

PREFIX = "holdfast: "

ATTEMPT = re.compile(r"^holdfast: attempt \d+ of job \d+ starts ")

_BAD_NODE = re.compile(
    r"^holdfast: (?:step ended|not started|decision: \w+): "
    r"bad node(?::| in this job:)? (?P<host>[A-Za-z0-9][\w.-]{0,252}) "
    r"\((?P<code>[A-Z][A-Z0-9_]{1,39})[:)]"
)
_HANG = re.compile(
    r"^holdfast: step ended: hang: (?:[^;]{1,200}; suspected: (?P<host>[A-Za-z0-9][\w.-]{0,252}))?"
)
HANG = Signature("HANG", Kind.HANG, Suspect.YES, Retry.ONCE, _HANG.pattern)
"""The launcher ended an attempt that made no progress (``holdfast run --hang-timeout``)."""
NODE_STATES = {
    "DOWN": "the node is DOWN in Slurm",
    "LOST": "the node lost the job's processes: it rebooted, or its pod was replaced",
}
"""Codes of the launcher's own for nodes that no check drained."""

_KINDS = {
    FaultClass.NETWORK: Kind.NETWORK,
    FaultClass.STORAGE: Kind.STORAGE,
    FaultClass.HOST: Kind.HOST,
    FaultClass.APPLICATION: Kind.CODE,
    FaultClass.HOLDFAST: Kind.HOST,
}


def node_fault_in(text: str) -> tuple[Signature, re.Match[str]] | None:
    """The fault of the node that a line of the launcher names, or a hang, and the match with its ``host``."""
    found = _BAD_NODE.match(text)
    if found:
        return signature_of(found["code"]), found
    hang = _HANG.match(text)
    return (HANG, hang) if hang else None


def is_confirmed(code: str, text: str) -> bool:
    """True for a line of the launcher with a fault for which work on the node is lost."""
    fatal = code in NODE_STATES or severity_of(code) is Severity.FATAL
    return fatal and text.startswith(PREFIX)


@cache
def signature_of(code: str) -> Signature:
    """A node fault as a row of the failure catalogue: the node is suspect, other nodes are not."""
    kind = Kind.HOST if code in NODE_STATES else _KINDS.get(fault_of(code).fault_class, Kind.GPU)
    return Signature(code, kind, Suspect.YES, Retry.EXCLUDING, _BAD_NODE.pattern)
