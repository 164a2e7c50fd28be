"""JAX, XLA and TensorFlow."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "J01",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"RESOURCE_EXHAUSTED: .*[Oo]ut of memory|Out of memory while trying to alloc"
        r"ate [\d.]+ ?(?:bytes|[KMG]iB)",
    ),
    Signature(
        "J02",
        Kind.CASCADE,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"(?:Task|task) (?P<task>/job:\S+) heartbeat timeout|tasks? are unhealthy \("
        r"stopped sending heartbeats\)|JAX distributed service detected fatal errors"
        r"|Polled an error from coordination service",
    ),
    Signature(
        "J03",
        Kind.HANG,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"This thread has been waiting for .{0,200}(?:may be stuck|seconds)|Terminat"
        r"ion timeout for `.*` of \d+ seconds exceeded",
    ),
    Signature(
        "J04",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"NCCL operation nccl\w+\(.*?\) failed: (?P<e>unhandled (?:cuda|system) erro"
        r"r|internal error|remote process exited)",
    ),
    Signature(
        "J05",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Barrier .*DEADLINE_EXCEEDED|DEADLINE_EXCEEDED: .*(?:[Bb]arrier|Coordinatio"
        r"nService)|# of tasks that reached the barrier: (?P<k>\d+)/(?P<n>\d+)",
    ),
    Signature(
        "T01",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"ResourceExhaustedError|OOM when allocating tensor with shape\[(?P<sh>[\d,]"
        r"+)\]",
    ),
    Signature(
        "T02",
        Kind.CASCADE,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"(?:UnavailableError|AbortedError|CancelledError).*(?:/job:\w+|[Cc]ollectiv"
        r"e|RPC)|Collective ops is aborted by",
    ),
    Signature(
        "T03",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:failed (?:to|call to) (?:cuInit|enqueue|synchronize)|Could not synchron"
        r"ize (?:CUDA stream|on GPU)|Failed to (?:initialize|create) cu(?:DNN|BLAS)|"
        r"CUDNN_STATUS_\w+ .*stream)",
    ),
)
