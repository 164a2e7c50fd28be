"""Gloo, UCX and MPI, and how processes ended according to their launchers."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "G01",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Gloo connectFullMesh failed|[Gg]loo.{0,200}(?:[Tt]imed out| timeout\b(?!=)|unable to"
        r" (?:connect|resolve)|no error)|\bgloo::EnforceNotMet|Unable to find address for",
    ),
    Signature(
        "G02",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"gloo/transport/\w+/\w+\.cc:\d+\] .*(?:Connection closed by peer|Connection res"
        r"et|Broken pipe|Read error|Write error)(?: \[(?P<peer>[\d.]+)\])?",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "X01",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"Transport retry count exceeded on (?P<hca>\w+)|(?:Remote|Local) (?:access|prot"
        r"ection|operation|QP) error.* on (?:mlx5|bnxt|ib)\w*|\bIBV_EVENT_(?:DEVICE|QP)_"
        r"FATAL",
    ),
    Signature(
        "X02",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"UCX  ?ERROR|[Dd]estination is unreachable|Endpoint timeout|ucp_ep_create\S* fai"
        r"led|Failed to resolve UCX endpoint",
        Weight.POSSIBLE,
    ),
    Signature(
        "X03",
        Kind.NETWORK,
        Suspect.NAMED_RANK,
        Retry.ONCE,
        r"ORTE has lost communication with|ORTE daemon has unexpectedly failed|PRTE has "
        r"lost communication|lost connection to (?:the )?(?:daemon|node)",
        Weight.WEAK,
    ),
    Signature(
        "X04",
        Kind.CODE,
        Suspect.NO,
        Retry.ONCE,
        r"mpirun (?:noticed that(?!.* on signal)|detected that one or more) process|MPI_ABORT was invoke"
        r"d|prterun noticed that process(?!.* on signal)",
        Weight.NONE,
    ),
    Signature(
        "R06",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"exitcode *: -9\b|return code = -9\b|Signal 9 \(SIGKILL\) received|died with <S"
        r"ignals\.SIGKILL|terminated with signal SIGKILL|exited on signal 9\b|killed by "
        r"signal: Killed|exit code: 137\b|exited with (?:exit )?(?:code|status) 137\b",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "R07",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"exitcode *: -11\b|return code = -11\b|Signal 11 \(SIGSEGV\) received|Caught si"
        r"gnal 11|died with <Signals\.SIGSEGV|terminated with signal SIGSEGV|exited on s"
        r"ignal 11\b|[Ss]egmentation fault|Signal: Segmentation fault|\*\*\* SIGSEGV \(@",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "R11",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"exitcode *: -6\b|return code = -6\b|Signal 6 \(SIGABRT\) received|died with <S"
        r"ignals\.SIGABRT|terminated with signal SIGABRT|exited on signal 6\b|\*\*\* SIGAB"
        r"RT \(@|line \d+: +\d+ Aborted\b|^Aborted \(core dumped\)",
        Weight.CONSEQUENCE,
        general=True,
    ),
    Signature(
        "R08",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"exitcode *: -7\b|return code = -7\b|Signal 7 \(SIGBUS\) received|Caught signal"
        r" 7|died with <Signals\.SIGBUS|terminated with signal SIGBUS|\bBus error\b",
        Weight.WEAK,
        general=True,
    ),
    Signature(
        "R09",
        Kind.SCHEDULER,
        Suspect.NO,
        Retry.ONCE,
        r"Signal (?:15 \(SIGTERM|1 \(SIGHUP)\) received by PID|[Rr]eceived (?:Signals\.)?(?:(?:1|2|1"
        r"5) death signal|SIGTERM|SIGHUP|signal (?:1|15)\b)|closing signal SIG(?:HUP|INT)|died with <S"
        r"ignals\.SIG(?:TERM|HUP)|SignalException: .*got signal: (?:1|2|15)\b|\*\*\* SIGTERM received",
        Weight.CONSEQUENCE,
    ),
    Signature(
        "R10",
        Kind.PLACE,
        Suspect.NO,
        Retry.UNDECIDED,
        r"^.{0,80}?(?:host  +: \S+|rank +: \d+ \(local_rank: )",
        Weight.NONE,
    ),
    Signature(
        "R12",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"Worker exit type: SYSTEM_ERROR|A worker died or was killed while executing a task|exceeded K8s"
        r" pod memory limits",
        Weight.WEAK,
    ),
    Signature(
        "R14",
        Kind.HOST_MEMORY,
        Suspect.NO,
        Retry.ONCE,
        r"The actor died unexpectedly before finishing|\bActorDiedError\b",
        Weight.CONSEQUENCE,
    ),
)
