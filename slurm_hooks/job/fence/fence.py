"""The launcher's part of the fence: an attempt starts no task while tasks of an earlier one may write, and
ends its own as soon as a newer one has begun (decision 41).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO

from holdfast.adapters import safe_file
from holdfast.errors import CommandError
from holdfast.node_states import JOBS_LOST
from holdfast.policy.job.fence import Ended, wait_s
from holdfast.slurm.client import SlurmClient
from holdfast.slurm.hostlist import names_in
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.fence.journal_watch import JournalWatch
from slurm_hooks.job.fence.newer import JournalReader, Newer, Run, open_as_user, why_ended
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.log import say
from slurm_hooks.job.past_attempts import past

_SILENT = JOBS_LOST | {NodeState.NOT_RESPONDING, NodeState.UNKNOWN}


class Superseded(Exception):
    """A newer attempt has begun: this launcher must neither start, decide nor request anything more."""


class Fence:
    """Of one launcher."""

    def __init__(self, context: JobContext, journal: Journal, slurm: SlurmClient) -> None:
        self._context, self._journal, self._slurm = context, journal, slurm
        self._run = Run(context.restarts, context.started_at)
        self._watch: JournalWatch | None = None

    @property
    def found(self) -> str:
        """Why the running step must end at once; empty: it may go on."""
        return self._watch.why if self._watch else ""

    def check(self, attempt: int) -> None:
        """Raises ``Superseded``. ``attempt``: this launcher's newest one; 0: none yet."""
        why = self.superseded(attempt)
        if why:
            raise Superseded(why)

    def superseded(self, attempt: int) -> str:
        """As ``check``: why; empty: no newer attempt has begun."""
        newer = Newer(attempt, self._run)
        newer.take(self._journal.all_events())
        return why_ended(newer.event) if newer.event is not None else ""

    def watch(self, attempt: int, wake: Callable[[], None]) -> None:
        """Begins to look, while a step runs, until ``stop``."""
        self.stop()
        reader = JournalReader(self._open, attempt, self._run)
        self._watch = JournalWatch(reader, wake)

    def stop(self) -> None:
        if self._watch:
            self._watch.stop()
        self._watch = None

    def wait(self, attempt: int, pause: Callable[[float], None]) -> None:
        """Waits until no earlier attempt can write any more. Raises ``Superseded``.

        Call it after the attempt is in the journal, and before it chooses a checkpoint: the earlier one may
        have written a newer one meanwhile.
        """
        seconds = self.due_s(attempt)
        if seconds:
            pause(seconds)
            self.settled(attempt)

    def due_s(self, attempt: int) -> float:
        """How long this attempt has to wait before its first task."""
        history = past(self._journal.all_events())
        last = next((one for one in reversed(history) if one.started), None)
        # All its tasks have ended, so nothing can write any more.
        if last is None or last.whole:
            return 0.0
        silent = self._silent(last.nodes)
        # Nodes that answer slurmctld have been told to end the job's tasks; the others may not have
        # heard of it.
        ended = Ended.BY_SLURM if silent is not None and not silent else Ended.UNKNOWN
        seconds, why = wait_s(ended), _reason(last.number, silent)
        say(f"{why}: waiting {seconds:g} s, so that two attempts never write checkpoints together")
        self._journal.add("fence", attempt=attempt, wait_s=seconds, why=why)
        return seconds

    def settled(self, attempt: int) -> None:
        """After that time: raises ``Superseded``."""
        other = self._other_run()
        if other:
            raise Superseded(other)
        self.check(attempt)

    def _silent(self, hostlist: str) -> tuple[SlurmName, ...] | None:
        """The nodes of the attempt that do not answer slurmctld; None: not known."""
        names = tuple(SlurmName(name) for name in names_in(hostlist))
        try:
            found = self._slurm.nodes(names) if names else []
        except CommandError:
            return None
        answering = {node.name for node in found if not node.states & _SILENT}
        return tuple(name for name in names if name not in answering) if names else None

    def _other_run(self) -> str:
        """Whether slurmctld, killed meanwhile, has forgotten the requeue that began this run."""
        try:
            job = self._slurm.job(self._context.job_id)
        except CommandError:
            return ""
        # A job that is unknown is a slurmctld that does not have its state yet: the journal decides
        # alone.
        if job is None or job.restarts == self._context.restarts:
            return ""
        return f"slurmctld runs restart {job.restarts} of this job, and this is {self._context.restarts}"

    def _open(self) -> IO[bytes]:
        path = self._journal.path
        return open_as_user(str(path)) if os.geteuid() else safe_file.open_regular(path).file


def _reason(number: int, silent: Sequence[SlurmName] | None) -> str:
    if silent:
        names = ", ".join(silent[:4]) + (" and others" if len(silent) > 4 else "")
        return f"{names} may still run attempt {number} and does not answer slurmctld"
    if silent is None:
        return f"attempt {number} may still run: its nodes are not known to answer slurmctld"
    return f"the end of attempt {number} was not recorded"
