"""The ``job`` section of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.policy.job.named_nodes import ReplaceNodes

MIN_HANG_S, MAX_HANG_S = 20, 7 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """How the launcher watches and restarts a job, and how the agent completes a requeue."""

    max_attempts: int = 20
    """Attempts within 24 hours without progress. Slurm has no such limit: MaxBatchRequeue counts failed
    launches only."""
    max_same_failure: int = 3
    """Equal failures within 24 hours without a new checkpoint before the job is held."""
    poll_s: float = 5.0
    """Interval at which the launcher checks the job's nodes, in case an agent is not running. After two
    minutes it is twelve times as long while the job prints something (with `--continue` six times)."""
    end_grace_s: float = 3.0
    """From a rank's failure to SIGKILL for the other ranks, where Slurm would wait for KillWait."""
    evidence_wait_s: float = 1.5
    """How long to wait for a drain after the ranks failed."""
    slurm_patience_s: float = 300.0
    """How long a decision, a requeue or a hold waits for a slurmctld that does not answer."""
    hang_timeout_s: float = 0.0
    """An attempt that prints nothing and writes no checkpoint for so long is ended and restarted; 0: never.
    Jobs choose by `holdfast run --hang-timeout`."""
    hang_report_s: float = 1800.0
    """Without a timeout, such an attempt is reported in the job's log, if it also uses no CPU on its first
    node; 0: never."""
    degraded_wait_s: float = 3600.0
    """How long to wait for a checkpoint after which a job leaves a degraded node; 0: it stays there until
    it ends."""
    stop_notice_s: float = 600.0
    """How long before its machine is stopped (maintenance, spot notice) a job leaves at its next checkpoint
    even if no other node is free. At the latest it leaves half a minute before, without a checkpoint."""
    keep_nodes: bool = False
    """Whether the nodes of a job are kept free for the seconds between its requeue and the end of Slurm's delay, by
    a reservation. For clusters whose jobs have whole nodes: on a shared node it keeps the jobs of others off."""
    replace_nodes: ReplaceNodes = ReplaceNodes.ASKED
    """Whether a requeued job that names its nodes (`sbatch --nodelist`) may get another node in the place of one
    that is drained or DOWN. `asked`: if its owner says so, with `holdfast run --replace-nodes`; otherwise it waits
    for that node."""
    max_clock_skew_s: float = 5.0
    """With a node clock further ahead of slurmctld's, Slurm's own requeue delay stays."""

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_same_failure"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if self.poll_s < 0.5:
            raise ValueError(f"poll_s must be 0.5 or more, got {self.poll_s:g}")
        for name in ("hang_timeout_s", "hang_report_s"):
            if getattr(self, name) and not MIN_HANG_S <= getattr(self, name) <= MAX_HANG_S:
                bounds = f"0 or {MIN_HANG_S} to {MAX_HANG_S}"
                raise ValueError(f"{name} must be {bounds}, got {getattr(self, name):g}")
        for name in (
            *("end_grace_s", "evidence_wait_s", "slurm_patience_s"),
            *("degraded_wait_s", "stop_notice_s", "max_clock_skew_s"),
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name):g}")
