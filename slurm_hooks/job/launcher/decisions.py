"""What follows a failed attempt: the evidence, the decision, and the nodes to avoid."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from types import MappingProxyType

from holdfast.config.kill_switch_files import ALL, is_off
from holdfast.policy.job.decision import decide
from holdfast.policy.job.excluded_nodes import exclusion
from holdfast.policy.job.facts import FailureKind, JobDecision, Next
from holdfast.policy.job.named_nodes import said
from holdfast.slurm.hostlist import names_in
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.launcher.inputs import Job, Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome import gpu_processes
from slurm_hooks.job.outcome.agent_incidents import with_incidents
from slurm_hooks.job.outcome.attempt_end import AttemptEnd, after_transfer, facts
from slurm_hooks.job.outcome.job_look import JobLook
from slurm_hooks.job.outcome.node_faults import JobSnapshot, spare_nodes
from slurm_hooks.job.past_attempts import JournalAttempt, excluded_nodes, past
from slurm_hooks.job.progress.pairs import pair_test
from slurm_hooks.job.resume.search import next_checkpoint


class Decisions:
    """The decisions about one job. ``switched_off``: by ``off/all``, when it was first asked for."""

    def __init__(self, job: Job, tools: Tools, control: JobControl, look: JobLook) -> None:
        self._job, self._tools, self._control, self._look = job, tools, control, look

    @cached_property
    def switched_off(self) -> bool:
        return is_off(ALL)

    def decide(
        self,
        number: int,
        snapshot: JobSnapshot,
        ended: AttemptEnd,
        history: Sequence[JournalAttempt],
    ) -> JobDecision:
        """What follows attempt ``number``, by the evidence, which goes into the journal with it."""
        journal = self._tools.journal
        reported = self._look.reported(snapshot)
        snapshot = with_incidents(snapshot, reported, self._look.nodes)
        ended = reported.applied_to(ended, snapshot)
        spares = None
        if not snapshot.faults:
            ended = self._looked_for_others(self._tested(number, ended, history))
            if ended.suspects:
                spares = self._spares(ended.suspects, snapshot)
            ended = after_transfer(ended, history, spares)
        journal.add(
            "evidence",
            attempt=number,
            faults=[fault.record() for fault in snapshot.faults or ()],
            incidents=reported.records(),
            attribution=reported.attribution_with(snapshot).value,
            **ended.record(),
        )
        node_count = max(1, self._job.context.node_count)
        known = facts(snapshot, ended, history, node_count, reported.job_fault)
        tried = past(journal.events())
        checkpoint = next_checkpoint(self._job.checkpoints, tried)
        known = replace(known, spares=spares, next_checkpoint=checkpoint)
        decision = decide(known, self._tools.config, datetime.now(timezone.utc))
        decision = said(
            decision,
            _named(snapshot),
            _out_of_service(snapshot),
            replaced=self._may_replace,
        )
        if self.switched_off:
            decision = JobDecision(next=Next.FAIL, why="Holdfast is switched off (off/all)")
        journal.add(
            "decision",
            attempt=number,
            action=decision.next.value,
            why=decision.why,
            exclude=list(decision.exclude),
        )
        listed = snapshot.job.excluded if snapshot.job else ""
        self.set_exclusion(decision.exclude, listed, snapshot.tested)
        say(f"decision: {decision.next.value}: {decision.why}")
        return decision

    @property
    def _may_replace(self) -> bool:
        return self._tools.config.replace_nodes.allows(asked=self._job.replace_nodes)

    def _spares(self, suspects: Collection[SlurmName], snapshot: JobSnapshot) -> int | None:
        """The nodes that could replace the suspects; none if these are nodes that the job names."""
        if not self._may_replace and set(suspects) & _named(snapshot):
            return 0
        return spare_nodes(self._tools.slurm, self._look.nodes)

    def _tested(
        self, number: int, ended: AttemptEnd, history: Sequence[JournalAttempt]
    ) -> AttemptEnd:
        """After the second timeout that names no rank: with what a test of the nodes in pairs finds."""
        last = history[-1] if history else None
        due = pair_test.is_due(
            ended.cause,
            suspects=ended.kind is FailureKind.NODE,
            progressed=ended.progressed,
            before=last.fingerprint if last and last.failed and not last.progressed else "",
            nodes=len(self._look.nodes),
        )
        if not due or self.switched_off:
            return ended
        say("the second timeout that names no rank: testing the nodes in pairs")
        job_id, signals = self._job.context.job_id, self._tools.signals
        test = pair_test.run(job_id, self._look.nodes, lambda: signals.terminated)
        say(pair_test.text(test))
        failed = {node: list(others) for node, others in test.failed.items()}
        self._tools.journal.add("pairs", attempt=number, tested=test.tested, failed=failed)
        if not failed:
            return ended
        return replace(ended, kind=FailureKind.NODE, suspects=frozenset(map(SlurmName, failed)))

    def _looked_for_others(self, ended: AttemptEnd) -> AttemptEnd:
        """After an out-of-memory error of CUDA that names other processes: whether these are the job's."""
        pids, host = gpu_processes.named(ended.cause), ended.host
        if not pids or host not in self._look.nodes or self.switched_off:
            return ended
        others = gpu_processes.not_of_the_job(self._job.context.job_id, host, pids)
        if not others:
            return ended
        named = ", ".join(map(str, others))
        say(f"{host}: another process uses the GPU's memory, and is not of this job: pid {named}")
        return replace(ended, kind=FailureKind.NODE, suspects=frozenset({host}))

    def set_exclusion(
        self,
        suspects: Sequence[SlurmName],
        listed: str,
        tested: Mapping[SlurmName, datetime] = MappingProxyType({}),
    ) -> None:
        """The nodes that the next run avoids, of which ``listed`` are those that the job avoids now. ``tested``:
        nodes that have passed an inspection, and when."""
        ours = excluded_nodes(self._tools.journal.events())
        now = datetime.now(timezone.utc)
        self._control.exclusion = exclusion(ours, suspects, names_in(listed), now, tested)


def _named(snapshot: JobSnapshot) -> frozenset[SlurmName]:
    """The nodes that the job names (``sbatch --nodelist``)."""
    return frozenset(map(SlurmName, names_in(snapshot.job.required if snapshot.job else "")))


def _out_of_service(snapshot: JobSnapshot) -> frozenset[SlurmName]:
    """The nodes of the job on which Slurm starts no job."""
    faults = snapshot.faults or ()
    return frozenset(
        fault.node for fault in faults if fault.out_of_service and not fault.usable_again
    )
