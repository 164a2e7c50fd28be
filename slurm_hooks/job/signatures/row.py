"""One row of the failure catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

AT_START = (
    r"^(?:(?:\[[^\]]{1,80}\]|<[^>]{1,80}>|\([\w ]{1,40}pid=[^)]{1,80}\)):?\s*"
    r"|(?:ERROR|CRITICAL) [\d-]{5,10} [\d:.,]{8,15} \[?[\w.]{1,60}:\d{1,6}\]\s*"
    r"|20\d\d-\d\d-\d\d[T ][\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?"
    r"|[\w.-]{1,60}/\d{1,6} "
    r"|\d{1,6}:\s*|[\w.-]*\d[\w.-]{0,60}:\s+|\|\s*){0,4}"
)
"""The beginning of a line, after what tells the rank or the host: ``[rank3]:``, ``12:``, ``worker-1:``."""


TASK_FAILED = "L05"


class Kind(Enum):
    """What failed. ``CASCADE`` is a consequence, never a cause; ``PROGRESS`` and ``PLACE`` are no
    failure."""

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
    PLACE = "place"
    """Tells the host of a rank or of an address."""


class Suspect(Enum):
    """Which node the line makes suspect."""

    YES = "yes"
    NO = "no"
    IF_REPEATED = "if-repeated"
    """The node that printed the line, if only that node prints it repeatedly."""
    IF_ALONE = "if-alone"
    """The node that printed the line, also once, if no other one printed it: for crashes, which few ranks
    report before the job ends."""
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


class Weight(Enum):
    """How much a line says about the end of the job. Of two lines, the heavier one is the cause."""

    FATAL = 4
    """The program, the step or the node cannot go on after it."""
    POSSIBLE = 3
    """Programs also print it and go on. It explains a timeout that follows."""
    WEAK = 2
    """A task failed, or was ended: any line that says why is a better cause."""
    CONSEQUENCE = 1
    """A peer was lost, which has a cause elsewhere: the cause if nothing else was printed."""
    NONE = 0
    """Says nothing about the cause."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A pattern for one line (``re.search``) and the meaning of a line that matches.

    ``general``: tried after all others, since most lines that match it also match a better one.
    """

    code: str
    kind: Kind
    suspect: Suspect
    retry: Retry
    pattern: str
    weight: Weight = Weight.FATAL
    general: bool = False

    @property
    def may_pass(self) -> bool:
        """False if training that goes on does not show that the line was harmless. A task can fail in an
        earlier step of the job than that which trains."""
        return self.kind is not Kind.SCHEDULER or self.code == TASK_FAILED
