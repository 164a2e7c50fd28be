"""Takes the node out of service and gives it back: when to ask Slurm, and what came of it.

The asking itself (``slurm_step``) runs in a contained worker, so a slurmctld that does not answer
holds up neither the verdict nor the kernel log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from holdfast.adapters.log import Log
from holdfast.history.event import GIVEN_BACK
from holdfast.policy.flap_damping import next_change_at
from holdfast.policy.node import SWITCHED_OFF
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import Action, SlurmName
from slurm_hooks.agent.drain.messages import AuditEntry, DrainInputs, SlurmStatus, StepResult
from slurm_hooks.agent.drain.record import Drained, Records
from slurm_hooks.agent.drain.return_test import ReturnTest
from slurm_hooks.agent.drain.step import Step
from slurm_hooks.agent.drain.undrain_audit import UndrainAudit
from slurm_hooks.node.machine import stamp
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.bounded_write import BoundedWrite
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_COMMENTS_KEPT = 64
_CALLS = 15
"""The most Slurm commands that one step makes: slurmctld's start, look (twice without a partition),
accounting, look, drain, the same look, the changes, look, withdraw, the changes, comment, look, and one in hand.
"""


class DrainController:
    """``standing`` is what is known of the node in Slurm; ``consider`` may change it later."""

    def __init__(self, node: SlurmName, boot_id: str, config: Settings) -> None:
        self._node, self._boot_id, self._config = node, boot_id, config
        self._records = Records(config.cluster.paths)
        self._drained: Drained | None = None
        self._drained_seen: tuple[int, int] = (0, 0)
        self.standing = SlurmStatus()
        self._load_record()
        self._worker = Worker("slurm", self._open, keep=False)
        self._case = DrainInputs()
        self._done: object = None
        self._asked = self._case
        self._looked = False
        self._failures = 0
        self._failed_key: object = None
        self._next = float("inf")
        self._forgiven = False
        self._deeds: tuple[AuditEntry, ...] = ()
        self._returned: tuple[str, ...] = ()
        self._commented: tuple[float, ...] = ()
        self._gate = ReturnTest(node, config)
        undrained, problem = self._records.load_return()
        if problem:
            log.error("a return cannot be confirmed", why=problem)
        self._audit = UndrainAudit(node, config, undrained)
        self.unwritten = ""
        """Why the disk does not take the records; empty: it does."""
        self._restore = self._asked_restore = ""

    @property
    def workers(self) -> list[Worker]:
        own = [self._worker] if self._worker.busy else []
        return [*own, *self._gate.workers, *self._audit.workers]

    @property
    def next_at(self) -> float:
        """Monotonic time at which a step is due."""
        step = float("inf") if self._worker.busy or self._gate.busy else self._next
        return min(step, self._audit.next_at)

    @property
    def waits_for_reset(self) -> bool:
        """The node is out of service and somebody has to reset a GPU of it."""
        wanted = self._drained.record.action if self._drained else Action.NONE
        return self.standing.drained and wanted is Action.RESET_GPU

    def consider(self, case: DrainInputs, now: float) -> None:
        """Take in what is known now; ask Slurm at once where that changes anything."""
        self._case = case
        # A hook drained. Only memory is looked at: the disk may not answer.
        if stamp(self._records.in_memory) not in (self._drained_seen, (0, 0)):
            self._load_record()
        if not case.may_act:
            self._next = float("inf")
            # Slurm is asked anew once it is switched on again: what was decided is of before.
            self._looked, self.standing = False, replace(self.standing, why=SWITCHED_OFF)
            return
        if self._news(case) and (not self._failures or case.key != self._failed_key):
            self._next = now  # a step that failed waits for its retry, unless there is news
        if self._gate.busy and case.worst is not None:
            log.warning("active check given up", node=self._node, code=case.worst.code)
            self._gate.drop()
        self._ask_if_due(now)

    def turn(self, now: float) -> bool:
        """Take an answer, start a step that is due. True when the standing may have changed."""
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        deed = self._gate.turn(now)
        if deed is not None:
            log.warning(deed.text, node=self._node)
            self._deeds += (deed,)
            self._next = now
        ended = self._audit.turn(now)
        if ended is not None:
            log.warning(
                "an undrain met somebody else's drain", user=ended.user, reason=ended.reason
            )
            self._restore, self._next = ended.reason or f"drained by {ended.user}", now
        self._ask_if_due(now)
        return answer is not None or deed is not None

    @property
    def unconfirmed(self) -> str:
        """Why it is not known whether the last return ended somebody else's drain; empty: it is."""
        return self._audit.why

    def take_forgiveness(self) -> bool:
        """True once after somebody else put the node back into service."""
        forgiven, self._forgiven = self._forgiven, False
        return forgiven

    def take_returned(self) -> tuple[str, ...]:
        """The codes for which the node was given back since this was asked last."""
        returned, self._returned = self._returned, ()
        return returned

    def take_deeds(self) -> tuple[AuditEntry, ...]:
        """What was done in Slurm since this was asked last."""
        deeds, self._deeds = self._deeds, ()
        return deeds

    def close(self) -> None:
        self._worker.close()
        self._gate.close()
        self._audit.close()

    def _load_record(self) -> None:
        self._drained_seen = stamp(self._records.in_memory)
        self._drained, problem = self._records.load()
        if problem:
            log.error("drain record lost, nothing of it will be undone", why=problem)
        self.standing = self._with_record(self.standing)

    def _with_record(self, standing: SlurmStatus) -> SlurmStatus:
        return replace(standing, made=self._drained.record if self._drained else None)

    def _news(self, case: DrainInputs) -> bool:
        involved = (
            case.audible or self._drained is not None or self.standing.commented or self.unwritten
        )
        return not self._looked or (bool(involved) and self._key(case) != self._done)

    def _key(self, case: DrainInputs) -> object:
        """What a step was made for: each pass counts while the node's return depends on it, or
        a comment of ours tells of what is over, or the disk has not taken the record.
        """
        again = self.unwritten or (self.standing.commented and not case.audible)
        return (case.key, case.passes if self._drained or case.worst or again else 0)

    def _ask_if_due(self, now: float) -> None:
        # While a test runs the node is undrained on purpose, and only the test's end decides.
        if not self._worker.busy and not self._gate.busy and now >= self._next:
            self._ask(now)

    def _ask(self, now: float) -> None:
        self._next = float("inf")
        self._asked = self._case
        may_comment = self._comment_at(now) <= now
        case = replace(self._case, trial=self._gate.trial, may_comment=may_comment)
        slurm = self._config.cluster.slurm
        self._asked_restore = self._restore
        self._worker.ask((case, self._drained, self._restore), deadline_s=slurm.timeout_s * _CALLS)

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        slurm, paths = self._config.cluster.slurm, self._config.cluster.paths
        step = Step(
            SlurmMaintenance(slurm.timeout_s, slurm.bin),
            self._node,
            self._boot_id,
            self._config,
            Records(paths, BoundedWrite(paths.run / "stuck" / "record.json")),
        )

        def serve(request: Any) -> Iterator[StepResult]:
            yield step.run(*request)

        return serve

    def _failed(self, why: str, now: float) -> None:
        """What of the step was done nobody said, so what it kept is read again."""
        self._load_record()
        undrained, _ = self._records.load_return()
        if undrained is not None:
            self._audit.watch(undrained, now)
        self._failures += 1
        self._failed_key = self._asked.key
        if self._failures in (1, 10, 100) or self._failures % 1000 == 0:
            log.error("Slurm not asked", why=why, tries=self._failures)
        self.standing = self.standing.failed(why)
        self._next = now + self._config.agent.act_retry_s

    def _kept(self, outcome: StepResult, now: float) -> None:
        self._drained, self._drained_seen = outcome.drained, stamp(self._records.in_memory)
        if outcome.unwritten and not self.unwritten:
            log.error("the disk does not take the records", why=outcome.unwritten)
        elif self.unwritten and not outcome.unwritten:
            log.info("the disk takes the records again")
        self.unwritten = outcome.unwritten
        if outcome.undrained is not None:
            self._audit.watch(outcome.undrained, now)
        elif outcome.standing.drained and self._drained is not None:
            self._audit.still_drained(self._drained.record.at)

    def _take(self, answer: Answer, now: float) -> None:
        outcome = answer.items[0] if answer.items else None
        if not isinstance(outcome, StepResult) or not answer.complete:
            self._failed(answer.error or "no outcome", now)
            return
        self._failures, self._looked = 0, True
        self._kept(outcome, now)
        if self._restore == self._asked_restore:
            self._restore = ""
        self._done = self._key(self._asked)
        self._forgiven = self._forgiven or outcome.forgiven
        for deed in outcome.did:
            log.warning(deed.text, node=self._node)
        self._deeds += outcome.did
        self._returned += tuple(deed.code for deed in outcome.did if deed.event == GIVEN_BACK)
        self._commented = (*self._commented, *[now] * outcome.comments)[-_COMMENTS_KEPT:]
        self.standing = self._with_record(outcome.standing)
        if outcome.test and self._drained is not None:
            self._gate.start(self._drained.record.code, outcome.test)
        elif self._drained is None:
            self._gate.forget()
        if outcome.comment_waits:
            self._next = self._comment_at(now)
        if self._case is not self._asked and self._key(self._case) != self._done:
            self._next = now

    def _comment_at(self, now: float) -> float:
        """Monotonic time from which the comment may change again; ``now`` where it may."""
        return next_change_at(self._commented, self._config.agent, now)
