"""Slurm, Soperator, and lines that show training progress."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "L01",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"\*\*\* (?:JOB|STEP) (?P<id>\S+) ON (?P<node>\S+) CANCELLED AT \S+ DUE TO N"
        r"ODE FAILURE",
    ),
    Signature(
        "L02",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.PLAIN,
        r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO (?P<why>PREEMPTION|"
        r"TIME LIMIT|JOB REQUEUE) \*\*\*",
    ),
    Signature(
        "L03",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"DUE TO TASK FAILURE \*\*\*|DUE to SIGNAL \w+|Job step aborted: Waiting up "
        r"to \d+ seconds|FAILED \(non-zero exit code or other failure mode\)",
    ),
    Signature(
        "L04",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:srun|salloc|sbatch): error: Node failure on (?P<nodes>\S+)",
    ),
    Signature(
        "L05",
        Kind.SCHEDULER,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"srun: error: (?P<node>[\w.-]+): tasks? (?P<t>[\d,\-\[\]]+): (?P<how>Killed"
        r"|Aborted|Segmentation fault|Bus error|Exited with exit code \d+|Out Of Mem"
        r"ory|Floating point exception)",
    ),
    Signature(
        "L06",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Job credential expired|Socket timed out on send/recv operation|Zero Bytes "
        r"were transmitted or received|Unable to create step for job|Unable to confi"
        r"rm allocation",
    ),
    Signature(
        "L07",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:^|Reason=)(?:Kill task failed|Prolog error|Not responding|Node unex"
        r"pectedly rebooted|Low RealMemory|ResumeTimeout reached|gres/gpu count repo"
        r"rted lower)",
    ),
    Signature(
        "L08",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.NEVER,
        r"launch failed requeued held|JobHeldAdmin|JobHoldMaxRequeue|launch failure "
        r"limit exceeded",
    ),
    Signature(
        "L09",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"Slurm healthcheck failed on node (?P<node>\S+), trying to automatically re"
        r"queue",
    ),
    Signature(
        "P01",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"successfully saved checkpoint (?:from|at) iteration\s+(?P<it>\d+)",
    ),
    Signature(
        "P02",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"iteration\s+(?P<it>\d+)/\s*\d+ \|.*?elapsed time per iteration \(ms\): (?P"
        r"<ms>[\d.]+)",
    ),
    Signature(
        "P03",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"\{'loss': (?P<loss>[\d.]+|nan).*?'epoch': (?P<ep>[\d.]+)|\bstep[ =:]+(?P<s"
        r"tep>\d+)\b",
    ),
)
