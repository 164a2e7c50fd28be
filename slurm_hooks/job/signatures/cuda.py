"""Errors of CUDA and its libraries in a job's output."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "C01",
        Kind.CODE,
        Suspect.IF_ALONE,
        Retry.ONCE,
        r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorI"
        r"llegalAddress|Memory access fault by GPU node",
    ),
    Signature(
        "C02",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"device-side assert triggered|CUDA_ERROR_ASSERT|cudaErrorAssert",
    ),
    Signature(
        "C03",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"\.(?:cu|cuh|h):\d+: .{0,200}block: \[\d+,\d+,\d+\], thread: |Assertion `[^`']*"
        r"(?:index|srcIndex|target|t >= 0)[^`']*'? ?failed|indexSelect\w*: block: ",
    ),
    Signature(
        "C04",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"uncorrectable (?:NVLink|ECC) error|CUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCO"
        r"RRECTABLE)|cudaError(?:ECC|Nvlink)Uncorrectable|Invalid access of peer GPU mem"
        r"ory over nvlink or a hardware error",
    ),
    Signature(
        "C05",
        Kind.CODE,
        Suspect.IF_ALONE,
        Retry.ONCE,
        r"unspecified launch failure|the launch timed out and was terminated|CUDA error:"
        r" (?:misaligned address|an illegal instruction was encountered|invalid program "
        r"counter|hardware stack error|invalid resource handle)|CUDA_ERROR_(?:LAUNCH_FAI"
        r"LED|LAUNCH_TIMEOUT|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS)|cudaError(?:LaunchF"
        r"ailure|LaunchTimeout|IllegalInstruction|MisalignedAddress)",
    ),
    Signature(
        "C06",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"No CUDA GPUs are available|CUDA_ERROR_NO_DEVICE|no CUDA-capable device is dete"
        r"cted|CUDA error: (?:device not ready|all CUDA-capable devices are busy or unav"
        r"ailable)|torch\.cuda\.is_available\(\) is False|No NVIDIA GPU found|no GPUs? f"
        r"ound|No visible GPU devices",
        Weight.POSSIBLE,
    ),
    Signature(
        "C07",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"CUDA driver error: |CUDA error: (?:unknown error|initialization error|system n"
        r"ot yet initialized|system driver mismatch)|CUDA unknown error|CUDA_ERROR_(?:UN"
        r"KNOWN|SYSTEM_NOT_READY|SYSTEM_DRIVER_MISMATCH|NOT_INITIALIZED)|cuInit returned"
        r" error|Found no NVIDIA driver|Failed to initialize NVML|Driver/library version"
        r" mismatch|system not yet initialized|NVIDIA-SMI has failed|cudaError(?:Unknown|Initi"
        r"alizationError|SystemNotReady|SystemDriverMismatch)|cudaGetDeviceCount.{0,60}(?: fai"
        r"led|code is )|THCudaCheck FAIL .*unknown error|cuda runtime error \(30\)",
        Weight.POSSIBLE,
    ),
    Signature(
        "C08",
        Kind.GPU,
        Suspect.IF_ALONE,
        Retry.ONCE,
        r"CUBLAS_STATUS_(?!ALLOC_FAILED)\w+|CURAND_STATUS_(?!ALLOCATION)\w+|"
        r"[Cc][Uu](?:rand|RAND|fft|FFT|blas|BLAS|sparse|solver) (?:error|failure):? ?\d|CUSOLVER_STAT"
        r"US_\w+|CUSPARSE_STATUS_\w+|Failed to create cu(?:BLAS|SOLVER) handle",
    ),
    Signature(
        "C09",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED|CUDNN_STATUS_NOT_INITIALIZED|"
        r"Could not create cudnn handle",
    ),
    Signature(
        "C10",
        Kind.CODE,
        Suspect.IF_ALONE,
        Retry.ONCE,
        r"CUDNN_STATUS_(?!ALLOC_FAILED|NOT_INITIALIZED|SUCCESS)\w+|Unable to find a vali"
        r"d cuDNN algorithm|Failed to get convolution algorithm|No valid engine configs "
        r"for|GET was unable to find an engine",
    ),
    Signature(
        "C11",
        Kind.GPU_MEMORY,
        Suspect.NO,
        Retry.NEVER,
        r"\bOutOfMemoryError\b(?!: Caught | in (?:DataLoader worker|pin memory|replica) )"
        r"|(?:CUDA|HIP|cuda) (?:error: )?out of memory|cuda runtime error \(2\)|CUDA_ERROR_OU"
        r"T_OF_MEMORY|cudaErrorMemoryAllocation|CUDA error: out of memory|XPU out of mem"
        r"ory|THCudaCheck FAIL .*out of memory|Free memory on device .{0,80}less than desired|No"
        r" available memory for the cache blocks",
    ),
    Signature(
        "C12",
        Kind.GPU_MEMORY,
        Suspect.IF_REPEATED,
        Retry.EXCLUDING,
        r"GPU \d+ has a total capac\w+ of [\d.]+ GiB of which .*?Process (?P<pid>\d+) ha"
        r"s (?P<used>[\d.]+) GiB memory in use",
        Weight.POSSIBLE,
    ),
    Signature(
        "C13",
        Kind.CASCADE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"CUDA kernel errors might be asynchronously reported|For debugging consider pas"
        r"sing CUDA_LAUNCH_BLOCKING|Compile with `TORCH_USE_CUDA_DSA`",
        Weight.NONE,
    ),
    Signature(
        "C14",
        Kind.ENVIRONMENT,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"no kernel image is available for execution|CUDA driver version is insufficient"
        r"|Torch not compiled with CUDA enabled|is not compatible with the current PyTor"
        r"ch installation|forward compatibility was attempted on non supported HW|provid"
        r"ed PTX was compiled with an unsupported toolchain",
        Weight.POSSIBLE,
    ),
    Signature(
        "C15",
        Kind.CODE,
        Suspect.NO,
        Retry.NEVER,
        r"CUDA error: (?:invalid device ordinal|invalid argument|invalid configuration a"
        r"rgument|too many resources requested)|cudaErrorInvalidConfiguration|CUDA_ERROR"
        r"_INVALID_(?:VALUE|DEVICE|CONTEXT)|Invalid device id",
    ),
    Signature(
        "C16",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:RuntimeError|AcceleratorError|Error): CUDA (?:runtime )?error|CUDA runtime "
        r"error|cuda runtime error \(\d|cudaError_t|Cuda error: |HSA_STATUS_ERROR|: HIP error: ",
        Weight.FATAL,
        general=True,
    ),
)
