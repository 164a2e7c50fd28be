"""The queries and writes of ``node_death`` in Slurm. They run in a contained worker."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import CommandError, Refused
from holdfast.node_states import NOT_DEFINED
from holdfast.policy.node_death import in_slurm
from holdfast.policy.node_death.heartbeat import Death
from holdfast.policy.node_death.ring import EXCHANGE, neighbours, ring
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.requeue_rules import MAX_DELAY_S
from slurm_hooks.agent.node_death import wire
from slurm_hooks.settings.settings import Settings

_DECISION_S = 2.0
"""A decision older than this is not written: slurmctld may have been frozen, and the node be back."""
_SLURMD_PORT = 6818
_PENDING = "PENDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The names of all nodes; address and slurmd's port of the neighbours. ``missing``: those without."""

    names: tuple[SlurmName, ...]
    addresses: dict[SlurmName, tuple[str, int]]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a ``Death`` led to. ``why``: it led to nothing. ``jobs``: those whose batch script ran there."""

    name: SlurmName
    reason: str = ""
    written: bool = False
    why: str = ""
    jobs: tuple[int, ...] = field(default_factory=tuple)


class Step:
    """``node``: this node. ``act``: False in mode observe."""

    def __init__(self, node: SlurmName, config: Settings, key: bytes, *, act: bool) -> None:
        slurm = config.cluster.slurm
        self._node, self._budget, self._key, self._act = node, config.node.budget, key, act
        self._slurm = SlurmCli(slurm.timeout_s, slurm.bin)

    def table(self) -> Table:
        """Raises ``CommandError`` if Slurm does not answer."""
        found = self._slurm.nodes_fast()
        names = ring(node.name for node in found if not node.states & NOT_DEFINED)
        addresses: dict[SlurmName, tuple[str, int]] = {}
        missing = []
        for name in neighbours(ring([*names, self._node]), self._node, EXCHANGE):
            (node,) = self._slurm.nodes([name])
            try:
                address = _resolved(node.address or name)
            except OSError as error:
                missing.append(f"{name} ({node.address}): {error.strerror or error}")
            else:
                addresses[name] = (address, node.port or _SLURMD_PORT)
        return Table(names=names, addresses=addresses, missing=tuple(missing))

    def set_down(self, death: Death, address: str) -> Outcome:
        """Set the node DOWN, if its state in Slurm, the budget and the mode allow it.

        ``address``: where it was silent. Raises ``CommandError`` if Slurm does not answer.
        """
        since = time.monotonic()
        name = death.name
        (node,) = self._slurm.nodes([name])
        reason = in_slurm.reason_of(
            death, self._node, wire.proof(self._key, name, death.run, self._node)
        )
        why = in_slurm.kept(node)
        if not why and node.address and _resolved(node.address) != address:
            why = f"its address is {node.address} by now"
        if not why:
            why = in_slurm.over_budget(name, self._slurm.nodes_fast(), self._budget)
        if why or not self._act:
            return Outcome(name=name, reason=reason, why=why)
        jobs = self._slurm.running_jobs(name)
        (node,) = self._slurm.nodes(
            [name]
        )  # DOWN overwrites the reason of a drain since the first read
        why = in_slurm.kept(node)
        if why:
            return Outcome(name=name, reason=reason, why=why)
        if time.monotonic() - since > _DECISION_S:
            raise Refused(["scontrol"], f"slurmctld needed more than {_DECISION_S:g} s to answer")
        self._slurm.set_down([name], reason)
        there = tuple(job.job_id for job in jobs if job.batch_host == name)
        return Outcome(name=name, reason=reason, written=True, jobs=there)

    def start(self, jobs: Sequence[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """End Slurm's delay for the jobs that it requeued. Returns those to try again, and a line for each
        that was started. The agent of their batch host, which normally does this, is gone.
        """
        again, lines = [], []
        for job_id in jobs:
            try:
                job = self._slurm.job(job_id)
                if job is None or _PENDING not in job.state or not job.restarts:
                    continue
                if job.state != _PENDING:
                    again.append(job_id)  # its epilogs still run on other nodes
                elif self._is_delayed(job):
                    self._slurm.start_now(job_id)
                    lines.append(f"{job_id}: starts without Slurm's requeue delay")
            except Refused as error:
                lines.append(f"{job_id}: {error}")
            except CommandError:
                again.append(job_id)
        return tuple(again), tuple(lines)

    def _is_delayed(self, job: SlurmJob) -> bool:
        """By Slurm itself after a requeue: a start time that a person set is normally later."""
        if job.start_at is None:
            return False
        return 0 < (job.start_at - self._slurm.clock()).total_seconds() <= MAX_DELAY_S

    def come_back(self) -> str:
        """Return this node to service if agents set it DOWN. What was done; empty: nothing.

        Raises ``CommandError``.
        """
        (node,) = self._slurm.nodes([self._node])
        if not in_slurm.is_own(node, lambda *of: wire.is_proof(self._key, self._node, *of)):
            return ""
        self._slurm.resume([self._node])
        return f"returned to service, it is not dead: {node.reason}"


def _resolved(address: str) -> str:
    """Raises OSError."""
    found = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_DGRAM)
    return str(found[0][4][0])
