"""Reserves nodes for a test, undrains drained ones, runs the test jobs, and restores the nodes.

The order keeps users' jobs away: the node is reserved before it is undrained, and drained again
before the reservation is removed. After a crash at any point ``restore`` finishes the work from the
comment of the reservation (``ReservationText``).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CommandError, HoldfastError, Unavailable
from holdfast.own_program import own_program
from holdfast.reason import without_appended
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance, TestJob
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import CATALOGUE, load, reservation_text
from slurm_hooks.active.config import ActiveConfig
from slurm_hooks.active.program import Ran
from slurm_hooks.active.reservation_text import PREFIX, Maker, Purpose, ReservationText
from slurm_hooks.active.result import Judged, Result, could_not_run, decode, one_line
from slurm_hooks.active.run_on_node import describe
from slurm_hooks.node import machine
from slurm_hooks.node.process import process_state

_SHOWN_S = 15.0
"""slurmctld marks the nodes of a new reservation within three seconds."""
_SPARE_S = 60.0
"""Slurm's time limit is this much longer than the check's own, which should end it."""
_RELEASE_S = 15.0
_LOOK_S = 0.3


class Occupied(HoldfastError):
    """The node cannot be reserved now: another test has it, or its state has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedNodes:
    """Reserved nodes: the reservation's name and text, and the nodes as Slurm shows them."""

    name: str
    text: ReservationText
    nodes: tuple[SlurmNode, ...]


def this_process() -> Maker:
    """The maker for reservations of this process."""
    pid = os.getpid()
    found = process_state(pid)
    return Maker(
        host=os.uname().nodename,
        boot_id=machine.boot_id(),
        pid=pid,
        start=found[1] if found else 0,
    )


