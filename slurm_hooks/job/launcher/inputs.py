"""What the launcher works with: the job with its command line, and the interfaces to everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.slurm.client import SlurmClient
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.time_limit import BeforeLimit
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.resume.argument import NO_CONTAINER, PathMap
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.run_step import StepSignals
from slurm_hooks.settings.job import JobConfig
from slurm_hooks.settings.notify import NotifyConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The command line of ``holdfast run`` in a job. ``paths``: how paths differ in its container.
    ``before_limit``: ``--continue``. ``checkpoint_signal``: asks the command for a checkpoint; None: nothing does.
    ``hang_timeout_s``: ``--hang-timeout``, None: as the site says. ``replace_nodes``: ``--replace-nodes``.
    """

    context: JobContext
    command: tuple[str, ...]
    checkpoints: Path
    paths: PathMap = NO_CONTAINER
    before_limit: BeforeLimit | None = None
    hang_timeout_s: float | None = None
    replace_nodes: bool = False
    checkpoint_signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The launcher's interfaces: Slurm, the journal, the agent, signals."""

    slurm: SlurmClient
    journal: Journal
    config: JobConfig
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    run_dir: Path
    signals: StepSignals


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt before its step starts. ``choice``: the checkpoint that it resumes from; ``history``: the
    earlier attempts; ``argv``: the command of its step.
    """

    number: int
    choice: Choice
    history: Sequence[JournalAttempt]
    argv: Sequence[str]


def attempt_id(job: Job, tools: Tools, number: int) -> AttemptId:
    """What the processes of this attempt have in their environment."""
    journal = str(tools.journal.path)
    return AttemptId(job_id=job.context.job_id, journal=journal, attempt=number)
