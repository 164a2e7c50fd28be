"""The phrases without which no line matches a signature.

Nearly all lines of a healthy job contain none of them, so nearly no line meets a pattern. A test proves for
each signature of a failure that every text that matches it contains one of its phrases.
"""

from __future__ import annotations

import re
from functools import lru_cache

from slurm_hooks.job.diagnosis.lines.launcher_lines import PREFIX
from slurm_hooks.job.signatures import SIGNATURES

NEEDS: dict[str, str] = {
    "K01": "nvrm: xid (",
    "K02": "nvrm: xid (",
    "K03": "nvrm: xid (",
    "K04": " to determine the|fallen off the bus|gpu has fallen off|gpu is lost|nvrm: fallen off",
    "K05": "nvidia-nvswitch",
    "K06": " non-fatal error|, non-fatal|, nonfatal",
    "K07": "nvswitch fatal|of nvswitches don",
    "K08": "uncorrect",
    "K09": " check exception| hardware memory|: [hardware error|edac mc",
    "K10": " unable to handle|kernel panic - not|oops: ",
    "K11": " blocked for more|rcu_sched self-|soft lockup - cpu",
    "K12": "mlx5_core ",
    "K13": "high temperature|port module event|power on the pcie",
    "K14": "lost carrier",
    "K15": "not responding|timed out",
    "K16": " filesystem read-|: disk failure|nvme nvme|o error, dev nvme",
    "K17": "-kill:constraint=|invoked oom-killer|oom_reaper: reaped|ut of memory: kill",
    "K18": " in libnccl.so",
    "K19": "invalid context",
    "K20": "lustre: |lustreerror:|vastnfs|virtiofs",
    "C01": "memory access fault|an illegal memory|cuda_error_illegal|cudaerrorillegaladdress",
    "C02": " assert triggered|cuda_error_assert|cudaerrorassert",
    "C03": ": block: |], thread: |assertion `",
    "C04": "cuda_error_|cudaerror|invalid access of|uncorrectable ecc|uncorrectable nvlink",
    "C05": "cuda error: |cuda_error_|cudaerror|the launch timed|unspecified launch",
    "C06": (
        " nvidia gpu found|cuda_error_no_device|capable device is|cuda error: |"
        "cuda.is_available|no cuda gpus are|no gpu found|no gpus found|no visible gpu"
    ),
    "C07": (
        " no nvidia driver| yet initialized|/library version|cuda driver error|cuda error: |"
        "cuda unknown error|cuda_error_|cudaerrorunknown|cudaerrorinit|cudaerrorsystem|"
        "cudagetdevicecount|thcudacheck fail|cuda runtime error|cuinit returned|nvidia-smi has|to initialize nvml"
    ),
    "C08": (
        "cublas_status_|curand_status_|curand error|cufft error|cublas error|cusparse error|"
        "cusolver error|curand failure|cufft failure|cublas failure|cusparse failure|"
        "cusolver failure|cusolver_status_|cusparse_status_|failed to create"
    ),
    "C09": " not create cudnn|status_alloc_failed|udnn_status_not_",
    "C10": " get convolution|cudnn_status_|get was unable to|no valid engine|unable to find a",
    "C11": (
        "cuda error: out|cuda runtime error|cuda_error_out_of|cudaerrormemoryallocation|"
        "out of memory|outofmemoryerror|free memory on device|no available memory"
    ),
    "C12": "has a total capac",
    "C13": " consider passing| errors might be| with `torch_use_",
    "C14": (
        " kernel image is|compatibility was|driver version is|is not compatible|"
        "not compiled with|provided ptx was"
    ),
    "C15": "cuda error: |cuda_error_invalid|cudaerrorinvalidconfiguration|invalid device id",
    "C16": ": cuda |cuda error: |cuda runtime error|cudaerror_t|hsa_status_error|hip error: ",
    "N01": "before timing out|caught collective|timed out waiting",
    "N02": " watchdog at work|timeout at nccl",
    "N03": "heartbeat monitor|watchdog got stuck",
    "N04": (
        " flight recorder| group watchdog| nccl operations|nccl communicator|received a |"
        "taking the entire|terminate called|thread terminated|we are taking the"
    ),
    "N05": "ranks that caused",
    "N06": "detected mismatch|mismatch in ",
    "N07": " failed to pass|did not reach|monitoredbarrier:",
    "N08": "got completion",
    "N09": " completion from",
    "N10": "async fatal event|got async event :",
    "N11": "async event",
    "N12": " failed with|call to ibv_|call to wrap_ibv_",
    "N13": (
        "accept failed|connection closed|error encountered|failed to execute|ncclremoteerror|"
        "process exited or|recv failed while|socketprogress"
    ),
    "N14": " failed| returned| is unreachable|no route to host|service not known",
    "N15": (
        " not find nic for| not found| socket interface| version detected|bootstrap root :|"
        "ranks has already"
    ),
    "N16": (
        " shared memory|call to ftruncate|call to mmap|call to posix_fallocate|"
        "call to shm_open|failed to extend"
    ),
    "N17": "bind nvlink sharp|mapping resources|nvls multicast",
    "N18": "cuda failure",
    "N19": "'out of memory'|failed to cuda",
    "N20": "distbackenderror|nccl error|processgroupnccl.",
    "R01": (
        "broken pipe|connection reset|recv, got 0 bytes|recvbytes failed|recvvalue failed|"
        "sendbytes failed|was likely closed"
    ),
    "R02": (
        " seconds waiting|client socket has|timed out initializing|waitforinput: socket|"
        "connection refused|distnetworkerror|diststoreerror|failed to connect|rendezvousclosed|"
        "rendezvousconnection|rendezvoustimeout|socket timeout|timed out in|wait timeout"
    ),
    "R03": "ddress already in|eaddrinuse|errno 98|server socket has",
    "R13": "server socket has",
    "R04": "childfailederror|exits with return|failed (exitcode:",
    "R05": "root cause (first",
    "N21": "duplicate gpu|invalid rank|invalid argument|invalid usage|ncclinvalidusage",
    "N22": "ncclsystemerror|net plugin |net/ofi |request completed|unhandled system",
    "N23": " completion from|ibv_wc_wr_flush_",
    "N24": "ncclunhandledcudaerror|unhandled cuda",
    "N25": "internal error -|ncclinternalerror|nccl error",
    "N30": "bootstrap|init complete|ncclcomminitrank",
    "N33": "cuda ipc handle|peer access is not",
    "N32": "due to a collective timeout",
    "N31": "flight recorder:",
    "G01": (
        " to find address|timed out| timeout|unable to |no error|gloo::enforce|gloo connectfullmesh"
    ),
    "G02": "gloo/transport/",
    "X01": (
        " access error| operation error| protection error| qp error|count exceeded on|ibv_event_"
    ),
    "X02": "destination is|endpoint timeout|failed to resolve|ucp_ep_create|ucx  error|ucx error",
    "X03": " has unexpectedly|lost communication|lost connection",
    "X04": "abort was invoked|mpirun |prterun noticed",
    "R06": (
        " <signals.sigkill|exit code: 137|exitcode|exited on signal|exited with |"
        "killed by signal:|return code = -9|signal 9 (sigkill|terminated with"
    ),
    "R07": (
        " <signals.sigsegv|caught signal 11|egmentation fault|exitcode|exited on signal|"
        "return code = -11|sigsegv) received|*** sigsegv|terminated with"
    ),
    "R11": (
        " aborted|aborted (core| <signals.sigabrt|*** sigabrt|exitcode|exited on signal|return code = -6|"
        "signal 6 (sigabrt|terminated with"
    ),
    "R08": (
        "bus error|caught signal 7|died with <signals|exitcode|return code = -7|"
        "signal 7 (sigbus)|terminated with"
    ),
    "R09": (
        " <signals.sig|eceived signal 1|eceived signals.|death signal|eceived sigterm|eceived sighup|"
        "closing signal|signalexception:|sigterm) received|sighup) received|sigterm received"
    ),
    "R10": " (local_rank:|host  ",
    "R12": "a worker died or|exceeded k8s pod|exit type: system_error",
    "R14": "actordiederror|the actor died",
    "M01": ": out of memory|by the cgroup out|kill event|oomkilled|out_of_memory|some of the step",
    "M02": "dataloader worker",
    "M07": "dataloader worker",
    "M03": (
        " allocate shared|dataloader worker|error encountered|insufficient shared|"
        "shared memory|unable to resize"
    ),
    "M04": (
        "cannot allocate|defaultcpuallocator|low on memory|memory allocating|memoryerror|"
        "not enough memory|std::bad_alloc|t allocate memory|to memory pressure|"
        "unable to allocate"
    ),
    "M05": "exceeded virtual|memory limit",
    "S01": (
        "[errno 122]|[errno 28]|disk quota exceeded|edquot|enospc|filesystemquotaexceeded|"
        "no space left|storagefull"
    ),
    "S02": (
        " endpoint is not| nfs file handle|[errno |cannot send after|input/output error|"
        "remote i/o error|stale file handle"
    ),
    "S11": "oserror: [errno",
    "S03": "[errno 13]|[errno 30]|permissionerror|read-only file system",
    "S04": (
        "badzipfile|central directory|corrupt|eoferror: ran out|file is not a zip|"
        "in checkpoint file|incomplete|invalid header or|pickle data was|"
        "pytorchstreamreader failed|truncated|unable to restore|unexpected eof|storage has wrong|unpicklingerror"
    ),
    "S05": "safetensorerror:",
    "S06": (
        ".distcp|.metadata|checkpointexception|file or directory|metadata.json|"
        "trainer_state.json|zero_pp_rank_"
    ),
    "S07": " in loading state|missing key(s) in|size mismatch for|unexpected key(s)",
    "S08": " invalid metadata|: could not find",
    "D01": (
        " check failed|arrowinvalid|badgzipfile|datalosserror|datasetgenerationerror|"
        "decodeerror|emptydataerror|file is truncated|imageerror|lz4blockerror|lz4error|"
        "lz4frameerror|parsererror|readerror|zlib.error"
    ),
    "D02": (
        " client error| send a request,| server error|.error.urlerror|connecttimeout|"
        "couldn't connect|couldn't reach|httperror: |localentrynotfounderror|maxretryerror|"
        "nameresolutionerror|offlinemodeisenabled|readtimeout|requests.exceptions|sslerror|"
        "temporary failure|too many requests|"
        "socket.timeout|operation timed out"
    ),
    "M06": "killed",
    "S09": (
        " inline_container|basic_ios::clear:|failed to write|file write failed|"
        "pytorchstreamwriter|safetensorerror:|unexpected pos"
    ),
    "S10": (
        "[errno 11]|[errno 24]|can't start new thread|pthread_create failed|"
        "received 0 items of ancdata|resource temporarily unavailable|rlimit_nproc|"
        "too many open files"
    ),
    "U01": (
        "assertionerror|attributeerror|indexerror|keyerror|lookuperror|nameerror|"
        "notimplementederror|overflowerror|recursionerror|typeerror|unboundlocalerror|"
        "valueerror|zerodivisionerror"
    ),
    "U02": (
        " not found| shared libraries|cannot open shared|commandnotfounderror|conda environment|"
        "condaerror|environmentnamenotfound|file or directory|importerror:|lmod has detected|"
        "find c compiler|cuda_home environ|error building ext|calledprocesserror"
    ),
    "U03": (
        "configattributeerror|could not override|error: |flags._exceptions|"
        "missingconfigexception|scannererror"
    ),
    "U04": (
        " size of tensor a|]' is invalid|all tensors to be|does not require|expected |"
        "given groups=|ncompatible shapes|shapes cannot be|sizes of tensors"
    ),
    "U05": (
        ": failed|[error]|error response|error:|failed to create|fatal:|manifest unknown|"
        "nvidia-container-|oci runtime|pyxis: |spank_pyxis.so|toomanyrequests"
    ),
    "U06": (
        "401 client error|403 client error|gatedrepoerror|invalid token|invalid user token|"
        "key not configured|repo id must|repositorynotfounderror|wandb.errors.|wandb: error"
    ),
    "U07": "'t find '__main__|0: cannot open|: can't open file|: no such file or|error: execve():",
    "U08": (
        ": no module named|: syntax error|importerror|indentationerror|modulenotfounderror|syntaxerror|taberror"
    ),
    "F01": (
        "' returned nan|: found inf|: found nan|contain inf|contain nan|contains inf|"
        "contains nan|diverged with loss|encountered a nan|encountered nan|found nan in|"
        "loss is nan|loss is inf|loss was nan|loss was inf|loss became|floatingpointerror|"
        "loss: nan, stopping|nan found in|non-finite "
    ),
    "F02": " scale already at|minimum loss scale",
    "F03": "overflow! rank",
    "F04": (
        "loss nan|loss: nan|loss:nan|loss=nan|loss = nan|loss': nan|loss\": nan|norm nan|"
        "norm: nan|norm:nan|norm=nan|norm = nan|norm': nan|norm\": nan|loss : nan|norm : nan"
    ),
    "U09": (
        "error:|error\n|rror\x1b[|exception:|exception\n|exception\x1b|failure:|failure\n|failure\x1b|"
        "invalid:|invalid\n|invalid\x1b|notfound:|notfound\n|notfound\x1b"
    ),
    "U10": (
        ": caught |brokenpipeerror|calledprocesserror|connectionabortederror|"
        "connectionrefusederror|connectionreseterror|eoferror|processexitedexception|"
        "processraisedexception|rayactorerror|raytaskerror|remoteerror|workercrashederror|"
        "enginedeaderror|engine core init|workerproc init|enginecore failed|"
        "enginecore encountered|see root cause|see the root cause|see stack trace|"
        "see the stack trace|see error|see the error"
    ),
    "U11": "keyboardinterrupt|received sigint",
    "U12": (
        "entrynotfounderror|fileexistserror|filenotfounderror|hfvalidationerror|"
        "isadirectoryerror|notadirectoryerror"
    ),
    "U13": (
        " point exception|corrupted size vs|fatal python error|free or corruption|"
        "free(): invalid|illegal instruction|malloc(): |munmap_chunk()|smashing detected|"
        "terminate called|pure virtual method"
    ),
    "J01": " of memory while|resource exhausted|resource_exhausted|xlaruntimeerror:",
    "J02": (
        " (stopped sending| process because| service detected|been set to error|"
        "coordinationservice|different incarnation|from coordination|heartbeat timeout"
    ),
    "J03": " seconds exceeded| thread has been",
    "J04": "nccl operation",
    "J07": "unable to load nccl",
    "J08": "runtimeerror: internal",
    "J05": " that reached the|deadline_exceeded",
    "T01": (
        " when allocating|dst tensor is not|failed to allocate|ran out of memory|"
        "resourceexhaustederror"
    ),
    "T05": "ran out of memory",
    "T02": (
        "errors.unavail|errors.abort|errors.cancel|errors.deadline|errors_impl.|abortederror|"
        "cancellederror|collective ops is|grpcremote|socket closed|unavailableerror"
    ),
    "T03": " not synchronize|cudnn_status_|failed call to|failed to ",
    "J06": (
        "concretizationtypeerror|jaxruntimeerror:|tracerarrayconversionerror|"
        "unexpectedtracererror|xlaruntimeerror:"
    ),
    "T04": "errors_impl.",
    "L01": "cancelled at",
    "L02": "cancelled at|due to time limit|exceeded its time|exceeded time|reached walltime",
    "L03": " to task failure|due to signal|failed (non-zero|job step aborted",
    "L04": ": node failure on",
    "L05": "srun: error:",
    "L06": (
        " job credential| launch failed| were transmitted|: slurm_receive_|application launch|"
        "could not run slurm|credential expired|launch failed:|socket timed out|"
        "task launch for|unable to confirm|error: container_|unable to contact|"
        "unable to create|unspecified error|error: execve():"
    ),
    "L08": " failed requeued|jobheldadmin|jobholdmaxrequeue|launch failure",
    "L09": "slurm healthcheck",
    "L10": "cancelled at",
    "L11": " error: unable to|: fatal: |error: batch job|error: invalid",
}
"""Code → its phrases in lower case, separated by ``|``. After a change, run measure.window_sets."""

