"""The active check before this node's return to service, and the reservation in which it runs.

The functions up to ``release`` run in the contained worker of a step in Slurm. ``ReturnTest`` runs in
the agent's loop and has a contained worker of its own, because a test takes minutes. That worker
only reserves, undrains and tests. The step restores the drain and removes the reservation, so the
clean-up is the same whether the test ended, failed, or was killed together with its agent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from holdfast.errors import HoldfastError, Unavailable
from holdfast.history.event import ACTIVE_CHECK
from holdfast.policy.return_test import ReservedBy, ReturnTestResult
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import reservation_text
from slurm_hooks.active.check_for_fault import checks_for
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.active.reservation_text import PREFIX, Purpose, ReservationText
from slurm_hooks.active.result import CheckOutcome, Result
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus
from slurm_hooks.agent.drain.record import Drained, confirmed, reopened
from slurm_hooks.agent.drain.slurm_writes import SlurmWrites
from slurm_hooks.node.process import Process, send
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_SOON_S = 30.0
"""Seconds until a test is tried again that could not start, for example because another user tests
the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldfastReservation:
    """A reservation of Holdfast on this node: its name, its text, and who has to remove it."""

    reserved_by: ReservedBy
    name: str
    text: ReservationText


def reservation_on(
    slurm: SlurmMaintenance, name: SlurmName, node: SlurmNode, drained: Drained | None
) -> HoldfastReservation | None:
    """The reservation for a test on this node, if there is one. Asks Slurm only if the node's state
    suggests one."""
    marked = node.states & {NodeState.RESERVED, NodeState.MAINTENANCE}
    undrained = drained is not None and not node.drained_flag
    if not (marked or node.reservation.startswith(PREFIX) or undrained):
        return None
    me, now = this_process(), time.time()
    for reservation, text in reservation_text.on(name, slurm.reservations(PREFIX)):
        # Called only while this agent runs no test, so a return test's reservation is a leftover.
        own_test = text.purpose is Purpose.RETURN_TEST
        maker = Process(text.maker.pid, text.maker.start)
        alive = [maker.start] if text.maker.host == me.host and maker.alive() else []
        leftover = own_test or reservation_text.stale(text, me, alive, now)
        reserved_by = ReservedBy.THIS_AGENT if leftover else ReservedBy.OTHERS
        return HoldfastReservation(reserved_by=reserved_by, name=reservation, text=text)
    return None


def stop_maker(reserved: HoldfastReservation) -> None:
    """Kill a return test's worker that outlived its agent, before it undrains what the step drains."""
    me, maker = this_process(), reserved.text.maker
    process = Process(maker.pid, maker.start)
    same_boot = (maker.host, maker.boot_id) == (me.host, me.boot_id)
    if reserved.text.purpose is Purpose.RETURN_TEST and same_boot:
        with suppress(ProcessLookupError, PermissionError):
            # A stopped process cannot exit, so its pid is not reused before its group is killed.
            if send(maker.pid, signal.SIGSTOP, process.alive):
                os.killpg(maker.pid, signal.SIGKILL)


def during(
    reserved: HoldfastReservation,
    writes: SlurmWrites,
    config: Path,
    why: str,
    drained: Drained | None,
    node: SlurmNode,
) -> SlurmStatus:
    """Leave another user's test alone, or end one that is over: first drain the node again with its
    old reason, then remove the reservation. ``why``: the reason of the step's decision.
    """
    if reserved.reserved_by is ReservedBy.OTHERS:
        if drained is not None and not node.drained_flag:
            writes.save(reopened(drained, datetime.now(timezone.utc)))
        return SlurmStatus(
            action="test", reason=reserved.text.drained, drained=node.drained_flag, why=why
        )
    stop_maker(reserved)
    if drained is not None:
        writes.save(reopened(drained, datetime.now(timezone.utc)))
    table = writes.table
    removed = NodeReservation(table.slurm, this_process(), config).restore(
        reserved.name, reserved.text
    )
    seen = table.read()
    if drained is not None and seen.drained_flag and seen.reason == drained.record.reason:
        writes.save(confirmed(drained, seen))
    if not removed:
        raise Unavailable(["scontrol"], f"a job in {reserved.name} does not end")
    writes.note(None, f"test ended, previous state restored: {why}")
    return SlurmStatus(
        action="drain" if seen.drained_flag and drained is not None else "none",
        reason=seen.reason,
        drained=seen.drained_flag,
        why=why,
    )


def is_over(reserved: HoldfastReservation, writes: SlurmWrites) -> bool:
    """Whether this agent has ended the drain for which the node was tested. A slurmctld that was restored
    from an older state has the reservation again. To restore the state before the test would set a drain that
    nobody has on record and nobody ends."""
    own = reserved.text.purpose is Purpose.RETURN_TEST
    ended = any(one.record.reason == reserved.text.drained for one in writes.ended)
    return own and ended and writes.drained is None


