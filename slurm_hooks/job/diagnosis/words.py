"""The words without which no line matches a signature.

Nearly all lines of a healthy job contain none of them, so nearly no line meets a pattern. A test proves for
each signature of a failure that every text that matches it contains one of its words (in lower case, inside
a run of letters).
"""

from __future__ import annotations

from functools import lru_cache

NEEDS: dict[str, str] = {
    "K01": "nvrm",
    "K02": "nvrm",
    "K03": "nvrm",
    "K04": "fallen lost nvrm unable",
    "K05": "nvidia",
    "K06": "nvswitch sxid",
    "K07": "nvswitch",
    "K08": "severity uncorrect",
    "K09": "edac hardware machine uncorrected",
    "K10": "kernel oops unable",
    "K11": "info sched soft",
    "K12": "core",
    "K13": "detected port temperature",
    "K14": "arrier",
    "K15": "responding timed",
    "K16": "error nvme raid remounting",
    "K17": "invoked kill reaper",
    "K18": "segfault",
    "K19": "nvidia",
    "K20": "lustre vastnfs virtiofs",
    "C01": "cuda illegal",
    "C02": "cuda side",
    "C03": "assertion block indexselect",
    "C04": "cuda invalid uncorrectable",
    "C05": "cuda launch unspecified",
    "C06": "cuda devices no nvidia",
    "C07": "cuda cuinit driver failed initialized nvidia",
    "C08": "cublas cusolver cusparse failed",
    "C09": "alloc udnn",
    "C10": "cudnn engine failed unable",
    "C11": "cuda of xpu",
    "C12": "total",
    "C13": "compile cuda debugging",
    "C14": "compatible compiled cuda forward kernel",
    "C15": "cuda invalid",
    "C16": "cuda",
    "N01": "aught milliseconds timed",
    "N02": "detected timeout",
    "N03": "heartbeat watchdog",
    "N04": "entire flight nccl received terminate watchdog",
    "N05": "caused",
    "N06": "detected mismatch",
    "N07": "failed monitoredbarrier reach",
    "N08": "completion",
    "N09": "completion",
    "N10": "async",
    "N11": "async",
    "N12": "call failed",
    "N13": "accept closed remote socket",
    "N14": "failed network returned route service",
    "N15": "bootstrap mismatched plugin rank socket",
    "N16": "call failed shared",
    "N17": "failed nvls peer",
    "N18": "failure",
    "N19": "cuda failed",
    "N20": "distbackenderror nccl",
    "R01": "broken failed likely recvbytes recvvalue reset sendbytes",
    "R02": "distnetworkerror diststoreerror failed refused rendezvous socket timed wait",
    "R03": "ddress eaddrinuse errno socket",
    "R04": "exits failed",
    "R05": "cause rank",
    "N21": "duplicate nccl",
    "N22": "error failed plugin unhandled with",
    "N23": "completion flush",
    "N24": "unhandled",
    "N25": "internal",
    "N31": "flight",
    "N30": "bootstrap ncclcomminitrank",
    "G01": "error gloo imed timeout unable",
    "G02": "transport",
    "X01": "error fatal transport",
    "X02": "endpoint error estination failed",
    "X03": "lost orte prte",
    "X04": "abort mpirun prterun",
    "R06": "code died exited killed return signal terminated",
    "R07": "caught died egmentation exitcode exited return signal terminated",
    "R08": "caught died error exitcode return signal terminated",
    "R09": "died eceived signal",
    "R10": "host rank",
    "M01": "detected kill of tasks",
    "M02": "dataloader",
    "M03": "dataloader insufficient unable unexpected",
    "M04": "alloc cannot enough memoryerror on pressure unable",
    "M05": "limit xceeded",
    "S01": "disk edquot enospc errno filesystemquotaexceeded left storagefull",
    "S02": "cannot errno error remote stale transport",
    "S03": "errno permissionerror read",
    "S04": (
        "checkpoint eoferror failed invalid pickle pytorchstreamreader unable unexpected "
        "unpicklingerror zip"
    ),
    "S05": "safetensorerror",
    "S06": "checkpointexception directory distcp metadata rank trainer",
    "S07": "error mismatch missing unexpected",
    "S08": "error metadata",
    "D01": "arrowinvalid badgzipfile check error tarfile truncated zlib",
    "D02": (
        "cannot connecttimeout couldn error exceptions many offlinemodeisenabled "
        "readtimeout temporary urllib"
    ),
    "M06": "killed",
    "S09": "clear enforce failed safetensorerror unexpected write",
    "S10": "errno many pthread received resource rlimit start",
    "U01": (
        "assertionerror attributeerror indexerror keyerror lookuperror nameerror "
        "notimplementederror overflowerror recursionerror typeerror unboundlocalerror "
        "valueerror zerodivisionerror"
    ),
    "U02": (
        "cannot command conda cxxabi directory environmentnamenotfound error glibc lmod module"
    ),
    "U03": "absl error missingconfigexception override",
    "U04": "be expected groups invalid must ncompatible require scalar shapes sizes",
    "U05": "enroot error failed fatal manifest nvidia oci pyxis spank toomanyrequests",
    "U06": "configured error invalid repo wandb",
    "U07": "cannot directory error main open slurm",
    "U08": "importerror indentationerror modulenotfounderror named syntaxerror taberror",
    "F01": "contain diverged encountered finite nan rank stopping values",
    "F02": "already minimum",
    "F03": "overflow",
    "F04": "nan",
    "U09": "error exception failure invalid notfound",
    "U10": (
        "actordiederror brokenpipeerror calledprocesserror connectionabortederror "
        "connectionrefusederror connectionreseterror eoferror processexitedexception "
        "processraisedexception rayactorerror raytaskerror remoteerror workercrashederror"
    ),
    "U11": "keyboardinterrupt",
    "U12": (
        "entrynotfounderror fileexistserror filenotfounderror hfvalidationerror "
        "isadirectoryerror notadirectoryerror"
    ),
    "U13": "corrupted corruption fatal floating illegal invalid malloc munmap smashing terminate",
    "J01": "resource while xlaruntimeerror",
    "J02": (
        "been coordinationservice distributed heartbeat incarnation polled terminating unhealthy"
    ),
    "J03": "ermination thread",
    "J04": "failed",
    "J05": "barrier deadline tasks",
    "T01": "failed initialized resourceexhaustederror trying when",
    "T02": "abortederror cancellederror collective grpcremote socket unavailableerror",
    "T03": "cudnn failed synchronize",
    "J06": (
        "concretizationtypeerror jaxruntimeerror tracerarrayconversionerror "
        "unexpectedtracererror xlaruntimeerror"
    ),
    "T04": "errors",
    "L01": "cancelled",
    "L02": "cancelled exceeded limit reached",
    "L03": "aborted failed failure signal",
    "L04": "failure",
    "L05": "srun",
    "L06": "credential error invalid launch socket unable unspecified were",
    "L08": "jobheldadmin jobholdmaxrequeue launch",
    "L09": "healthcheck",
    "L10": "cancelled",
    "L11": "error fatal srun",
}
"""Code → its words, separated by spaces."""

PROGRESS = frozenset(
    b"batch checkpoint epoch epochs eta global it iter iteration iterations run runtime s step steps "
    b"train trainer training".split()
)
"""The words of lines that show progress, whole."""


@lru_cache(maxsize=1)
def _by_start() -> dict[bytes, list[tuple[bytes, frozenset[str]]]]:
    """First two letters → the words that begin so, each with the codes that need it."""
    codes: dict[str, set[str]] = {}
    for code, words in NEEDS.items():
        for word in words.split():
            codes.setdefault(word, set()).add(code)
    starts: dict[bytes, list[tuple[bytes, frozenset[str]]]] = {}
    for word, found in codes.items():
        starts.setdefault(word[:2].encode(), []).append((word.encode(), frozenset(found)))
    return starts


def codes_of(word: bytes) -> frozenset[str]:
    """The signatures that a line with this word may match."""
    starts, codes = _by_start(), frozenset[str]()
    for index in range(len(word) - 1):
        for needed, found in starts.get(word[index : index + 2], ()):
            if word.startswith(needed, index):
                codes |= found
    return codes
