"""Drains the node and returns it to service: decides when a step in Slurm is due, and keeps its
result.

The step itself (``slurm_update``) runs in a contained worker, so a slurmctld that does not answer
delays neither the verdict nor the kernel log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from holdfast.adapters.log import Log
from holdfast.history.event import DRAINED, RETURNED
from holdfast.policy.budget import Count, newest
from holdfast.policy.node_inputs import DrainInputs
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import Action, SlurmName
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus, StepResult
from slurm_hooks.agent.drain.pace import Pace
from slurm_hooks.agent.drain.record import Drained, Records
from slurm_hooks.agent.drain.return_test import ReturnTest
from slurm_hooks.agent.drain.slurm_update import Step
from slurm_hooks.agent.drain.undrain_audit import UndrainAudit
from slurm_hooks.node.machine import stamp
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.bounded_write import BoundedWrite
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_CONFIRM_AFTER_S = (10.0, 60.0, 300.0)
"""When a node is read again after its return. slurmctld saves its state up to 5 s after a change; if it
is killed before that, it starts with the drain that had ended.
"""
_SWITCHED_OFF = "switched off: off/all beside the configuration"
_CALLS = 15
"""The most Slurm commands of one step, for its deadline: slurmctld's start time, nodes (two
commands for a node in no partition), accounting, node, drain, nodes (again two), change count,
node, undrain, change count, comment, node, and one to spare.
"""


class DrainController:
    """Drains and undrains one node. ``slurm_status`` is the node's last known state in Slurm."""

    def __init__(self, node: SlurmName, boot_id: str, config: Settings) -> None:
        self._node, self._boot_id, self._config = node, boot_id, config
        self._records = Records(config.cluster.paths)
        self._drained: Drained | None = None
        self._ended = self._records.load_ended()
        self._drained_seen: tuple[int, int] = (0, 0)
        self.slurm_status = SlurmStatus()
        self._load_record()
        self._worker = Worker("slurm", self._open, keep=False)
        self._inputs = self._sent = DrainInputs()
        self._done: object = None
        self._looked = False
        self._pace = Pace(config.agent)
        self._recounts = False
        self._count: Count | None = None
        self._known: tuple[SlurmNode | None, tuple[int, int] | None] = (None, None)
        self._failed_key: object = None
        self._reload = False
        self._next = float("inf")
        self._acknowledged = False
        self._audit_entries: tuple[AuditEntry, ...] = ()
        self._returned: tuple[str, ...] = ()
        self._confirm_at: list[float] = []
        self._return_test = ReturnTest(node, config)
        undrained, problem = self._records.load_return()
        if problem:
            log.error("record of the last return unreadable, it cannot be confirmed", why=problem)
        self._audit = UndrainAudit(node, config, undrained)
        self.unwritten = ""
        """Why the records cannot be written to disk. Empty if they can."""
        self._restore = self._restore_sent = ""

    @property
    def workers(self) -> list[Worker]:
        own = [self._worker] if self._worker.busy else []
        return [*own, *self._return_test.workers, *self._audit.workers]

    @property
    def next_at(self) -> float:
        """Monotonic time at which a step is due."""
        step = float("inf") if self._worker.busy or self._return_test.busy else self._next
        return min(step, self._audit.next_at)

    @property
    def waits_for_reset(self) -> bool:
        """The node is drained and one of its GPUs has to be reset."""
        required = self._drained.record.action if self._drained else Action.NONE
        return self.slurm_status.drained and required is Action.RESET_GPU

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def consider(self, inputs: DrainInputs, now: float) -> None:
        """Take the newest inputs; start a step at once if they change anything."""
        self._inputs = inputs
        # A hook may have drained the node and left a record. Only the copy in the run folder is checked,
        # because the disk may not answer.
        if stamp(self._records.in_memory) not in (self._drained_seen, (0, 0)):
            self._load_record()
        if not inputs.may_act:
            self._stop()
            return
        if self._confirm_at and now >= self._confirm_at[0]:
            del self._confirm_at[0]
            self._looked = False
        changed = inputs.key != self._failed_key
        if self._is_new(inputs, now) and (changed or not self._pace.failures):
            self._next = now  # a failed step waits for its retry, unless the inputs have changed
        # The node is undrained for the test: with another fault it has to be drained again at once.
        if self._return_test.busy and inputs.worst is not None:
            log.warning("active check aborted", node=self._node, code=inputs.worst.code)
            self._return_test.drop()
        self._start_if_due(now)

    def turn(self, now: float) -> bool:
        """Take an answer, start a step that is due. True when ``slurm_status`` may have changed."""
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        entry = self._return_test.turn(now)
        if entry is not None:
            log.warning(entry.text, node=self._node)
            self._audit_entries += (entry,)
            self._next = now
        ended = self._audit.turn(now)
        if ended is not None:
            log.warning(
                "the undrain removed another user's drain", user=ended.user, reason=ended.reason
            )
            # Slurm has no compare-and-set, so a person's drain can only be set again afterwards.
            self._restore, self._next = ended.reason or f"drained by {ended.user}", now
        self._start_if_due(now)
        return answer is not None or entry is not None

    @property
    def unconfirmed(self) -> str:
        """Why it is unknown whether the last return removed another user's drain.
        Empty if it is known."""
        return self._audit.why

    def take_acknowledgement(self) -> bool:
        """True once after a person resumed the node."""
        acknowledged, self._acknowledged = self._acknowledged, False
        return acknowledged

    def take_returned(self) -> tuple[str, ...]:
        """The codes of the drains that were ended since the last call."""
        returned, self._returned = self._returned, ()
        return returned

    def take_audit_entries(self) -> tuple[AuditEntry, ...]:
        """The changes made in Slurm since the last call."""
        entries, self._audit_entries = self._audit_entries, ()
        return entries

    def close(self) -> None:
        self._worker.close()
        self._return_test.close()
        self._audit.close()

    def _load_record(self) -> None:
        self._drained_seen = stamp(self._records.in_memory)
        self._drained, problem = self._records.load()
        if problem:
            log.error("drain record lost, its drain needs a manual resume", why=problem)
        self.slurm_status = self._with_record(self.slurm_status)

    def _with_record(self, slurm_status: SlurmStatus) -> SlurmStatus:
        return replace(slurm_status, made=self._drained.record if self._drained else None)

    def _is_new(self, inputs: DrainInputs, now: float) -> bool:
        involved = (
            inputs.reportable
            or self._drained is not None
            or self.slurm_status.commented
            or self.unwritten
        )
        if not self._looked:
            return True
        due = now >= min(self._pace.look_at, self._pace.recount_at)
        return bool(involved) and (due or self._key(inputs) != self._done)

    def _key(self, inputs: DrainInputs) -> object:
        """What a step's result depends on. The number of passes is part of it while the node may
        return to service soon, while Holdfast's comment is out of date, and while the disk lacks the
        record. While a fault stays open, nothing is asked at each pass: ``Pace``. But no job starts on
        a drained node: somebody resumed it, or undrained it for a test and will drain it again with
        the same reason, which only a record made in between can tell from a person's drain.
        """
        outdated = self.slurm_status.commented and not inputs.reportable
        returning = self._drained is not None and inputs.worst is None and not self._pace.waits
        again = self.unwritten or outdated or returning
        return (
            inputs.key,
            inputs.worst is None,
            frozenset(inputs.recovered.items()),
            inputs.passes if again else 0,
            inputs.job_start_s if self._drained is not None else 0.0,
        )

    def _start_if_due(self, now: float) -> None:
        # During a return test the node is undrained on purpose; the next step waits for its result.
        if self._worker.busy or self._return_test.busy or now < self._next:
            return
        if self._config.may_act():
            self._start(now)
        else:  # switched off since the last pass: the inputs do not show it yet
            self._stop()

    def _stop(self) -> None:
        """Once actions are switched on again, a new step decides: the old decision no longer counts, and
        neither does the wait of one that failed."""
        self._next, self._looked, self._failed_key = float("inf"), False, None
        self.slurm_status = replace(self.slurm_status, why=_SWITCHED_OFF)

    def _start(self, now: float) -> None:
        self._next = float("inf")
        self._sent = self._inputs
        self._recounts = now >= self._pace.recount_at
        inputs = replace(
            self._inputs,
            test_result=self._return_test.test_result,
            may_comment=self._pace.comment_at(now) <= now,
            recount=self._recounts or not self._looked,
            count=newest(self._count, self._inputs.count),
        )
        slurm = self._config.cluster.slurm
        self._restore_sent = self._restore
        records = (self._drained, self._restore, self._ended, self._audit.undrained)
        self._worker.ask(
            (inputs, *records, *self._known, self._reload),
            deadline_s=slurm.timeout_s * _CALLS,
        )

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
            *rest, step.known, step.looked, reload = request
            yield step.run(*rest, reload=reload)

        return serve

    def _failed(self, why: str, now: float) -> None:
        """The next step reads the records again, in its own process: this one may have written some,
        and the disk may not answer. If that step fails too, the one after it does not read them.
        """
        self._reload = not self._reload
        if self._sent.key != self._failed_key:
            self._pace.failures = 0  # a new fault does not wait as long as the old ones do by now
        self._failed_key = self._sent.key
        self._next = self._pace.failed(now)
        tries = self._pace.failures
        if tries in (1, 10, 100) or tries % 1000 == 0:
            log.error("Slurm node update failed", why=why, tries=tries)
        self.slurm_status = self.slurm_status.failed(why)

    def _take_records(self, outcome: StepResult, now: float) -> None:
        self._ended = outcome.ended
        self._drained, self._drained_seen = outcome.drained, stamp(self._records.in_memory)
        if outcome.unwritten and not self.unwritten:
            log.error("drain records not written to disk", why=outcome.unwritten)
        elif self.unwritten and not outcome.unwritten:
            log.info("drain records written to disk again")
        self.unwritten = outcome.unwritten
        if outcome.undrained is not None:
            self._audit.watch(outcome.undrained, now)
            self._confirm_at = [now + after_s for after_s in _CONFIRM_AFTER_S]
        elif outcome.slurm_status.drained and self._drained is not None:
            self._audit.still_drained(self._drained.record.at)

    def _take(self, answer: Answer, now: float) -> None:
        outcome = answer.items[0] if answer.items else None
        if not isinstance(outcome, StepResult) or not answer.complete:
            self._failed(answer.error or "no outcome", now)
            return
        self._looked, self._reload = True, False
        self._take_records(outcome, now)
        # Another one may have come in while this step ran.
        if self._restore == self._restore_sent:
            self._restore = ""
        self._acknowledged = self._acknowledged or outcome.acknowledged
        for entry in outcome.entries:
            log.warning(entry.text, node=self._node)
        self._audit_entries += outcome.entries
        self._returned += tuple(entry.code for entry in outcome.entries if entry.event == RETURNED)
        self._pace.commented(outcome.comments, now)
        status = self._with_record(outcome.slurm_status)
        fault_open = self._sent.worst is not None
        self._pace.done(self.slurm_status, status, now, fault_open=fault_open)
        self.slurm_status = status
        self._count, self._known = outcome.count, (outcome.node, outcome.looked)
        if any(entry.event == DRAINED for entry in outcome.entries):
            self._pace.drained(now, has_room=outcome.has_room)
        elif self._recounts:
            self._pace.recount_at = float("inf")
        if outcome.test_reason and self._drained is not None:
            self._return_test.start(self._drained.record.code, outcome.test_reason)
        elif self._drained is None:
            self._return_test.forget()
        if outcome.comment_waits:
            self._next = self._pace.comment_at(now)
        self._done = self._key(self._sent)
        # What arrived while the step ran was not part of its decision.
        if self._inputs is not self._sent and self._key(self._inputs) != self._done:
            self._next = now