PROGRESS: dict[str, tuple[str, ...]] = {
    "P00": ("train",),
    "P01": ("checkpoint",),
    "P02": ("iteration",),
    "P03": ("step", "iter", "batch", "'epoch':"),
    "P04": ("%|",),
    "P05": ("epoch", " [=", " [>", " [."),
    "P06": ("epoch", "step", "iter", "batch", "sample"),
    "P07": ("success", "without"),
    "P08": ("eta: ",),
}
"""Signature of progress → its words in lower case: each line that matches it contains one of them."""

PROGRESS_WORDS = tuple(
    word.encode()
    for word in (
        *("step", "iter", "epoch", "batch", "sample", "train", "checkpoint"),
        *("success", "without", "%|", " [=", " [>", " [.", "eta: "),
    )
)
"""Each of these words contains one of them."""

_NO_DIGIT_ITSELF = re.compile(r"\\d|\{[\d,]+\}")

NUMBERED = frozenset(
    row.code for row in SIGNATURES if re.search(r"\d", _NO_DIGIT_ITSELF.sub("", row.pattern))
)
"""The signatures that some digits match and others do not: an exit code, an errno, an Xid."""


@lru_cache(maxsize=1)
def phrases() -> dict[bytes, frozenset[str]]:
    """Each phrase, with the codes of the signatures that need it; none for that of the launcher."""
    codes: dict[bytes, set[str]] = {PREFIX.encode(): set()}
    for code, needed in NEEDS.items():
        for phrase in needed.split("|"):
            codes.setdefault(phrase.encode(), set()).add(code)
    return {phrase: frozenset(found) for phrase, found in codes.items()}
