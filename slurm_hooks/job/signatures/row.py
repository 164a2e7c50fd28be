"""One row of the failure catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What failed. ``CASCADE`` is a consequence, never a cause; ``PROGRESS`` is not a failure."""

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
    """Which node the line makes suspect."""

    YES = "yes"
    NO = "no"
    IF_REPEATED = "if-repeated"
    """The node that printed the line, if the line is repeated or comes from one node only."""
    NAMED_RANK = "named-rank"
    """The node of the rank that the line names; the node that printed the line is a victim."""
    BOTH_ENDS = "both-ends"
    ONE_NODE = "one-node"
    """The only node of several whose tasks failed: the missing file is missing only there."""


class Retry(Enum):
    """Whether and how to retry."""

    PLAIN = "plain"
    ONCE = "once"
    EXCLUDING = "excluding"
    AFTER_A_WHILE = "after-a-while"
    ROLLED_BACK = "rolled-back"
    """From a checkpoint before the newest one."""
    NEVER = "never"
    """Not without a person: the job is held."""
    NOT_AT_ALL = "not-at-all"
    """The program itself must be corrected: the job fails."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Signature:
    """A pattern for one line (``re.search``) and the meaning of a line that matches."""

    code: str
    kind: Kind
    suspect: Suspect
    retry: Retry
    pattern: str
