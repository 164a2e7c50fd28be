"""Lines of the kernel log and of the node's system journal."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect, Weight

ROWS: tuple[Signature, ...] = (
    Signature(
        "K01",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"NVRM: Xid \((?:PCI:)?(?P<bdf>[0-9A-Fa-f:.]+)\): (?P<xid>48|62|64|74|79|92|95|1"
        r"10|119|120|122|123|140|143|14[4-9]|150|154)\b",
    ),
    Signature(
        "K02",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NVRM: Xid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<xid>94|63)\b",
        Weight.POSSIBLE,
    ),
    Signature(
        "K03",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NVRM: Xid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<xid>13|31|43|45|68|69|109|137)\b",
        Weight.POSSIBLE,
    ),
    Signature(
        "K04",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"NVRM: .*(?:GPU|NVIDIA GPU) [0-9A-Fa-f:.]+.*fallen off the bus|NVRM: fallen off"
        r" the bus|GPU has fallen off the bus|Unable to determine the device handle for "
        r"(?:GPU|gpu)|GPU is lost",
    ),
    Signature(
        "K05",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"nvidia-nvswitch\S*: SXid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<sxid>\d{5}), (?P<sev"
        r">Fatal)",
    ),
    Signature(
        "K06",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:SXid .*: \d{5}, Non-?fatal|NVSwitch non-fatal error \d+)",
        Weight.POSSIBLE,
    ),
    Signature(
        "K07",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:NVSwitch fatal error \d+|number of NVSwitches don.t match with any supp"
        r"orted system topology)",
    ),
    Signature(
        "K08",
        Kind.HOST,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:pcieport|AER|PCIe Bus Error).*(?:Uncorrect(?:ed|able)|severity=Uncorrected "
        r"\(Fatal\))",
    ),
    Signature(
        "K09",
        Kind.HOST,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:mce: \[Hardware Error\]|EDAC MC.* UE |Machine Check Exception|Uncorrected"
        r" hardware memory error)",
    ),
    Signature(
        "K10",
        Kind.HOST,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:Kernel [Pp]anic - not syncing|Oops: .*#\d|BUG: unable to handle)",
    ),
    Signature(
        "K11",
        Kind.HANG,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:soft lockup - CPU#\d+ stuck for \d+s|INFO: task \S+ blocked for more than \d"
        r"+ seconds|rcu_sched self-detected stall)",
        Weight.POSSIBLE,
    ),
    Signature(
        "K12",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"mlx5_core [0-9A-Fa-f:.]+.*(?:[Ll]ink down|health (?:compromised|poll)|fatal er"
        r"ror|device.s health|firmware over temperature|PCI slot is unavailable)",
    ),
    Signature(
        "K13",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:Port module event\[error\]|High Temperature|Detected insufficient power on "
        r"the PCIe slot)",
        Weight.POSSIBLE,
    ),
    Signature(
        "K14",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?i)\b(?:ib\w*|mlx5\w*|eth\w*|en[ps]\w+)\b.*Lost [Cc]arrier",
        Weight.POSSIBLE,
    ),
    Signature(
        "K15",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"nfs: server (?P<srv>\S+) not responding|NFS: .*(?:timed out|not responding)",
        Weight.POSSIBLE,
    ),
    Signature(
        "K16",
        Kind.STORAGE,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:I/O error, dev nvme|Remounting filesystem read-only|nvme nvme\d+: (?:I/O .*"
        r" timeout|Disabling device|controller is down)|md/raid\S*: Disk failure)",
    ),
    Signature(
        "K17",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"oom-kill:constraint=(?P<con>CONSTRAINT_\w+)|[Oo]ut of memory: Kill(?:ed)? proc"
        r"ess \d+|invoked oom-killer|oom_reaper: reaped process",
    ),
    Signature(
        "K18",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"segfault at .* in libnccl\.so",
        Weight.POSSIBLE,
    ),
    Signature(
        "K19",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"nvidia[-_]peermem .*invalid context",
        Weight.POSSIBLE,
    ),
    Signature(
        "K20",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"(?:LustreError: .*(?:timed out|evict)|Lustre: .*Connection to \S+ .* was lost|"
        r"vastnfs|virtiofs.*(?:stall|timeout))",
        Weight.POSSIBLE,
    ),
)
