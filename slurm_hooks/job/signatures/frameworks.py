"""JAX, XLA and TensorFlow."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "J01",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"RESOURCE_EXHAUSTED|Out of memory while trying to allocate|Resource exhausted: "
        r"|XlaRuntimeError: .*[Oo]ut of memory",
    ),
    Signature(
        "J02",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"task:(?P<task>\d+) heartbeat timeout|heartbeat timeout|are unhealthy \(stopped"
        r" sending heartbeats\)|JAX distributed service detected fatal errors|Polled an "
        r"error from coordination service|different incarnation|has been set to ERROR in"
        r" coordination service|Terminating process because the (?:JAX|coordinator)|Coor"
        r"dinationService/\w+: UNAVAILABLE",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "J03",
        Kind.HANG,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"This thread has been waiting for .{0,200}(?:may be stuck|seconds)|Termination "
        r"timeout for `.*` of \d+ seconds exceeded",
        Weight.POSSIBLE,
    ),
    Signature(
        "J04",
        Kind.COLLECTIVE_TIMEOUT,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"NCCL operation nccl\w+\(.*?\) failed: (?P<e>unhandled (?:cuda|system) error|in"
        r"ternal error|remote process exited)",
    ),
    Signature(
        "J05",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Barrier .{0,80}DEADLINE_EXCEEDED|DEADLINE_EXCEEDED: .*(?:[Bb]arrier|Coordinati"
        r"onService)|# of tasks that reached the barrier: (?P<k>\d+)/(?P<n>\d+)|DEADLINE"
        r"_EXCEEDED",
        Weight.WEAK,
    ),
    Signature(
        "T01",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"ResourceExhaustedError|OOM when allocating tensor|Dst tensor is not initialize"
        r"d|failed to allocate [\d.]+\w* .{0,40}bytes.*from device",
    ),
    Signature(
        "T05",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"ran out of memory trying to allocate(?!.*not a failure)",
        Weight.POSSIBLE,
    ),
    Signature(
        "T02",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"errors(?:_impl)?\.(?:UnavailableError|AbortedError|CancelledError|DeadlineExceededError)|"
        r"UnavailableError: OS Error|(?:UnavailableError|AbortedError|CancelledError).*(?:/job:\w+|[Cc]ollective|RP"
        r"C)|Collective ops is aborted by|Socket closed|GrpcRemote",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "T03",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:failed (?:to|call to) (?:cuInit|enqueue|synchronize)|Could not synchronize "
        r"(?:CUDA stream|on GPU)|Failed to (?:initialize|create) cu(?:DNN|BLAS)|CUDNN_ST"
        r"ATUS_\w+ .*stream)",
        Weight.POSSIBLE,
    ),
    Signature(
        "J06",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        r"XlaRuntimeError: (?:INVALID_ARGUMENT|FAILED_PRECONDITION|UNIMPLEMENTED)|JaxRun"
        r"timeError: (?:INVALID_ARGUMENT|FAILED_PRECONDITION|UNIMPLEMENTED)|(?:Concretiz"
        r"ationTypeError|TracerArrayConversionError|UnexpectedTracerError)",
    ),
    Signature(
        "T04",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"errors_impl\.(?:InvalidArgumentError|FailedPreconditionError|NotFoundError|Uni"
        r"mplementedError|OutOfRangeError)",
    ),
    Signature(
        "J07",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Unable to load NCCL library",
    ),
    Signature(
        "J08",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        r"(?:Xla|Jax)RuntimeError: INTERNAL: ",
        Weight.WEAK,
    ),
)