class NodeReservation:
    """Reserves, tests and restores nodes. Every method raises ``CommandError``.

    ``sleep`` and ``clock`` are for tests.
    """

    def __init__(
        self,
        slurm: SlurmMaintenance,
        maker: Maker,
        config: Path,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slurm, self._maker, self._config = slurm, maker, config
        self._clock, self._sleep = clock, sleep

    # --- reserving -----------------------------------------------------------------------------

    def take(
        self, purpose: Purpose, nodes: Sequence[SlurmName], *, for_s: float, drained: str = ""
    ) -> ReservedNodes:
        """Reserve ``nodes`` for about ``for_s`` seconds: idle nodes in service, or a node that was
        drained with the reason ``drained``, which is undrained.

        Afterwards only test jobs can run on them. Raises ``Occupied``.
        """
        self._sweep_stale(nodes)
        text = ReservationText(
            purpose=purpose,
            nodes=tuple(nodes),
            maker=self._maker,
            until=int(self._clock() + for_s + 2 * _SPARE_S),
            drained=drained,
        )
        # A drained node must not become available to users when the time is over: it stays reserved
        # until it is drained again.
        minutes = None if drained else math.ceil(for_s / 60) + 2
        if not self._slurm.reserve(text.name, nodes, text.comment, minutes=minutes):
            raise Occupied(f"reservation {text.name} exists already")
        try:
            # Slurm cannot reserve only if nobody else has: so look after the reservation, when both
            # see each other.
            self._check_conflicts(text)
            shown = self._shown(text)
            self._unchanged(shown, drained)
            if drained:
                self._slurm.undrain(list(nodes))
                shown = self._responding(text)
        # Also for a signal that ends this process: a reserved node is lost to users.
        except BaseException:
            self._restore_quietly(text)
            raise
        return ReservedNodes(name=text.name, text=text, nodes=tuple(shown))

    def restore(self, name: str, text: ReservationText) -> bool:
        """Restore the state before the test: drain the node again with its old reason, cancel the
        test jobs, remove the reservation. False: a job does not end yet; the node stays reserved,
        call again.
        """
        # First drain, then remove the reservation: between the two no job of a user may start.
        if text.drained:
            nodes = self._slurm_nodes(text)
            undrained = [node.name for node in nodes if not node.drained_flag]
            if undrained:
                self._slurm.drain(undrained, text.drained)
        return self.release(name)

    def release(self, name: str) -> bool:
        """Cancel the reservation's jobs and remove it. The nodes' drains do not change."""
        until = self._clock() + _RELEASE_S
        while not self._slurm.unreserve(name):
            if self._clock() > until:
                return False
            # Slurm refuses to delete a reservation in which a job runs.
            self._slurm.cancel_in(name)
            self._sleep(_LOOK_S)
        return True

    def sweep(self, only: Sequence[str] = ()) -> list[str]:
        """Restore the nodes of stale reservations, all or ``only`` those of these nodes. Returns the
        names of the reservations.
        """
        alive = self._alive
        swept = []
        for reservation in self._slurm.reservations(PREFIX):
            text = reservation_text.read(reservation)
            if text is None or (only and not set(only) & set(text.nodes)):
                continue
            if reservation_text.stale(text, self._maker, alive(text.maker), self._clock()):
                self.restore(reservation.name, text)
                swept.append(reservation.name)
        return swept

    def on(self, node: SlurmName) -> list[tuple[str, ReservationText]]:
        """Holdfast's reservations of the node: (name, text)."""
        return reservation_text.on(node, self._slurm.reservations(PREFIX))

    def _sweep_stale(self, nodes: Sequence[str]) -> None:
        self.sweep(nodes)
        for node in nodes:
            for name, text in self.on(SlurmName(node)):
                raise Occupied(f"{node} is under test by {text.maker.host} ({name})")

    def _alive(self, maker: Maker) -> list[int]:
        found = process_state(maker.pid) if maker.host == self._maker.host else None
        return [found[1]] if found and found[0] not in "ZX" else []

    def _check_conflicts(self, text: ReservationText) -> None:
        """If two tests reserved a node at the same time, the one whose name sorts first continues."""
        for node in text.nodes:
            others = [name for name, _ in self.on(SlurmName(node)) if name != text.name]
            if any(name < text.name for name in others):
                raise Occupied(f"{node} is under test already ({others[0]})")

    def _shown(self, text: ReservationText) -> list[SlurmNode]:
        """The nodes, once each of them shows the reservation: then Slurm shows why they are undrained."""
        until = self._clock() + _SHOWN_S
        while True:
            nodes = self._slurm_nodes(text)
            if all(node.reservation == text.name for node in nodes):
                return nodes
            if self._clock() > until:
                raise Unavailable(["scontrol"], f"{text.name} is not shown within {_SHOWN_S:g} s")
            self._sleep(_LOOK_S)

    def _unchanged(self, nodes: Sequence[SlurmNode], drained: str) -> None:
        for node in nodes:
            if node.busy:
                raise Occupied(f"{node.name}: a job has started")
            if drained and not (node.drained_flag and without_appended(node.reason) == drained):
                raise Occupied(f"{node.name}: no longer drained with that reason")
            if not drained and node.drained_flag:
                raise Occupied(f"{node.name}: drained in the meantime ({node.reason})")

    def _responding(self, text: ReservationText) -> list[SlurmNode]:
        """The nodes, once they can start a job: after an undrain slurmctld contacts slurmd first."""
        until = self._clock() + _SHOWN_S
        while True:
            nodes = self._slurm_nodes(text)
            ready = not any(
                node.drained_flag or NodeState.NOT_RESPONDING in node.states for node in nodes
            )
            # Not an error: the test job waits for the node, and its own result says so.
            if ready or self._clock() > until:
                return nodes
            self._sleep(_LOOK_S)

    def _slurm_nodes(self, text: ReservationText) -> list[SlurmNode]:
        return [node for name in text.nodes for node in self._slurm.nodes([SlurmName(name)])]

    def _restore_quietly(self, text: ReservationText) -> None:
        try:
            self.restore(text.name, text)
        except CommandError:
            pass  # the next sweep finds it

    # --- testing -------------------------------------------------------------------------------

    def budget_s(self, checks: Sequence[str]) -> float:
        """Seconds that these checks may take one after the other. Raises ``ConfigError``."""
        _, active = describe(self._config)
        return sum(_limit_s(name, active) + active.start_s + _SPARE_S for name in checks)

    def test(self, reserved: ReservedNodes, check: str, *, for_return: bool = False) -> Result:
        """Run one check as one job on all reserved nodes. The result of a check that cannot run is
        error; this never raises ``CommandError``.
        """
        begin = self._clock()
        try:
            judged = self._judge(reserved, check, for_return=for_return)
        except HoldfastError as error:
            judged = could_not_run(str(error))
        names = tuple(str(node.name) for node in reserved.nodes)
        result = Result(
            check=check, verdict=judged.verdict, detail=judged.detail, readings=judged.readings
        )
        return result.on(names, at=begin, wall_s=round(self._clock() - begin, 3))

    def _judge(self, reserved: ReservedNodes, check: str, *, for_return: bool) -> Judged:
        described, active = describe(self._config, for_return=for_return)
        test, level, limits = load(check), CATALOGUE[check].level, active.limits(check)
        limit_s = test.time_limit_s(limits, level)
        module = "slurm_hooks.active.run_on_node"
        start = [active.python, "-I", "-m", module] if active.python else own_program(module)
        options = ["--config", str(self._config), *(["--for-return"] if for_return else [])]
        argv = [*start, check, *options]
        first = reserved.nodes[0]
        ranks = test.nodes > 1 and limits.mpi != "none"
        job = TestJob(
            name=f"holdfast-{check}",
            reservation=reserved.name,
            nodes=tuple(node.name for node in reserved.nodes),
            argv=tuple(argv),
            time_limit_s=limit_s + _SPARE_S,
            start_s=active.start_s,
            tasks_per_node=max(1, described.gpus) if test.nodes > 1 else 1,
            cpus=min(node.cpus for node in reserved.nodes),
            gpus=min(node.gpus for node in reserved.nodes),
            partition=active.partition or (first.partitions[0] if first.partitions else ""),
            mpi=limits.mpi if ranks else "none",
        )
        try:
            done = self._slurm.run_job(job, timeout_s=limit_s + active.start_s + 2 * _SPARE_S)
        except Unavailable as error:
            self._slurm.cancel_in(reserved.name)
            return could_not_run(f"the test job did not end: {error.problem}")
        result = decode(done.out)
        if result is not None and result.check == check:
            return Judged(verdict=result.verdict, detail=result.detail, readings=result.readings)
        # Ranks under MPI print a line each and no result of their own.
        if test.nodes > 1 and done.out.strip():
            ran = Ran(status=done.status, out=done.out, err=done.err, limit_s=limit_s)
            return test.read(ran, described, limits, level)
        why = one_line(done.err) or f"srun exited with {done.status}"
        return could_not_run(f"the test job failed: {why}")


def _limit_s(check: str, active: ActiveConfig) -> float:
    return load(check).time_limit_s(active.limits(check), CATALOGUE[check].level)
