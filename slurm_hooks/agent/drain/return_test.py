"""This node's active check: the reservation that it may be in, and the test before it is given back.

``look`` and what ends a test run in the contained worker of a Slurm step, ``ReturnTest`` in the agent's loop
with a contained worker of its own: a test takes minutes, and nothing waits for it. The gate's worker
only ever reserves, undrains and tests; what puts things back is the Slurm step, so that there is one
way, whether the test ended, failed, or died with its agent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from holdfast.errors import HoldfastError
from holdfast.history.event import ACTIVE_CHECK
from holdfast.policy.return_test import Held, Trial
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import reservation_text as keeps
from slurm_hooks.active.check_for_fault import checks_for
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.active.reservation_text import PREFIX, Purpose, ReservationText
from slurm_hooks.active.result import Result, Verdict
from slurm_hooks.agent.drain.messages import AuditEntry
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.node.process import Process, send
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_SOON_S = 30.0
"""After this a test that could not even begin (somebody else tests the node) is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A reservation of ours on this node: its name, what it says, and whose it is to end."""

    held: Held
    name: str
    keep: ReservationText


def look(
    slurm: SlurmMaintenance, name: SlurmName, node: SlurmNode, drained: Drained | None
) -> Holding | None:
    """The test that keeps this node, if one does. Asks Slurm only where something hints at it."""
    marked = node.states & {NodeState.RESERVED, NodeState.MAINTENANCE}
    undrained = drained is not None and not node.drained_flag
    if not (marked or node.reservation.startswith(PREFIX) or undrained):
        return None
    me, now = this_process(), time.time()
    for reservation, keep in keeps.on(name, slurm.reservations(PREFIX)):
        # This agent asks only while no test of its own is under way: a gate's is left over.
        ours = keep.purpose is Purpose.RETURN
        maker = Process(keep.maker.pid, keep.maker.start)
        alive = [maker.start] if keep.maker.host == me.host and maker.alive() else []
        left = ours or keeps.stale(keep, me, alive, now)
        return Holding(held=Held.BY_US if left else Held.BY_OTHERS, name=reservation, keep=keep)
    return None


def stop_maker(holding: Holding) -> None:
    """End a gate's worker that outlived its agent, before it undrains what we drain."""
    me, maker = this_process(), holding.keep.maker
    process = Process(maker.pid, maker.start)
    same_boot = (maker.host, maker.boot_id) == (me.host, me.boot_id)
    if holding.keep.purpose is Purpose.RETURN and same_boot:
        with suppress(ProcessLookupError, PermissionError):
            # Stopped, it cannot end by itself: its number stays its own until its group is killed.
            if send(maker.pid, signal.SIGSTOP, process.alive):
                os.killpg(maker.pid, signal.SIGKILL)


class ReturnTest:
    """The test before this node's return. ``trial`` is what came of it, while that counts."""

    def __init__(self, node: SlurmName, config: Settings) -> None:
        self._node, self._config = node, config
        self._worker = Worker("gate", self._open, keep=False)
        self._dropped: list[Worker] = []
        self._reason = self._code = ""
        self._until = 0.0
        self.trial: Trial | None = None

    @property
    def busy(self) -> bool:
        return self._worker.busy

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    def start(self, code: str, reason: str) -> None:
        """Test the node for a fault of ``code``, drained with exactly this ``reason``."""
        self._reason, self._code, self.trial = reason, code, None
        checks = checks_for(code)
        try:
            for_s = self._keeper().budget_s(checks)
        except HoldfastError as error:
            self._conclude("", Verdict.COULD_NOT_RUN.value, str(error), _SOON_S)
            return
        log.info("active check", node=self._node, code=code, checks=",".join(checks))
        self._worker.ask((checks, reason, for_s), deadline_s=for_s + 60)

    def turn(self, now: float) -> AuditEntry | None:
        """Take the result once it is there; forget one that is old. What happened, if anything."""
        if self.trial is not None and not self.trial.passed and now >= self._until:
            self.trial = None
        for dropped in self._dropped:
            dropped.reap(now)
        self._dropped = [one for one in self._dropped if one.leaving]
        answer = self._worker.take()
        if answer is None:
            return None
        result = answer.items[-1] if answer.items else None
        if not isinstance(result, Result):
            why = answer.error or "no result"
            self._conclude("", Verdict.COULD_NOT_RUN.value, why, _SOON_S)
        else:
            began = result.wall_s > 0
            wait_s = self._config.agent.gate_retry_s if began else _SOON_S
            self._conclude(result.check, result.verdict.value, result.detail, wait_s)
        trial = self.trial
        assert trial is not None  # noqa: S101 - just concluded
        return AuditEntry(
            text=f"active check before the return: {trial.said}",
            event=ACTIVE_CHECK,
            code=self._code,
            check=trial.check,
            verdict=trial.verdict,
        )

    def forget(self) -> None:
        """The node is back, or out for something else: what the test said is of yesterday."""
        self.trial = None

    def drop(self) -> None:
        """Give a test up. The Slurm step ends its worker and puts the node back."""
        self._worker.close()
        self._dropped.append(self._worker)
        self._worker = Worker("gate", self._open, keep=False)

    def close(self) -> None:
        self._worker.close()

    def _conclude(self, check: str, verdict: str, detail: str, wait_s: float) -> None:
        self._until = time.monotonic() + wait_s
        self.trial = Trial(
            reason=self._reason, check=check or "active check", verdict=verdict, detail=detail
        )

    def _keeper(self) -> NodeReservation:
        slurm = self._config.cluster.slurm
        commands = SlurmMaintenance(slurm.timeout_s, slurm.bin)
        return NodeReservation(commands, this_process(), Path(self._config.path))

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        keeper = self._keeper()

        def serve(request: Any) -> Iterator[Result]:
            checks, reason, for_s = request
            yield run(keeper, self._node, checks, reason, for_s)

        return serve


def run(
    keeper: NodeReservation, node: SlurmName, checks: tuple[str, ...], reason: str, for_s: float
) -> Result:
    """The first of the checks that can run, on the node, kept. It stays kept afterwards."""
    try:
        kept = keeper.take(Purpose.RETURN, [node], for_s=for_s, drained=reason)
    except HoldfastError as error:
        return Result(check="", verdict=Verdict.COULD_NOT_RUN, detail=str(error))
    tried = []
    for check in checks:
        result = keeper.test(kept, check, for_return=True)
        if result.verdict is not Verdict.COULD_NOT_RUN:
            return result
        tried.append(result)
    names = " or ".join(one.check for one in tried)
    detail = "; ".join(dict.fromkeys(one.detail for one in tried))
    return replace(tried[-1], check=names, detail=detail)