def release(slurm: SlurmMaintenance, reserved: HoldfastReservation, config: Path) -> None:
    """Remove the reservation in which the node was tested. Raises ``Unavailable`` while a job runs in
    it; the step is then tried again.
    """
    if not NodeReservation(slurm, this_process(), config).release(reserved.name):
        raise Unavailable(["scontrol"], f"a job in {reserved.name} does not end")


class ReturnTest:
    """The test before this node's return. ``test_result`` is its result, as long as the result counts."""

    def __init__(self, node: SlurmName, config: Settings) -> None:
        self._node, self._config = node, config
        self._worker = Worker("return_test", self._open, keep=False)
        self._dropped: list[Worker] = []
        self._reason = self._code = ""
        self._until = 0.0
        self.test_result: ReturnTestResult | None = None

    @property
    def busy(self) -> bool:
        return self._worker.busy

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    def start(self, code: str, reason: str) -> None:
        """Test the node for a fault of ``code``, drained with exactly this ``reason``."""
        self._reason, self._code, self.test_result = reason, code, None
        checks = checks_for(code)
        try:
            for_s = self._reservation().budget_s(checks)
        except HoldfastError as error:
            self._conclude("", CheckOutcome.ERROR.value, str(error), _SOON_S)
            return
        log.info("active check", node=self._node, code=code, checks=",".join(checks))
        self._worker.ask((checks, reason, for_s), deadline_s=for_s + 60)

    def turn(self, now: float) -> AuditEntry | None:
        """Take the result once it is there; drop one that is old. Returns what happened, if
        anything."""
        if self.test_result is not None and not self.test_result.passed and now >= self._until:
            self.test_result = None
        for dropped in self._dropped:
            dropped.reap(now)
        self._dropped = [worker for worker in self._dropped if worker.leaving]
        answer = self._worker.take()
        if answer is None:
            return None
        result = answer.items[-1] if answer.items else None
        if not isinstance(result, Result):
            why = answer.error or "no result"
            self._conclude("", CheckOutcome.ERROR.value, why, _SOON_S)
        else:
            began = result.wall_s > 0
            wait_s = self._config.agent.return_test_retry_s if began else _SOON_S
            self._conclude(result.check, result.verdict.value, result.detail, wait_s)
        test_result = self.test_result
        assert test_result is not None  # noqa: S101 - just concluded
        return AuditEntry(
            text=f"active check before the return: {test_result.summary}",
            event=ACTIVE_CHECK,
            code=self._code,
            check=test_result.check,
            verdict=test_result.verdict,
        )

    def forget(self) -> None:
        """The node is in service again, or drained for another fault: the earlier result no longer
        counts."""
        self.test_result = None

    def drop(self) -> None:
        """Abort the test. The next step kills its worker and drains the node again."""
        self._worker.close()
        self._dropped.append(self._worker)
        self._worker = Worker("return_test", self._open, keep=False)

    def close(self) -> None:
        self._worker.close()

    def _conclude(self, check: str, verdict: str, detail: str, wait_s: float) -> None:
        self._until = time.monotonic() + wait_s
        self.test_result = ReturnTestResult(
            reason=self._reason, check=check or "active check", verdict=verdict, detail=detail
        )

    def _reservation(self) -> NodeReservation:
        slurm = self._config.cluster.slurm
        commands = SlurmMaintenance(slurm.timeout_s, slurm.bin)
        return NodeReservation(commands, this_process(), Path(self._config.path))

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        reservation = self._reservation()

        def serve(request: Any) -> Iterator[Result]:
            checks, reason, for_s = request
            yield run(reservation, self._node, checks, reason, for_s)

        return serve


def run(
    reservation: NodeReservation,
    node: SlurmName,
    checks: tuple[str, ...],
    reason: str,
    for_s: float,
) -> Result:
    """Reserves the node and runs the first of the checks that can run. The node stays reserved."""
    try:
        kept = reservation.take(Purpose.RETURN_TEST, [node], for_s=for_s, drained=reason)
    except HoldfastError as error:
        return Result(check="", verdict=CheckOutcome.ERROR, detail=str(error))
    tried = []
    for check in checks:
        result = reservation.test(kept, check, for_return=True)
        if result.verdict is not CheckOutcome.ERROR:
            return result
        tried.append(result)
    names = " or ".join(result.check for result in tried)
    detail = "; ".join(dict.fromkeys(result.detail for result in tried))
    return replace(tried[-1], check=names, detail=detail)
