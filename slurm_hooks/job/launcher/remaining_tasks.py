"""Ends what an attempt left running: it would write the same checkpoints as the next one."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

from slurm_hooks.job.launcher.inputs import Job, Tools, attempt_id
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.log import say
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.overlap_step import environment, overlapping


class RemainingTasks:
    """The tasks and processes of the attempts of one job."""

    def __init__(self, job: Job, tools: Tools, control: JobControl) -> None:
        self._job, self._tools, self._control = job, tools, control

    def end(self, attempt: int, steps: frozenset[str]) -> None:
        """Sends SIGKILL to the tasks of these steps, or of the whole attempt, without waiting for
        slurmstepd, which waits for KillWait. Returns at once."""
        job_id, count = self._job.context.job_id, max(1, self._job.context.node_count)
        say("ending the step's remaining tasks")
        argv = [*overlapping(job_id, count), *kill_tasks.command(self._id(attempt), steps)]
        null, env = subprocess.DEVNULL, environment(os.environ)
        try:
            subprocess.Popen(
                argv, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True
            )
        except OSError as error:
            say(f"srun: {error.strerror}; Slurm ends them after KillWait")

    def end_now(self, attempt: int) -> None:
        """Ends all of the attempt: on this node by SIGKILL, elsewhere as ``end`` if slurmctld answers. Another
        process's environment, by which it is found, may not be readable for ever: nobody waits."""
        here = (self._id(attempt),)
        threading.Thread(target=kill_tasks.end_here, args=here, daemon=True, name="end").start()
        if self._job.context.node_count > 1:
            self.end(attempt, frozenset())

    def end_leftovers(self, attempt: int) -> None:
        """Ends processes that the attempt left on this node: ranks started without srun, or an srun
        whose script has exited."""
        left = list(kill_tasks.processes(Path("/proc"), self._id(attempt)))
        if not left:
            return
        pids = ", ".join(str(process.pid) for process in left[:8])
        say(f"ending processes left over from attempt {attempt}: pid {pids}")
        kill_tasks.end_leftovers(
            self._id(attempt), self._tools.config.end_grace_s, self._control.sleep
        )
        if self._job.context.node_count > 1:
            self.end(attempt, frozenset())

    def _id(self, attempt: int) -> kill_tasks.AttemptId:
        return attempt_id(self._job, self._tools, attempt)
