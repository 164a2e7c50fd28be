"""The ``job`` section of the configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """How the launcher watches and restarts a job, and how the agent finishes what it began."""

    max_attempts: int = 20
    """Slurm itself has no limit: its MaxBatchRequeue counts failed launches only."""
    max_same_failure: int = 3
    """Attempts that may end alike without a new checkpoint before the job is held."""
    poll_s: float = 5.0
    """Between two looks at the job's own nodes, for the case that an agent is dead."""
    end_grace_s: float = 3.0
    """From a rank's death to SIGKILL for the others, where Slurm would wait for KillWait."""
    evidence_wait_s: float = 1.5
    """How long a drain that is on its way may take after the ranks died."""
    slurm_patience_s: float = 300.0
    """How long a silent slurmctld is asked again before a requeue or hold is given up."""
    max_clock_skew_s: float = 5.0
    """A node clock further ahead of slurmctld's leaves Slurm's own requeue delay alone."""

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_same_failure"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if self.poll_s < 0.5:
            raise ValueError(f"poll_s must be 0.5 or more, got {self.poll_s:g}")
        for name in ("end_grace_s", "evidence_wait_s", "slurm_patience_s", "max_clock_skew_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name):g}")
