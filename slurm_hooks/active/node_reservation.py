"""Keeps nodes for a test: reserves them, undrains those that were drained, runs test jobs, puts back.

The order is the safety: the reservation stands before the node is undrained, and the drain stands
again before the reservation goes. What is left by a crash at any point is put back by ``restore``,
from what the reservation itself says (``keep``).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CommandError, HoldfastError, Unavailable
from holdfast.reason import without_slurms_words
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance, TestJob
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import CATALOGUE, load
from slurm_hooks.active import reservation_text as keeps
from slurm_hooks.active.config import ActiveConfig
from slurm_hooks.active.reservation_text import PREFIX, Maker, Purpose, ReservationText
from slurm_hooks.active.result import Judged, Result, could_not_run, decode, one_line
from slurm_hooks.active.run import Ran
from slurm_hooks.active.run_on_node import describe
from slurm_hooks.node import machine
from slurm_hooks.node.process import process_state

_SHOWN_S = 15.0
"""slurmctld marks the nodes of a new reservation within three seconds."""
_SPARE_S = 60.0
"""Of Slurm's time limit beyond the check's own, which is to end it."""
_RELEASE_S = 15.0
_LOOK_S = 0.3


class Occupied(HoldfastError):
    """The node cannot be kept now: somebody else tests it, or it is no longer what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Nodes that are kept: the reservation's name, what it says, and the nodes as Slurm shows them."""

    name: str
    keep: ReservationText
    nodes: tuple[SlurmNode, ...]


def this_process() -> Maker:
    """The maker of reservations that this process makes."""
    pid = os.getpid()
    found = process_state(pid)
    return Maker(
        host=os.uname().nodename,
        boot_id=machine.boot_id(),
        pid=pid,
        start=found[1] if found else 0,
    )


