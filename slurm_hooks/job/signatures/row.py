"""One row of the failure catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What failed. ``CASCADE`` is never a cause, ``PROGRESS`` is no failure at all."""

    GPU = "gpu"
    NETWORK = "network"
    HOST = "host"
    STORAGE = "storage"
    HOST_MEMORY = "host-memory"
    GPU_MEMORY = "gpu-memory"
    CODE = "code"
    DATA = "data"
    COLLECTIVE_TIMEOUT = "collective-timeout"
    NUMERIC = "numeric"
    HANG = "hang"
    CHECKPOINT = "checkpoint"
    ENVIRONMENT = "environment"
    SCHEDULER = "scheduler"
    CASCADE = "cascade"
    PROGRESS = "progress"


class Suspect(Enum):
    """Whether the node that printed the line is suspect."""

    YES = "yes"
    NO = "no"
    IF_REPEATED = "if-repeated"
    """Only when it comes again, or from one node of the job alone."""
    NAMED_RANK = "named-rank"
    """The node of the rank that the line names or misses: its printer is a victim."""
    BOTH_ENDS = "both-ends"
    ONE_NODE = "one-node"
    """The one node of several whose tasks failed by themselves: what they miss is missing there."""


class Retry(Enum):
    """What another attempt needs."""

    PLAIN = "plain"
    ONCE = "once"
    EXCLUDING = "excluding"
    AFTER_A_WHILE = "after-a-while"
    ROLLED_BACK = "rolled-back"
    """From a checkpoint before the newest one."""
    NEVER = "never"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Signature:
    """A pattern (``re.search``, one line) and what a line that it matches means."""

    code: str
    kind: Kind
    suspect: Suspect
    retry: Retry
    pattern: str
