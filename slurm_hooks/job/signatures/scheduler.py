"""Slurm, Soperator, and lines that show training progress."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "L01",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"\*\*\* (?:JOB|STEP) \S+ (?:ON (?P<node>\S+) )?CANCELLED AT \S+ DUE TO N(?:ODE "
        r"FAIL\w*|odeFail\w*)",
    ),
    Signature(
        "L02",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.PLAIN,
        r"\*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED AT \S+ DUE TO (?P<why>PREEMPTION"
        r"|TIME LIMIT|JOB REQUEUE)|[Jj]ob \d+ (?:has )?exceeded (?:its )?time\s*limit|re"
        r"ached walltime|DUE TO TIME LIMIT",
    ),
    Signature(
        "L03",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"DUE TO TASK FAILURE \*\*\*|DUE to SIGNAL \w+|Job step aborted|FAILED \(non-zer"
        r"o exit code or other failure mode\)",
        Weight.NONE,
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
        r"srun: error: (?P<node>[\w.-]+): tasks? (?P<t>[\d,\-\[\]]+): (?P<how>Killed|Abo"
        r"rted|Segmentation fault|Bus error|Illegal instruction|Exited with exit code \d"
        r"+|Out Of Memory|Floating point exception)",
        Weight.WEAK,
    ),
    Signature(
        "L06",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Job credential expired|Socket timed out on send/recv operation|Zero Bytes were"
        r" transmitted or received|Unable to create step for job|Unable to confirm alloc"
        r"ation|Task launch for \S+ failed on node (?P<node>[\w.-]+)|Application launch "
        r"failed|task \d+ launch failed|Invalid job credential|Unable to contact slurm c"
        r"ontroller|Unspecified error|launch failed: |error: slurm_receive_msgs|Could not ru"
        r"n slurm \w*prolog|error: container_\w+:? |error: execve\(\): \S*/slurm_script: ",
        Weight.POSSIBLE,
    ),
    Signature(
        "L07",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:^|Reason=)(?:Kill task failed|Prolog error|Not responding|Node unexpect"
        r"edly rebooted|Low RealMemory|ResumeTimeout reached|gres/gpu count reported low"
        r"er)",
    ),
    Signature(
        "L08",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.NEVER,
        r"launch failed requeued held|JobHeldAdmin|JobHoldMaxRequeue|launch failure limi"
        r"t exceeded",
    ),
    Signature(
        "L09",
        Kind.SCHEDULER,
        Suspect.YES,
        Retry.EXCLUDING,
        r"Slurm healthcheck failed on node (?P<node>\S+), trying to automatically requeu"
        r"e",
    ),
    Signature(
        "P01",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"(?:successfully saved|[Ss]aved|[Ss]aving) .{0,30}checkpoint .{0,60}?(?P<step>\d"
        r"+)",
        Weight.NONE,
    ),
    Signature(
        "P02",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"iteration\s+(?P<step>\d+)/\s*\d+ \|",
        Weight.NONE,
    ),
    Signature(
        "P03",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"\{'loss': .*?'epoch': (?P<step>[\d.]+)|(?i:\b(?:global[_ ]?step|step|iter|iter"
        r"ation|train_step|batch)s?\b)\W?[\]) ]{0,3}[:=# \[]{1,8}(?P<n>\d+)",
        Weight.NONE,
    ),
    Signature(
        "L10",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.ONCE,
        r"\*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?CANCELLED AT \S+ \*\*\*",
        Weight.WEAK,
    ),
    Signature(
        "L11",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"(?:srun|sbatch): fatal: |error: Batch job submission failed|srun: error: Unabl"
        r"e to allocate resources|error: Invalid (?:account|partition|qos)",
        Weight.POSSIBLE,
    ),
    Signature(
        "P00",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"(?i)^(?:\S+ ){0,6}.{0,60}\btraining (?:is )?(?:completed?|finished|done)\b|`Tr"
        r"ainer\.fit` stopped|\[after training is done\]|'train_runtime': |\btrain_runti"
        r"me +=|training run completed|successfully (?:completed|finished) training",
        Weight.NONE,
    ),
    Signature(
        "P04",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"^(?!.{0,40}(?:[Ll]oading|[Dd]ownload|Map|[Tt]okeniz|Generating|Fetching|Filter"
        r"|[Ss]anity|Extract)).{0,200}\d+%\|[^|]{0,400}\| *(?P<step>\d+/\d+) \[",
        Weight.NONE,
    ),
    Signature(
        "P05",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"(?i)\bepochs?\W?[: =\[(]{1,3}(?P<step>[\d.]+ ?(?:/ ?\d+)?\]?[\[ (]*\d*(?:/\d+)"
        r"?)|^\s*(?P<n>\d+/\d+) \[[=>.]+",
        Weight.NONE,
    ),
    Signature(
        "P08",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"\[ *(?P<n>\d+/ *\d+)\].{0,80}?\beta: ",
        Weight.NONE,
    ),
    Signature(
        "P06",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r'(?i)"(?:\w{1,20}_)?(?:epoch|step|iter|iteration|batch|sample)s?_(?:num|number|'
        r'idx|index|count)" ?: ?(?P<step>\d+)',
        Weight.NONE,
    ),
    Signature(
        "P07",
        Kind.PROGRESS,
        Suspect.NO,
        Retry.UNDECIDED,
        r"(?i)\b(?:job|run|script|program|workflow|pipeline|simulation)(?:(?! not\b| nev"
        r"er\b| \S{0,20}n't) \S{1,40}){0,3} (?:(?:exited|finished|completed|ended|termi"
        r"nated) (?:successfully|without (?:any )?errors?)|successfully (?:finished|comp"
        r"leted))\b",
        Weight.NONE,
    ),
)
