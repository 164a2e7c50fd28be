"""From evidence to the next move, provisional."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.vocabulary import DO_NOT_REQUEUE
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.evidence import NodeFault, Sight
from slurm_hooks.job.history import Past
from slurm_hooks.job.step import StepEnd


class Next(str, Enum):
    RESTART = "restart"
    REQUEUE = "requeue"
    HOLD = "hold"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    next: Next
    why: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    faults: tuple[NodeFault, ...]
    requeue: bool
    exit_code: int | None
    fingerprint: str
    same: int

    @classmethod
    def of(
        cls,
        sight: Sight,
        end: StepEnd | None,
        choice: Choice | None,
        history: Sequence[Past],
        newest: int | None,
    ) -> Facts:
        finger = f"exit:{end.exit_code}" if end else ""
        same = 1
        for one in reversed(history):
            if one.cause != finger:
                break
            same += 1
        start = choice.chosen.step if choice and choice.chosen else None
        if newest is not None and (start is None or newest > start):
            same = 1
        return cls(
            faults=sight.faults or (),
            requeue=sight.job is None or sight.job.requeue,
            exit_code=end.exit_code if end else None,
            fingerprint=finger,
            same=same,
        )

    def record(self) -> dict[str, object]:
        return {
            "faults": [{"node": f.node, "code": f.code, "fatal": f.fatal} for f in self.faults],
            "fingerprint": self.fingerprint,
        }


def decide(facts: Facts, number: int, config: JobConfig) -> Decision:
    if facts.exit_code == DO_NOT_REQUEUE:
        return Decision(next=Next.FAIL, why="exit code 93: the job asked for no requeue")
    if not facts.requeue:
        return Decision(next=Next.FAIL, why="--no-requeue")
    if number >= config.max_attempts:
        return Decision(next=Next.HOLD, why=f"{number} attempts")
    if facts.faults:
        return Decision(next=Next.REQUEUE, why=f"bad node {facts.faults[0]}")
    if facts.same >= config.max_same_failure:
        return Decision(
            next=Next.HOLD, why=f"the same failure {facts.same} times without a new checkpoint"
        )
    return Decision(next=Next.RESTART, why="nodes are healthy")
