"""Errors of CUDA and its libraries in a job's output."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "C01",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"CUDA error: an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_AD"
        r"DRESS",
    ),
    Signature(
        "C02",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"CUDA error: device-side assert triggered|CUDA_ERROR_ASSERT",
    ),
    Signature(
        "C03",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"(?:Assertion `[^`\']*(?:index|srcIndex|target|t >= 0)[^`\']*\'? ?failed|in"
        r"dexSelect\w*: block: )",
    ),
    Signature(
        "C04",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"CUDA error: (?:uncorrectable (?:NVLink|ECC) error|uncorrectable ECC error "
        r"encountered|uncorrectable NVLink error detected)|CUDA_ERROR_(?:ECC_UNCORRE"
        r"CTABLE|NVLINK_UNCORRECTABLE)",
    ),
    Signature(
        "C05",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"CUDA error: (?:unspecified launch failure|the launch timed out and was ter"
        r"minated|misaligned address|an illegal instruction was encountered|invalid "
        r"program counter|hardware stack error)",
    ),
    Signature(
        "C06",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"No CUDA GPUs are available|CUDA_ERROR_NO_DEVICE|no CUDA-capable device is "
        r"detected|CUDA error: (?:device not ready|all CUDA-capable devices are busy"
        r" or unavailable|invalid device ordinal)",
    ),
    Signature(
        "C07",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"CUDA driver error: |CUDA error: unknown error|CUDA_ERROR_UNKNOWN|cuInit re"
        r"turned error 999|Found no NVIDIA driver|Failed to initialize NVML|Driver/l"
        r"ibrary version mismatch|system not yet initialized",
    ),
    Signature(
        "C08",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED)",
    ),
    Signature(
        "C09",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cuDNN error: CUDNN_ST"
        r"ATUS_(?:NOT_INITIALIZED)",
    ),
    Signature(
        "C10",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"cuDNN error: CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|BAD_PARAM|NOT"
        r"_SUPPORTED|MAPPING_ERROR)\w*",
    ),
    Signature(
        "C11",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"(?:torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory\. Tried to alloca"
        r"te (?P<n>[\d.]+ [KMGT]iB))",
    ),
    Signature(
        "C12",
        Kind.GPU_MEMORY,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"GPU \d+ has a total capac\w+ of [\d.]+ GiB of which .*?Process (?P<pid>\d+"
        r") has (?P<used>[\d.]+) GiB memory in use",
    ),
    Signature(
        "C13",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"CUDA kernel errors might be asynchronously reported|For debugging consider"
        r" passing CUDA_LAUNCH_BLOCKING|Compile with `TORCH_USE_CUDA_DSA`",
    ),
)
