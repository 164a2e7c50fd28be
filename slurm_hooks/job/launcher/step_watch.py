"""What is looked at while a step of one attempt runs, and why the step must end."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.policy.job.facts import JobDecision
from slurm_hooks.job.launcher.inputs import Attempt, Job, Tools, attempt_id
from slurm_hooks.job.launcher.notices import Notices
from slurm_hooks.job.launcher.time_limit import TimeLimit
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome.checkpoints_left import Left, left
from slurm_hooks.job.outcome.job_look import JobLook
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.past_attempts import hangs_in_a_row
from slurm_hooks.job.progress import slow_watch
from slurm_hooks.job.progress.degraded_nodes import DegradedNodes, idle_nodes
from slurm_hooks.job.progress.failure_evidence import BAD_NODE, FailureEvidence
from slurm_hooks.job.progress.folder_state import Abandonable
from slurm_hooks.job.progress.hang_watch import HangWatch
from slurm_hooks.job.progress.silence import HangLimits
from slurm_hooks.job.progress.slow_watch import SlowWatch
from slurm_hooks.job.resume.search import search
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.settings.notify import JobEvent

_JOURNAL_S = 10.0


class StepWatch:
    """Of one attempt. ``hang``, ``evidence``: see there. ``proved``: the checkpoint that the attempt
    tries is a good one, so the step ends; empty: not known.
    """

    def __init__(
        self,
        job: Job,
        tools: Tools,
        look: JobLook,
        notices: Notices,
        attempt: Attempt,
        switched_off: Callable[[], bool],
    ) -> None:
        """``switched_off``: nothing is ended."""
        self._tools, self._look_at, self._notices = tools, look, notices
        self._number, self._switched_off = attempt.number, switched_off
        self._search = search(attempt.choice, attempt.history)
        self.proved = ""
        self._began = time.monotonic()

        def left_now() -> Left:
            return left(job.checkpoints, attempt.choice)

        own, config = attempt_id(job, tools, attempt.number), tools.config
        self._limit = TimeLimit(job.before_limit, left_now, tools.signals.send)
        self._degraded = DegradedNodes(
            job.checkpoint_signal,
            left_now,
            tools.signals.send,
            lambda found: idle_nodes(tools.slurm, found, look.nodes),
            config.degraded_wait_s,
        )
        limits = HangLimits(
            timeout_s=config.hang_timeout_s if job.hang_timeout_s is None else job.hang_timeout_s,
            report_s=config.hang_report_s,
            of_site=job.hang_timeout_s is None,
        ).after(hangs_in_a_row(attempt.history))
        self.hang = HangWatch(own, look.nodes, job.checkpoints, limits, say)
        self.evidence = FailureEvidence(own, look.nodes, job.checkpoints, attempt.argv, say)
        self._slow = SlowWatch()

    def listen(self, listener: Listener) -> None:
        """The step has started. ``listener``: hears its output."""
        self.hang.listen(listener)
        self.evidence.listen(listener)
        listener.hear = self._slow.hear
        self._began = time.monotonic()

    def look(self) -> str:
        """Why the step must end now, empty if it may go on. The agents normally end the tasks on a
        bad node; this covers an agent that cannot."""
        snapshot = self._look_at.look_with_incidents()
        fatal = [fault for fault in snapshot.faults or () if fault.fatal]
        self._report_slowdown(snapshot)
        if self._switched_off():
            return ""
        if not fatal:
            self.proved = self.proved or self._search.proved(time.monotonic() - self._began)
            why = self.proved or self._limit.look(snapshot.job, time.time())
            why = why or self._degraded.look(snapshot, time.monotonic())
            return why or self.hang.look(snapshot.job, time.monotonic())
        self.evidence.lost = frozenset(fault.node for fault in fatal if fault.is_gone)
        return f"{BAD_NODE}{', '.join(map(str, fatal))}"

    def _report_slowdown(self, snapshot: JobSnapshot) -> None:
        found = self._slow.take()
        if found is None:
            return
        degraded = [f"{fault.node} ({fault.code})" for fault in snapshot.faults or ()]
        reported = self._look_at.reported(snapshot)
        why = slow_watch.text(found, [*degraded, *reported.of_nodes()])
        say(why)
        self._notices.tell(JobEvent.SLOW, why, self._number)
        journal, number = self._tools.journal, self._number
        Abandonable(lambda: journal.add("slow", attempt=number, why=why), _JOURNAL_S).result()

    def ended(self, end: StepEnd) -> JobDecision | None:
        """What to do after a step that ended to continue elsewhere; None: it ended for another reason."""
        return self._limit.ended(end) or self._degraded.ended(end)
