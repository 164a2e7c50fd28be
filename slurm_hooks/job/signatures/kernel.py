"""Lines of the kernel log and of the node's system journal."""

from __future__ import annotations

from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

ROWS: tuple[Signature, ...] = (
    Signature(
        "K01",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"NVRM: Xid \((?:PCI:)?(?P<bdf>[0-9A-Fa-f:.]+)\): (?P<xid>48|62|64|74|79|92|"
        r"95|110|119|120|122|123|140|143|14[4-9]|150|154)\b",
    ),
    Signature(
        "K02",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NVRM: Xid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<xid>94|63)\b",
    ),
    Signature(
        "K03",
        Kind.CODE,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"NVRM: Xid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<xid>13|31|43|45|68|69|109|137)"
        r"\b",
    ),
    Signature(
        "K04",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"NVRM: .*(?:GPU|NVIDIA GPU) [0-9A-Fa-f:.]+.*fallen off the bus",
    ),
    Signature(
        "K05",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"nvidia-nvswitch\S*: SXid \((?:PCI:)?[0-9A-Fa-f:.]+\): (?P<sxid>\d{5}), (?P"
        r"<sev>Fatal)",
    ),
    Signature(
        "K06",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?:SXid .*: \d{5}, Non-?fatal|NVSwitch non-fatal error \d+)",
    ),
    Signature(
        "K07",
        Kind.GPU,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:NVSwitch fatal error \d+|number of NVSwitches don.t match with any "
        r"supported system topology)",
    ),
    Signature(
        "K08",
        Kind.HOST,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:pcieport|AER).*(?:Uncorrect(?:ed|able)|severity=Uncorrected \(Fatal\))",
    ),
    Signature(
        "K09",
        Kind.HOST,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?i)(?:mce: \[Hardware Error\]|EDAC .* UE |Machine Check Exception|Uncorre"
        r"cted hardware memory error)",
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
        r"(?:soft lockup - CPU#\d+ stuck for \d+s|INFO: task \S+ blocked for more th"
        r"an \d+ seconds|rcu_sched self-detected stall)",
    ),
    Signature(
        "K12",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"mlx5_core [0-9A-Fa-f:.]+.*(?:[Ll]ink down|health (?:compromised|poll)|fata"
        r"l error|device.s health|firmware over temperature|PCI slot is unavailable)",
    ),
    Signature(
        "K13",
        Kind.NETWORK,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:Port module event\[error\]|High Temperature|Detected insufficient power"
        r" on the PCIe slot)",
    ),
    Signature(
        "K14",
        Kind.NETWORK,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"(?i)\b(?:ib\w*|mlx5\w*|eth\w*|en[ps]\w+)\b.*Lost [Cc]arrier",
    ),
    Signature(
        "K15",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"nfs: server (?P<srv>\S+) not responding",
    ),
    Signature(
        "K16",
        Kind.STORAGE,
        Suspect.YES,
        Retry.EXCLUDING,
        r"(?:I/O error, dev nvme|Remounting filesystem read-only|nvme nvme\d+: (?:I/"
        r"O .* timeout|Disabling device|controller is down)|md/raid\S*: Disk failure"
        r")",
    ),
    Signature(
        "K17",
        Kind.HOST_MEMORY,
        Suspect.IF_REPEATED,
        Retry.NEVER,
        r"(?:oom-kill:constraint=(?P<con>CONSTRAINT_\w+)|Memory cgroup out of memory"
        r": Killed process \d+|Out of memory: Killed process \d+)",
    ),
    Signature(
        "K18",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"segfault at .* in libnccl\.so",
    ),
    Signature(
        "K19",
        Kind.GPU,
        Suspect.IF_REPEATED,
        Retry.ONCE,
        r"nvidia[-_]peermem .*invalid context",
    ),
    Signature(
        "K20",
        Kind.STORAGE,
        Suspect.IF_REPEATED,
        Retry.AFTER_A_WHILE,
        r"(?:LustreError: .*(?:timed out|evict)|Lustre: .*Connection to \S+ .* was l"
        r"ost|vastnfs|virtiofs.*(?:stall|timeout))",
    ),
)
