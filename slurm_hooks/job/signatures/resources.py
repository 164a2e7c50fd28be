"""Memory, storage, checkpoints and data."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "M01",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"Detected \d+ oom[-_]kill event|killed by the cgroup out-of-memory handler|Some"
        r" of the step tasks have been OOM Killed|oom[-_]kill event\(s\) in|\bOOMKilled\b"
        r"|tasks? [\d,\[\]-]+: Out Of Memory|OUT_OF_MEMORY",
    ),
    Signature(
        "M02",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"DataLoader worker \(pid\(?s?\)? ?(?P<pid>[\d, ]+)\) is killed by signal: Kille"
        r"d",
    ),
    Signature(
        "M07",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"DataLoader worker \(pid.{0,80}exited unexpectedly",
        Weight.POSSIBLE,
    ),
    Signature(
        "M03",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Unexpected bus error encountered in worker|unable to allocate shared memory ?\("
        r"shm\)|insufficient shared memory|unable to (?:open|mmap|write to) .{0,40}share"
        r"d memory|DataLoader worker \(pid.{0,40}is killed by signal: Bus error|unable t"
        r"o resize file .{0,80}shm",
    ),
    Signature(
        "M04",
        Kind.HOST_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"\bMemoryError\b|std::bad_alloc|Cannot allocate memory|[Nn]ot enough memory: yo"
        r"u tried to allocate|can't allocate memory|Unable to allocate [\d.]+ [KMGT]iB f"
        r"or an array|DefaultCPUAllocator|low on memory|due to memory pressure|Out of me"
        r"mory allocating",
    ),
    Signature(
        "M05",
        Kind.HOST_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"[Ee]xceeded (?:job |step )?memory limit|exceeded memory limit|[Mm]emory limit "
        r".{0,40}being killed|exceeded virtual memory limit",
    ),
    Signature(
        "S01",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"\[Errno 28\]|No space left|Disk quota exceeded|\[Errno 122\]|FilesystemQuotaEx"
        r"ceeded|StorageFull|ENOSPC|EDQUOT",
    ),
    Signature(
        "S02",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"\[Errno (?:5|116|110|107|121|512)\]|Stale file handle|Input/output error|Trans"
        r"port endpoint is not connected|Remote I/O error|Cannot send after transport en"
        r"dpoint shutdown|Stale NFS file handle",
    ),
    Signature(
        "S11",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"OSError: \[Errno (?:14|16|39|52|70|74|108|112)\]",
    ),
    Signature(
        "S03",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"\[Errno 13\]|Read-only file system|\[Errno 30\]|PermissionError",
    ),
    Signature(
        "S04",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"PytorchStreamReader failed|failed finding central directory|unexpected EOF[,.] ("
        r"?:expected \d+ more bytes|The file might be corrupted)|storage has wrong (?:byte"
        r" )?size|invalid header or archive is corrupted|EOFError: Ran out of input|pickle"
        r" data was truncated|UnpicklingError|File is not a zip file|BadZipFile|unexpected"
        r" key .* in checkpoint file|[Cc]heckpoint .{0,80}(?:is|are|was|appears|seems|look"
        r"s|be)(?: to be)? (?:corrupt|truncated|incomplete)|[Cc]orrupt(?:ed)? checkpoint|U"
        r"nable to restore (?:from )?checkpoint",
    ),
    Signature(
        "S05",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"SafetensorError: (?!Error while serializing|.*(?:[Qq]uota|space))",
    ),
    Signature(
        "S06",
        Kind.CHECKPOINT,
        Suspect.NO,
        Retry.ROLLED_BACK,
        r"CheckpointException|(?:\.metadata|metadata\.json|zero_pp_rank_\d+\S*|trainer_s"
        r"tate\.json|\.distcp).{0,80}(?:No such file|not found|does not exist|missing)|N"
        r"o such file or directory: .*(?:\.metadata|\.distcp|_optim_states\.pt|mp_rank_\d"
        r"+)",
    ),
    Signature(
        "S07",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"Error\(s\) in loading state_dict|size mismatch for \S+|Missing key\(s\) in sta"
        r"te_dict|Unexpected key\(s\) in state_dict",
    ),
    Signature(
        "S08",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"ERROR: Invalid metadata file|WARNING: could not find the metadata file \S+",
        Weight.WEAK,
    ),
    Signature(
        "D01",
        Kind.DATA,
        Suspect.NO,
        Retry.NEVER,
        r"(?:JSONDecodeError|UnicodeDecodeError|UnidentifiedImageError|ArrowInvalid|zlib"
        r"\.error|BadGzipFile|tarfile\.ReadError|CRC32? check failed|LZ4(?:Block|Frame)?Error|DataLos"
        r"sError|ParserError|DatasetGenerationError|image file is truncated|EmptyDataErr"
        r"or)",
    ),
    Signature(
        "D02",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.AFTER_A_WHILE,
        r"HTTPError: (?:HTTP Error )?(?:429|5\d\d)|\b(?:429|50\d) (?:Client|Server) Erro"
        r"r|Too Many Requests|ReadTimeout\b|ConnectTimeout|MaxRetryError|NameResolutionE"
        r"rror|Temporary failure in name resolution|SSLError|LocalEntryNotFoundError|Off"
        r"lineModeIsEnabled|couldn't connect to 'https|requests\.exceptions\.\w+|urllib\."
        r"error\.URLError|Couldn't reach|Cannot send a request, as the client has been c"
        r"losed|socket\.timeout: timed out|The (?:read|handshake|write) operation timed out",
        Weight.POSSIBLE,
    ),
    Signature(
        "M06",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"line \d+: +\d+ Killed |^\s*Killed\s*$|: \d+ Killed +\S",
        Weight.WEAK,
    ),
    Signature(
        "S09",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"PytorchStreamWriter failed writing|enforce fail at inline_container|unexpected"
        r" pos \d+ vs \d+|basic_ios::clear: iostream error|SafetensorError: Error while "
        r"serializing|[Ff]ile write failed|Failed to write (?:checkpoint|file)",
    ),
    Signature(
        "S10",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Too many open files|\[Errno 24\]|can't start new thread|pthread_create failed|"
        r"Resource temporarily unavailable|received 0 items of ancdata|\[Errno 11\]|RLIM"
        r"IT_NPROC",
    ),
)