class NodeReservation:
    """Every method raises ``CommandError``; ``sleep`` and ``clock`` are for tests."""

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

    # --- keeping -------------------------------------------------------------------------------

    def take(
        self, purpose: Purpose, nodes: Sequence[SlurmName], *, for_s: float, drained: str = ""
    ) -> Kept:
        """ReservationText ``nodes``: in service and idle ones, or (``drained``: its reason) a drained one.

        Afterwards they can run our jobs and nobody else's. Raises ``Occupied``.
        """
        self._sweep_stale(nodes)
        keep = ReservationText(
            purpose=purpose,
            nodes=tuple(nodes),
            maker=self._maker,
            until=int(self._clock() + for_s + 2 * _SPARE_S),
            drained=drained,
        )
        # A node that was drained must not fall to users when the time is up: it stays kept until
        # somebody has drained it again.
        minutes = None if drained else math.ceil(for_s / 60) + 2
        if not self._slurm.reserve(keep.name, nodes, keep.comment, minutes=minutes):
            raise Occupied(f"{keep.name} is there already")
        try:
            self._alone(keep)
            shown = self._shown(keep)
            self._unchanged(shown, drained)
            if drained:
                self._slurm.undrain(list(nodes))
                shown = self._awake(keep)
        except BaseException:
            self._restore_quietly(keep)
            raise
        return Kept(name=keep.name, keep=keep, nodes=tuple(shown))

    def restore(self, name: str, keep: ReservationText) -> bool:
        """As before the test: drained with the old reason if it was, its jobs ended, the reservation
        gone. False: a job of it does not end yet; the node stays kept, come again.
        """
        if keep.drained:
            nodes = self._slurm_nodes(keep)
            again = [node.name for node in nodes if not node.drained_flag]
            if again:
                self._slurm.drain(again, keep.drained)
        return self.release(name)

    def release(self, name: str) -> bool:
        """End the reservation's jobs and remove it; the nodes' drains stay as they are."""
        until = self._clock() + _RELEASE_S
        while not self._slurm.unreserve(name):
            if self._clock() > until:
                return False
            self._slurm.cancel_in(name)
            self._sleep(_LOOK_S)
        return True

    def sweep(self, only: Sequence[str] = ()) -> list[str]:
        """Restore what dead makers left behind, on all nodes or ``only`` these; their names."""
        alive = self._alive
        swept = []
        for one in self._slurm.reservations(PREFIX):
            keep = keeps.read(one)
            if keep is None or (only and not set(only) & set(keep.nodes)):
                continue
            if keeps.stale(keep, self._maker, alive(keep.maker), self._clock()):
                self.restore(one.name, keep)
                swept.append(one.name)
        return swept

    def on(self, node: SlurmName) -> list[tuple[str, ReservationText]]:
        """Our reservations that cover the node."""
        return keeps.on(node, self._slurm.reservations(PREFIX))

    def _sweep_stale(self, nodes: Sequence[str]) -> None:
        self.sweep(nodes)
        for node in nodes:
            for name, keep in self.on(SlurmName(node)):
                raise Occupied(f"{node} is under test by {keep.maker.host} ({name})")

    def _alive(self, maker: Maker) -> list[int]:
        found = process_state(maker.pid) if maker.host == self._maker.host else None
        return [found[1]] if found and found[0] not in "ZX" else []

    def _alone(self, keep: ReservationText) -> None:
        """Of two who kept a node in the same moment the one whose name sorts first goes on."""
        for node in keep.nodes:
            others = [name for name, _ in self.on(SlurmName(node)) if name != keep.name]
            if any(name < keep.name for name in others):
                raise Occupied(f"{node} is under test already ({others[0]})")

    def _shown(self, keep: ReservationText) -> list[SlurmNode]:
        """The nodes once each of them shows the reservation: from here on everybody can see why
        they are undrained.
        """
        until = self._clock() + _SHOWN_S
        while True:
            nodes = self._slurm_nodes(keep)
            if all(node.reservation == keep.name for node in nodes):
                return nodes
            if self._clock() > until:
                raise Unavailable(["scontrol"], f"{keep.name} does not show within {_SHOWN_S:g} s")
            self._sleep(_LOOK_S)

    def _unchanged(self, nodes: Sequence[SlurmNode], drained: str) -> None:
        for node in nodes:
            if node.busy:
                raise Occupied(f"{node.name}: a job started meanwhile")
            if drained and not (node.drained_flag and without_slurms_words(node.reason) == drained):
                raise Occupied(f"{node.name}: no longer drained with that reason")
            if not drained and node.drained_flag:
                raise Occupied(f"{node.name}: drained meanwhile ({node.reason})")

    def _awake(self, keep: ReservationText) -> list[SlurmNode]:
        """The nodes once they can start a job: after an undrain slurmctld asks slurmd first."""
        until = self._clock() + _SHOWN_S
        while True:
            nodes = self._slurm_nodes(keep)
            ready = not any(
                node.drained_flag or NodeState.NOT_RESPONDING in node.states for node in nodes
            )
            if ready or self._clock() > until:
                return nodes
            self._sleep(_LOOK_S)

    def _slurm_nodes(self, keep: ReservationText) -> list[SlurmNode]:
        return [node for name in keep.nodes for node in self._slurm.nodes([SlurmName(name)])]

    def _restore_quietly(self, keep: ReservationText) -> None:
        try:
            self.restore(keep.name, keep)
        except CommandError:
            pass  # the next one to come finds it

    # --- testing -------------------------------------------------------------------------------

    def budget_s(self, checks: Sequence[str]) -> float:
        """How long these checks may take in all, one after the other. Raises ``ConfigError``."""
        _, active = describe(self._config)
        return sum(_limit_s(name, active) + active.start_s + _SPARE_S for name in checks)

    def test(self, kept: Kept, check: str, *, for_gate: bool = False) -> Result:
        """One check as one job on all the kept nodes. What cannot be run says so; never raises a
        ``CommandError``.
        """
        begin = self._clock()
        try:
            judged = self._judge(kept, check, for_gate=for_gate)
        except HoldfastError as error:
            judged = could_not_run(str(error))
        names = tuple(str(node.name) for node in kept.nodes)
        result = Result(
            check=check, verdict=judged.verdict, detail=judged.detail, readings=judged.readings
        )
        return result.on(names, at=begin, wall_s=round(self._clock() - begin, 3))

    def _judge(self, kept: Kept, check: str, *, for_gate: bool) -> Judged:
        described, active = describe(self._config, for_gate=for_gate)
        test, level, limits = load(check), CATALOGUE[check].level, active.limits(check)
        limit_s = test.time_limit_s(limits, level)
        argv = [
            active.python or sys.executable, "-I", "-m", "slurm_hooks.active.run_on_node", check,
            "--config", str(self._config), *(["--for-gate"] if for_gate else []),
        ]  # fmt: skip
        first = kept.nodes[0]
        ranks = test.nodes > 1 and limits.mpi != "none"
        job = TestJob(
            name=f"holdfast-{check}",
            reservation=kept.name,
            nodes=tuple(node.name for node in kept.nodes),
            argv=tuple(argv),
            time_limit_s=limit_s + _SPARE_S,
            start_s=active.start_s,
            tasks_per_node=max(1, described.gpus) if test.nodes > 1 else 1,
            cpus=min(node.cpus for node in kept.nodes),
            gpus=min(node.gpus for node in kept.nodes),
            partition=active.partition or (first.partitions[0] if first.partitions else ""),
            mpi=limits.mpi if ranks else "none",
        )
        try:
            done = self._slurm.run_job(job, timeout_s=limit_s + active.start_s + 2 * _SPARE_S)
        except Unavailable as error:
            self._slurm.cancel_in(kept.name)
            return could_not_run(f"the job did not end: {error.problem}")
        said = decode(done.out)
        if said is not None and said.check == check:
            return Judged(verdict=said.verdict, detail=said.detail, readings=said.readings)
        if test.nodes > 1 and done.out.strip():
            ran = Ran(status=done.status, out=done.out, err=done.err, limit_s=limit_s)
            return test.read(ran, described, limits, level)
        why = one_line(done.err) or f"srun ended with {done.status}"
        return could_not_run(f"Slurm did not run it: {why}")


def _limit_s(check: str, active: ActiveConfig) -> float:
    return load(check).time_limit_s(active.limits(check), CATALOGUE[check].level)
