"""Shortens the list of nodes that a requeued job names (``sbatch --nodelist``) by those that are bad.

The agent does it as root, where the job's owner or the site has allowed it: the launcher has ended by then. It
removes only nodes on which the job could not start, and nodes that the owner's launcher wants to avoid, so the job
never gets a node that it could not have had without the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.errors import Refused
from holdfast.policy.job.named_nodes import ReplaceNodes, kept
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.slurm.hostlist import names_in
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.marker import Marker


class NodesClient(Protocol):
    """The calls of Slurm that are used here. They raise CommandError."""

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]: ...
    def require(self, job_id: int, names: Sequence[SlurmName]) -> None:
        """Set a pending job's ReqNodeList, also to an empty list."""
        ...


class NamedNodes:
    """``policy``: what the site allows; ``log`` receives one line about each change."""

    def __init__(
        self, slurm: NodesClient, policy: ReplaceNodes, log: Callable[[str], None]
    ) -> None:
        self._slurm, self._policy, self._log = slurm, policy, log

    def is_due(self, marker: Marker, job: SlurmJob) -> bool:
        """Whether the nodes of the job's list have to be looked at: it was requeued, and waits."""
        allowed = self._policy.allows(asked=marker.replace_nodes)
        waits = "PENDING" in job.state.split("+") and job.restarts > marker.restarts
        return allowed and waits and bool(job.required)

    def bad(self, marker: Marker, job: SlurmJob) -> Callable[[], None] | None:
        """Looks at the nodes. The change to make; None: there is none. Raises Unavailable."""
        named = tuple(map(SlurmName, names_in(job.required)))
        try:
            left = kept(self._slurm.nodes(named), marker.exclude)
        except Refused as error:  # a node that is no longer configured
            self._log(f"job {job.job_id}: {error}")
            return None
        gone = sorted(set(named) - set(left))
        if not gone:
            return None

        def change() -> None:
            try:
                self._slurm.require(job.job_id, left)
            except Refused as error:
                self._log(f"job {job.job_id}: {error}")
                return
            self._log(
                f"job {job.job_id}: {', '.join(gone)} removed from the nodes that it names "
                f"({', '.join(left) or 'none left'})"
            )

        return change
