"""NCCL, torch.distributed and its rendezvous."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "N01",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"[Cc]aught collective operation timeout|Timed out waiting \d+ms for (?:recv|sen"
        r"d) operation|Work\w*\((?:SeqNum|OpType)=.{0,300} ran for \d+ milliseconds befo"
        r"re timing out",
    ),
    Signature(
        "N02",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"(?:failure|Exception \(either an error or timeout\)) detected by watchdog at w"
        r"ork|Timeout at NCCL work",
    ),
    Signature(
        "N03",
        Kind.HANG,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"watchdog got stuck for (?P<s>\d+) seconds|Heartbeat monitor timed out",
    ),
    Signature(
        "N04",
        Kind.NETWORK,
        Suspect.NO,
        Retry.UNDECIDED,
        r"Some NCCL operations have failed or timed out|taking the entire process down|w"
        r"e are taking the entire process down|watchdog thread terminated with exception"
        r"|NCCL communicator was aborted|Observed flight recorder dump signal|Received a"
        r" (?:dump signal(?! due to a collective)|timeout signal)|Process group watchdog thread|terminate called"
        r" after throwing an instance of 'c10::",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "N05",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.EXCLUDING,
        r"(?:lagging|dead|mismatched) ranks that caused the desync are: \[(?P<ranks>[\d,"
        r" ]+)",
    ),
    Signature(
        "N06",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"Detected mismatch between collectives on ranks?\b(?:\. Rank (?P<rank>\d+))?|mi"
        r"smatch in (?:collectives|the number of collective)",
    ),
    Signature(
        "N07",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"(?P<ranks>\d+) failed to pass monitoredBarrier|[Rr]anks? (?P<rank>\d+).{0,60}d"
        r"id not reach|monitoredBarrier: .*timed out",
    ),
    Signature(
        "N08",
        Kind.NETWORK,
        Suspect.BOTH_ENDS,
        Retry.EXCLUDING,
        r"Got completion from peer (?P<peer>\S+) with (?:error |status=)(?!5\b)\d+|Got c"
        r"ompletion with error (?!5\b)\d+",
    ),
    Signature(
        "N09",
        Kind.NETWORK,
        Suspect.BOTH_ENDS,
        Retry.EXCLUDING,
        r"Got completion from peer (?P<peer>\S+) with status=IBV_WC_(?!WR_FLUSH)\w+",
    ),
    Signature(
        "N10",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"async fatal event|Got async event : .*(?:fatal|catastrophic)",
    ),
    Signature(
        "N11",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Got (?:non-fatal )?async event ?: .*(?:port error|port active|GID table change"
        r"|client reregistration|port ERR)",
        Weight.POSSIBLE,
    ),
    Signature(
        "N12",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Call to (?:wrap_)?ibv_\w+ failed|ibv_\w+ failed with (?:error|return)",
    ),
    Signature(
        "N13",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"Connection closed by remote peer (?P<peer>\S+)|ncclRemoteError|remote process "
        r"exited or there was a network error|Socket recv failed while polling|socketPro"
        r"gress\w*: (?!Connection closed)|Accept failed|connection closed by peer|Error encountered pr"
        r"ogressing operation|Failed to execute operation \w+ from rank (?P<ranks>\d+)",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "N14",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:socketStartConnect|socketPollConnect|socketFinalizeConnect|[Cc]onnect\w*):?"
        r" .{0,30}to (?P<peer>\S+) (?:failed|returned)(?!.*Connection refused)|No route "
        r"to host|Network is unreachable|Name or service not known",
        Weight.POSSIBLE,
    ),
    Signature(
        "N15",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"no socket interface found|Mismatched NCCL version detected|Could not find NIC "
        r"for rank|Plugin .* not found.*fatal|ranks has already checked in|Bootstrap Roo"
        r"t : mismatch",
    ),
    Signature(
        "N16",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:creating|attaching to|extend\w*|open\w*) shared memory segment|failed to ex"
        r"tend /dev/shm/nccl-|Call to (?:posix_fallocate|shm_open|mmap|ftruncate) failed",
    ),
    Signature(
        "N17",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory|NVLS multicast.*(?:fail|"
        r"not)|peer mapping resources exhausted",
    ),
    Signature(
        "N18",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NCCL WARN (?:\[\w+\] )?Cuda failure (?:\d+ )?'(?!out of memory)(?P<e>[^']+)'",
        Weight.POSSIBLE,
    ),
    Signature(
        "N19",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"Cuda failure (?:2 )?'out of memory'|Failed to CUDA calloc",
    ),
    Signature(
        "N20",
        Kind.NETWORK,
        Suspect.NO,
        Retry.ONCE,
        r"(?:\bDistBackendError\b|NCCL error(?: in)?: )(?!.{0,300}(?:invalid (?:usage|argument)|unh"
        r"andled (?:system|cuda) error|internal error))|ProcessGroupNCCL\.cpp:\d+, remote",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "R01",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"Failed to recv, got 0 bytes|Connection was likely closed|recvValue failed|send"
        r"Bytes failed|recvBytes failed|(?:TCPStore|store).{0,80}(?:Broken pipe|Connecti"
        r"on reset by peer)|Connection reset by peer|Broken pipe",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "R02",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"client socket has timed out after|Rendezvous(?:Timeout|Connection|Closed)Error"
        r"|Timed out after \d+ seconds waiting for clients|[Ww]ait timeout\b|time"
        r"d out in .{0,40}store|DistNetworkError|DistStoreError|Socket Timeout|failed to"
        r" connect to (?:all addresses|any network address)|Connection refused(?!, retrying)|T"
        r"imed out initializing process group|waitForInput: socket .{0,200} timed out",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "R13",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.AFTER_A_WHILE,
        r"\[W\d* ?.{0,40}socket\.cpp:\d+\].{0,40}server socket has failed to (?:bind|listen)",
        Weight.POSSIBLE,
    ),
    Signature(
        "R03",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.AFTER_A_WHILE,
        r"server socket has failed to (?:bind|listen)|EADDRINUSE|[Aa]ddress already in u"
        r"se|Errno 98\b",
    ),
    Signature(
        "R04",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"failed \(exitcode: (?!-9\b|-11\b|-7\b|-6\b)-?\d+\)|ChildFailedError|exits with"
        r" return code = (?!-9\b|-11\b|-7\b|-6\b)",
        Weight.NONE,
    ),
    Signature(
        "R05",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"Root Cause \(first observed failure\)",
        Weight.NONE,
    ),
    Signature(
        "N21",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.NEVER,
        r"Duplicate GPU detected|Invalid rank requested|ncclInvalidUsage|NCCL.{0,200}invalid (?:usage|argument)\b",
    ),
    Signature(
        "N22",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"ncclSystemError|unhandled system error|Net plugin .* failed|NET/OFI .*(?:error"
        r"|failed)|NET/OFI Couldn't |Request completed with error",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "N23",
        Kind.NETWORK,
        Suspect.NO,
        Retry.ONCE,
        r"Got completion from peer (?P<peer>\S+) with (?:error |status=(?:\w+\()?)5\b|IB"
        r"V_WC_WR_FLUSH_ERR",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "N24",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"ncclUnhandledCudaError|unhandled cuda error",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "N25",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"ncclInternalError|internal error - please report this issue to the NCCL|NCCL error(?: in)?: .{"
        r"0,300}\binternal error",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "N30",
        Kind.PLACE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"NCCL INFO (?:ncclCommInitRank\S* comm \S+ rank \d+ n[Rr]anks|Bootstrap ?: Using |"
        r"comm \S+ rank \d+ n[Rr]anks .*Init COMPLETE)",
        Weight.NONE,
    ),
    Signature(
        "N32",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NO,
        Retry.ONCE,
        r"dump signal due to a collective timeout",
        Weight.WEAK,
    ),
    Signature(
        "N31",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"^flight recorder: the others wait for ranks (?P<ranks>[\d, ]+)",
        Weight.POSSIBLE,
    ),
    Signature(
        "N33",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NCCL WARN .{0,80}(?:CUDA IPC handle|peer access is not supported)",
        Weight.POSSIBLE,
    ),
)
