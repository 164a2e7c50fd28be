"""NCCL, torch.distributed and its launcher."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "N01",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d+"
        r"), OpType=(?P<op>\w+).*?Timeout\(ms\)=(?P<to>\d+)\) ran for (?P<ran>\d+) m"
        r"illiseconds",
    ),
    Signature(
        "N02",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"\[PG ID (?P<pg>\S+) .*Rank (?P<rank>\d+)\].*failure detected by watchdog a"
        r"t work sequence id: (?P<seq>\d+) PG status: last enqueued work: (?P<enq>-?"
        r"\d+), last completed work: (?P<done>-?\d+)",
    ),
    Signature(
        "N03",
        Kind.HANG,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:ProcessGroupNCCL.s watchdog got stuck for (?P<s>\d+) seconds|Heartbeat "
        r"monitor timed out! Process will be terminated)",
    ),
    Signature(
        "N04",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"Some NCCL operations have failed or timed out|To avoid data inconsistency,"
        r" we are taking the entire process down|watchdog thread terminated with exc"
        r"eption|NCCL communicator was aborted on rank|Observed flight recorder dump"
        r" signal from another rank",
    ),
    Signature(
        "N05",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.EXCLUDING,
        r"(?:lagging|dead|mismatched) ranks that caused the desync are: \[(?P<ranks>"
        r"[\d, ]+)",
    ),
    Signature(
        "N06",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+)",
    ),
    Signature(
        "N07",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"\[Rank (?P<rank>\d+)\].*(?:failed to pass monitoredBarrier|did not (?:reac"
        r"h|respond))",
    ),
    Signature(
        "N08",
        Kind.NETWORK,
        Suspect.BOTH_ENDS,
        Retry.EXCLUDING,
        r"NET/IB ?: ?Got completion from peer (?P<peer>\S+) with error (?P<st>\d+)",
    ),
    Signature(
        "N09",
        Kind.NETWORK,
        Suspect.BOTH_ENDS,
        Retry.EXCLUDING,
        r"NET/IB ?: ?Got completion from peer (?P<peer>\S+) with status=(?P<nm>\w+)"
        r"\((?P<st>\d+)\).*?hca (?P<hca>\w+)",
    ),
    Signature(
        "N10",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"NET/IB ?: ?(?P<hca>mlx5_\d+)(?::\d+)? .*async fatal event",
    ),
    Signature(
        "N11",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NET/IB ?: ?(?P<hca>mlx5_\d+)(?::\d+)? .*Got non-fatal async event: (?P<ev>"
        r"port error|port active|GID table change|client reregistration)[^\n]*",
    ),
    Signature(
        "N12",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Call to ibv_\w+ failed(?: with (?:error )?(?P<err>.+))?",
    ),
    Signature(
        "N13",
        Kind.CASCADE,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"socketProgress\w*: Connection closed by remote peer (?P<peer>\S+)|ncclRemo"
        r"teError: A call failed possibly due to a network error|remote process exit"
        r"ed or there was a network error",
    ),
    Signature(
        "N14",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:connect\w* to \S+ (?:failed|returned)|socketPollConnect|socketStartConn"
        r"ect).*(?:Connection refused|Connection timed out|No route to host)",
    ),
    Signature(
        "N15",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"Bootstrap : no socket interface found|Mismatched NCCL version detected|Cou"
        r"ld not find NIC for rank|Plugin .* not found.*fatal",
    ),
    Signature(
        "N16",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"(?:creating|attaching to) shared memory segment (?P<shm>/dev/shm/\S+)|fail"
        r"ed to extend /dev/shm/nccl-",
    ),
    Signature(
        "N17",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory|NVLS multicast.*(?:f"
        r"ail|not)|peer mapping resources exhausted",
    ),
    Signature(
        "N18",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NCCL WARN (?:\[\w+\] )?Cuda failure (?:\d+ )?'(?!out of memory)(?P<e>[^']+"
        r")'",
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
        Kind.CASCADE,
        Suspect.NO,
        Retry.ONCE,
        r"nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidAr"
        r"gument)\b|DistBackendError: NCCL error in",
    ),
    Signature(
        "R01",
        Kind.CASCADE,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"Failed to recv, got 0 bytes\. Connection was likely closed|recvValue faile"
        r"d on|(?:TCPStore|store).*(?:Broken pipe|Connection reset by peer)",
    ),
    Signature(
        "R02",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"The client socket has timed out after (?P<t>\d+)\w* while trying to connec"
        r"t to|Rendezvous(?:Timeout|Connection|Closed)Error",
    ),
    Signature(
        "R03",
        Kind.ENVIRONMENT,
        Suspect.NO,
        Retry.ONCE,
        r"The server socket has failed to (?:bind|listen)|EADDRINUSE|[Aa]ddress alre"
        r"ady in use",
    ),
    Signature(
        "R04",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"failed \(exitcode: (?P<rc>-?\d+)\) local_rank: (?P<lr>\d+) \(pid: (?P<pid>"
        r"\d+)\)|Signal (?P<sig>\d+) \(SIG\w+\) received by PID|ChildFailedError",
    ),
    Signature(
        "R05",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"Root Cause \(first observed failure\)|time\s+: (?P<ts>\S+)\s+host\s+: (?P<"
        r"host>\S+)\s+rank\s+: (?P<rank>\d+)",
    ),
)
