"""Runs jobs during a campaign, and sees that none of them is stuck."""

from __future__ import annotations

import time

from testbed.errors import SandboxError

from tests.chaos.campaign.shared import Campaign
from tests.e2e.job import training

STUCK_S = 150.0
"""A job that is RUNNING for so long without a step is stuck. Slurm's own requeue delay is 121 s."""


class Jobs:
    """Jobs under ``holdfast run``, one after the other in each place."""

    def __init__(self, campaign: Campaign) -> None:
        self._all, self._box = campaign, campaign.box
        self._running: list[training.Training | None] = [None] * campaign.jobs
        self._moved: dict[int, tuple[int, float]] = {}
        self._counted: set[int] = set()

    def run(self) -> None:
        while self._all.going():
            for place, job in enumerate(self._running):
                if job is None or self._ended(job):
                    self._running[place] = self._submit()
            time.sleep(1)
        end = time.monotonic() + STUCK_S + 60
        while any(job and not self._ended(job) for job in self._running) and time.monotonic() < end:
            time.sleep(1)
        for job in self._running:
            if job is not None and not self._ended(job):
                self._all.broken(
                    "jobs end", f"job {job.job_id} is {self._state(job)}\n{job.log()[-3000:]}"
                )
        self._box.run(["scancel", "--user=alice"], check=False)

    def _submit(self) -> training.Training | None:
        try:
            job = training.submit(self._box, steps=80)
        except (SandboxError, ValueError):
            return None  # slurmctld is away
        self._all.count.add("job submitted")
        self._moved[job.job_id] = (0, time.monotonic())
        return job

    def _state(self, job: training.Training) -> str:
        try:
            return job.state
        except (SandboxError, ValueError, LookupError):
            argv = ["timeout", "5", "scontrol", "show", "job", str(job.job_id)]
            answer = self._box.run(argv, check=False)
            # slurmctld was killed before it had saved the job.
            return "lost by slurmctld" if "Invalid job id" in answer.stderr else "unknown"

    def _ended(self, job: training.Training) -> bool:
        state = self._state(job)
        now = time.monotonic()
        steps, since = self._moved[job.job_id]
        seen = len(job.steps())
        if seen != steps or state != "RUNNING":
            self._moved[job.job_id] = (seen, now)
        elif now - since > STUCK_S:
            self._all.broken(
                "no job RUNNING without progress",
                f"job {job.job_id}: no step for {now - since:.0f} s\n{job.log()[-3000:]}\n{self._scene(job)}",
            )
            self._box.run(["scancel", str(job.job_id)], check=False)
            self._moved[job.job_id] = (seen, now)
        ended = state not in ("unknown", "RUNNING", "PENDING") and "COMPLETING" not in state
        held = state == "PENDING" and "held" in self._reason(job).lower()
        if (ended or held) and job.job_id not in self._counted:
            self._counted.add(job.job_id)
            self._all.count.add(f"job {'held' if held else state}")
        if held:
            self._box.run(["scancel", str(job.job_id)], check=False)
        return ended or held

    def _scene(self, job: training.Training) -> str:
        """What Slurm says of the job and its nodes, what runs there, and what was logged last."""
        commands = (
            ["scontrol", "show", "job", str(job.job_id)],
            ["scontrol", "show", "step", str(job.job_id)],
            ["squeue"],
            ["sinfo", "-N", "-o", "%N %T %E"],
        )
        parts = [self._box.run(["timeout", "5", *argv], check=False).stdout for argv in commands]
        parts.append(self._all.tail("/var/log/slurm/slurmctld.log", f"JobId={job.job_id} ", 30))
        try:
            nodes = job.nodes()
        except (SandboxError, ValueError, LookupError):
            nodes = []
        for node in nodes:
            parts += [f"-- {node}", self._all.scene(node)]
        return "\n".join(parts)

    def _reason(self, job: training.Training) -> str:
        try:
            return str(job.job()["state_reason"])
        except (SandboxError, ValueError, LookupError):
            return ""
