"""The queries and writes of ``node_death`` in Slurm. They run in a contained worker."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast.errors import CommandError, Refused
from holdfast.node_states import NOT_DEFINED
from holdfast.policy.budget import Count
from holdfast.policy.node_death import in_slurm
from holdfast.policy.node_death.heartbeat import Death
from holdfast.policy.node_death.ring import EXCHANGE, neighbours, ring
from holdfast.policy.ownership import Undrained, overtaken
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.requeue_rules import MAX_DELAY_S
from slurm_hooks.agent.node_death import wire
from slurm_hooks.settings.settings import Settings

_DECISION_S = 2.0
"""A decision older than this is not written: slurmctld may have been frozen, and the node be back."""
_RETURN_S = 5.0
"""A return whose end was not seen took at most this time."""
_SLURMD_PORT = 6818
_PENDING = "PENDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The names of all nodes; address and slurmd's port of the neighbours. ``missing``: those without. ``count``:
    how many nodes are out of service."""

    names: tuple[SlurmName, ...]
    addresses: dict[SlurmName, tuple[str, int]]
    missing: tuple[str, ...] = ()
    count: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """This node is back in service. ``undrained``: what to ask accounting about, ``None``: nothing."""

    reason: str
    undrained: Undrained | None


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
        before = self._slurm.node_changes()
        found = self._slurm.nodes_fast()
        names = ring(node.name for node in found if not node.states & NOT_DEFINED)
        addresses: dict[SlurmName, tuple[str, int]] = {}
        missing = []
        near = neighbours(ring([*names, self._node]), self._node, EXCHANGE)
        rows = {node.name: node for node in self._slurm.nodes_in_full(near)} if near else {}
        for name, node in rows.items():
            try:
                address = _resolved(node.address or name)
            except OSError as error:
                missing.append(f"{name} ({node.address}): {error.strerror or error}")
            else:
                addresses[name] = (address, node.port or _SLURMD_PORT)
        count = Count.of(found, before.changes, before.counted_since)
        return Table(names=names, addresses=addresses, missing=tuple(missing), count=count)

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

    def come_back(self) -> Returned | None:
        """Return this node to service if agents set it DOWN; ``None``: they did not.

        Raises ``CommandError``.
        """
        node = self._slurm.node_state(self._node) or self._slurm.nodes([self._node])[0]
        if not self._is_own(node):
            return None
        before = self._slurm.node_changes()
        (node,) = self._slurm.nodes([self._node])
        if not self._is_own(node):
            return None
        self._slurm.resume([self._node])
        try:
            after: NodeChanges | None = self._slurm.node_changes()
        except CommandError:  # the node is back
            after = None
        return Returned(reason=node.reason, undrained=_to_ask_about(node, before, after))

    def check_return(self, undrained: Undrained) -> str:
        """Drain this node again if its return ended a drain that another user set between the read and the
        write (decision 019). What was done; empty: nothing, as far as accounting shows by now.

        Raises ``CommandError``.
        """
        past = self._slurm.past_drains(self._node, undrained.since)
        try:
            ended = overtaken(past, undrained)
        except LookupError:
            ended = None
        if ended is None:
            return ""
        (node,) = self._slurm.nodes([self._node])
        if kept := in_slurm.kept(node):
            return f"its return ended the drain of {ended.user}; now {kept}"
        reason = ended.reason or f"drained by {ended.user}"
        self._slurm.drain([self._node], reason)
        return f"drained again, its return had ended the drain of {ended.user}: {reason}"

    def _is_own(self, node: SlurmNode) -> bool:
        return in_slurm.is_own(node, lambda *of: wire.is_proof(self._key, self._node, *of))


def _to_ask_about(
    node: SlurmNode, before: NodeChanges, after: NodeChanges | None
) -> Undrained | None:
    """``None``: slurmctld changed no other node at that time, so the return ended no drain."""
    until, changes = before.at + timedelta(seconds=_RETURN_S), None
    if after is not None:
        until = after.at
        if after.counted_since == before.counted_since:
            changes = after.changes - before.changes
    looked_at = before.at - timedelta(seconds=1)  # Slurm reports whole seconds
    found = Undrained(
        reason=node.reason, since=looked_at, looked_at=looked_at, until=until, changes=changes
    )
    return None if found.alone else found


def _resolved(address: str) -> str:
    """Raises OSError."""
    found = socket.getaddrinfo(address, None, socket.AF_INET, socket.SOCK_DGRAM)
    return str(found[0][4][0])
