"""Memory, storage, checkpoints and data."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "M01",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"Detected (?P<n>\d+) oom_kill events? in StepId=(?P<step>\S+?)\. Some of th"
        r"e step tasks have been OOM Killed",
    ),
    Signature(
        "M02",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"DataLoader worker \(pid\(?s?\)? ?(?P<pid>[\d, ]+)\) (?:is killed by signal"
        r": (?P<sig>\w+)|exited unexpectedly)",
    ),
    Signature(
        "M03",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"Unexpected bus error encountered in worker|unable to allocate shared memor"
        r"y\(shm\)",
    ),
    Signature(
        "M04",
        Kind.HOST_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"\bMemoryError\b|std::bad_alloc|Cannot allocate memory",
    ),
    Signature(
        "M05",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"Exceeded job memory limit|exceeded memory limit",
    ),
    Signature(
        "S01",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"\[Errno 28\]|No space left on device|Disk quota exceeded|\[Errno 122\]",
    ),
    Signature(
        "S02",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"\[Errno (?:5|116|110|107|121)\]|Stale file handle|Input/output error|Trans"
        r"port endpoint is not connected|Remote I/O error",
    ),
    Signature(
        "S03",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"PermissionError: \[Errno 13\]|Read-only file system|\[Errno 30\]",
    ),
    Signature(
        "S04",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"PytorchStreamReader failed|failed finding central directory|unexpected EOF"
        r", expected \d+ more bytes|invalid header or archive is corrupted|EOFError:"
        r" Ran out of input|pickle data was truncated|UnpicklingError",
    ),
    Signature(
        "S05",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"SafetensorError: (?:Error while deserializing header: )?(?:MetadataIncompl"
        r"eteBuffer|HeaderTooLarge|InvalidHeader\w*|incomplete metadata|HeaderTooSma"
        r"ll)",
    ),
    Signature(
        "S06",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"CheckpointException|(?:\.metadata|metadata\.json|zero_pp_rank_\d+\S*|train"
        r"er_state\.json|\.distcp).{0,80}(?:No such file|not found|does not exist|mi"
        r"ssing)|No such file or directory: .*(?:\.metadata|\.distcp|_optim_states\."
        r"pt|mp_rank_\d+)",
    ),
    Signature(
        "S07",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"Error\(s\) in loading state_dict|size mismatch for \S+|Missing key\(s\) in"
        r" state_dict|Unexpected key\(s\) in state_dict",
    ),
    Signature(
        "S08",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"ERROR: Invalid metadata file|WARNING: could not find the metadata file \S+",
    ),
    Signature(
        "D01",
        Kind.DATA,
        Suspect.NO,
        Retry.NEVER,
        r"(?:JSONDecodeError|UnicodeDecodeError|UnidentifiedImageError|ArrowInvalid|"
        r"zlib\.error|BadGzipFile|tarfile\.ReadError|CRC32? check failed|LZ4\w*Error"
        r")",
    ),
    Signature(
        "D02",
        Kind.DATA,
        Suspect.NO,
        Retry.AFTER_A_WHILE,
        r"(?:HTTPError: (?:429|5\d\d)|Too Many Requests|ReadTimeout|MaxRetryError|Na"
        r"meResolutionError|Temporary failure in name resolution|SSLError)",
    ),
)
