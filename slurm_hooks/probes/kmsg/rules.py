"""Rules for single kernel records that report a fault.

The formats are those of Linux 4.18 to 6.18 and of the drivers of NVIDIA and Mellanox; tests compare
them with recorded lines (tests/data/kmsg/). The severity of a code is in the fault catalogue.
Events of more than one record are in events.py.

A rule matches a whole record, from its first byte: the kernel also prints names that users choose,
and a record that begins with such a name must match no rule (decision 023).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

WARNING, NOTICE, INFO = 4, 5, 6
"""Levels of printk; a smaller number is more urgent."""
ANY_LEVEL = 7
"""For records with the machine's default level (kernel.printk), or a level that firmware chooses."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A record that ``pattern`` matches as a whole is an event. Group ``on`` of the pattern is its
    subject (without it: ``node``), group ``n`` the number of errors. ``over``: the record ends such
    an event. ``level``: the least urgent level at which these kernels write it.
    """

    kind: str
    code: str
    pattern: re.Pattern[str]
    fatal: bool | None = None
    over: bool = False
    level: int = WARNING


def _rule(
    kind: str,
    code: str,
    pattern: str,
    *,
    fatal: bool | None = None,
    over: bool = False,
    level: int = WARNING,
) -> Rule:
    return Rule(kind, code, re.compile(pattern, re.DOTALL), fatal, over, level)


_PCI = r"(?P<on>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_DISK = r"(?P<on>[\w!-]{1,32})"
_AER = rf"[\w-]{{1,40}} {_PCI}: (?:AER: )?PCIe Bus Error: severity="
_AER_REST = r"(?:, type=[\w /]{1,40}(?:,? .*)?)?"
_MLX5 = rf"mlx5_core {_PCI}: "

_AER_RULES = (
    _rule("aer", "AER_FATAL", _AER + r"Uncorrect(?:ed|able) \(Fatal\)" + _AER_REST, fatal=True),
    _rule("aer", "AER_NONFATAL", _AER + r"Uncorrect(?:ed|able) \(Non-Fatal\)" + _AER_REST, fatal=False),
    _rule("aer", "AER_CORRECTED", _AER + r"Correct(?:ed|able)" + _AER_REST, fatal=False),
)  # fmt: skip
_CHECK = r"mce: \[Hardware Error\]: (?P<on>CPU \d+): Machine Check(?: Exception| Event)?: [0-9a-f]+ Bank \d+: "
_AMD_CHECK = r"\[Hardware Error\]: (?P<on>CPU:\d+) \([0-9a-f:]+\) .{0,40}MC\d+_STATUS\[[^]]*\]: 0x"
_UNCORRECTED = "[2367abef][0-9a-f]{15}"
"""MCi_STATUS with its bit 61, UC (Intel SDM volume 3B, 17.3.2.2; AMD64 APM volume 2, 9.3.2)."""
_STATUS = "[0-9a-f]{1,16}"

_MCE_RULES = (
    _rule("mce", "MCE_UNCORRECTED", _CHECK + _UNCORRECTED, fatal=True),
    _rule("mce", "MCE_CORRECTED", _CHECK + _STATUS, fatal=False),
    _rule(
        "mce",
        "MCE_CORRECTED",
        r"mce: \[Hardware Error\]: Machine check events logged",
        fatal=False,
        level=INFO,
    ),
)
_AMD_RULES = (
    _rule("mce", "MCE_UNCORRECTED", _AMD_CHECK + _UNCORRECTED, fatal=True),
    _rule("mce", "MCE_CORRECTED", _AMD_CHECK + _STATUS, fatal=False),
)
_MEMORY_RULES = (
    _rule("edac", "DIMM_UNCORRECTED",
          r"Memory failure: (?P<on>0x[0-9a-f]+): (?:recovery action for [\w /-]{1,60}: \w+"
          r"|(?:Sending SIGBUS to|Killing) .{1,40} due to hardware memory corruption.*"
          r"|(?:[Ff]orcibly killing|kill(?:ing)?) .{1,80})", fatal=True),
)  # fmt: skip
_EDAC_REST = r"(?:[A-Za-z][\w ,./-]{0,120} )?on (?P<on>\S+) .*"
_EDAC_RULES = (
    _rule("edac", "DIMM_CORRECTED", r"EDAC MC\d+: (?P<n>\d+) CE " + _EDAC_REST, fatal=False),
    _rule("edac", "DIMM_UNCORRECTED", r"EDAC MC\d+: (?P<n>\d+) UE " + _EDAC_REST, fatal=True),
)
_NVME_RULES = (
    _rule("nvme", "NVME_FAILED",
          r"nvme (?P<on>nvme\d+): (?:Removing after probe failure|Disabling device after reset failure"
          r"|Device not ready; aborting|frozen state error detected).*", fatal=True),
    _rule("nvme", "NVME_TIMEOUT",
          r"nvme (?P<on>nvme\d+): (?:I/O (?:tag )?\d+ [^\n]*\btimeout,|controller is down; will reset).*", fatal=False),
)  # fmt: skip
_DISK_RULES = (
    _rule("nvme", "DISK_IO_ERROR",
          r"(?:(?:blk_update_request|print_req_error): )?(?:I/O|critical medium|critical target) error, "
          rf"dev {_DISK}, sector \d+.*", fatal=False),
    _rule("nvme", "DISK_IO_ERROR", rf"Buffer I/O error on dev(?:ice)? {_DISK}, .*", fatal=False),
)  # fmt: skip
_FS_DEVICE = r"(?P<on>[^\s():]{1,40})"
"""A superblock's s_id: 31 bytes, the kernel's name of the device."""
_BTRFS_DEVICE = rf"\(device {_FS_DEVICE}(?:: state [A-Z]{{1,12}})?\)"

_EXT4_RULES = (
    _rule("fs", "FS_SHUTDOWN", rf"EXT4-fs \({_FS_DEVICE}\): Remounting filesystem read-only",
          fatal=True),
    _rule("fs", "FS_ERROR", rf"EXT4-fs (?:error|critical) \(device {_FS_DEVICE}\)(?::.*)?", fatal=False),
    _rule("fs", "FS_ERROR",
          rf"EXT4-fs \({_FS_DEVICE}\): (?:I/O error.*|[\w ,]{{1,80}} -- potential data loss!.*)", fatal=False),
)  # fmt: skip
_JOURNAL_RULES = (
    _rule("fs", "FS_SHUTDOWN", r"Aborting journal on device (?P<on>[^\s():]{1,40}?)(?:-\d+)?\.",
          fatal=True),
)  # fmt: skip
_XFS_RULES = (
    _rule("fs", "FS_SHUTDOWN",
          rf"XFS \({_FS_DEVICE}\): (?:[A-Z][\w/ -]{{3,60}}(?: \(0x[0-9a-f]+\))? (?:[Dd]etected|received)"
          r"[^\"\n]{0,200} [Ss]hutting down filesystem\.?|Filesystem has been shut down.*"
          r"|[Ll]og I/O error.*|Please (?:unmount|umount) the filesystem.*|log mount failed.*)",
          fatal=True),
    _rule("fs", "FS_ERROR",
          rf"XFS \({_FS_DEVICE}\): (?:metadata I/O error|Metadata (?:corruption|CRC error)|Corruption"
          r"|Internal error).*",
          fatal=False),
)  # fmt: skip
_BTRFS_RULES = (
    _rule("fs", "FS_SHUTDOWN", rf"BTRFS(?: info|: error|: info)? {_BTRFS_DEVICE}: forced readonly",
          fatal=True, level=INFO),
    _rule("fs", "FS_ERROR", rf"BTRFS(?: critical|: error|: critical| error) {_BTRFS_DEVICE}(?::| in ).*",
          fatal=False),
)  # fmt: skip
_TARGET = r"(?P<on>[^\s:]{1,80}?)(?:-(?:osc|mdc|osp)-\w+)?: "
_LUSTRE = r"Lustre: (?:\d+-\d+: )?" + _TARGET
_LUSTRE_ERROR = r"LustreError: (?:\d+-\d+: )?" + _TARGET

_NFS_RULES = (
    _rule("fs", "FS_SERVER_LOST", r"nfs: server (?P<on>\S{1,255}) not responding, (?:still trying|timed out)",
          fatal=False, level=NOTICE),
    _rule("fs", "FS_SERVER_LOST", r"nfs: server (?P<on>\S{1,255}) OK", over=True, level=NOTICE),
)  # fmt: skip
_LUSTRE_RULES = (
    _rule("fs", "FS_EVICTED", _LUSTRE_ERROR + r"This client was evicted by .*", fatal=False),
    _rule(
        "fs", "FS_SERVER_LOST", _LUSTRE + r"Connection to \S+ \(at [^)]*\) was lost.*", fatal=False
    ),
    _rule("fs", "FS_SERVER_LOST", _LUSTRE + r"Connection restored to .*", over=True, level=INFO),
)
_VIRTIOFS_RULES = (
    _rule(
        "fs",
        "FS_ERROR",
        r"virtio-fs: tag <(?P<on>[^>\n]{1,100})> not found",
        fatal=False,
        level=INFO,
    ),
)
_WATCHDOG_RULES = (
    _rule("hung_task", "CPU_LOCKUP",
          r"watchdog: BUG: soft lockup - (?P<on>CPU#\d+) stuck for \d+s! \[.{0,15}:\d+\]", fatal=False),
    _rule("hung_task", "CPU_LOCKUP",
          r"(?:NMI watchdog|watchdog): (?:CPU\d+: )?Watchdog detected hard LOCKUP on (?P<on>cpu \d+).*", fatal=True),
)  # fmt: skip
_RCU_RULES = (
    _rule("hung_task", "CPU_LOCKUP", r"rcu: INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls? on .*",
          fatal=False),
)  # fmt: skip
_DIE_REST = r"\[#\d+\](?: [A-Z_]+(?:\([\w+]+\))?)*\s*"
_OOPS_RULES = (
    _rule("hung_task", "KERNEL_OOPS",
          r"BUG: (?:unable to handle |kernel NULL |Bad page (?:state|map|cache) in process ).*", fatal=False),
    _rule("hung_task", "KERNEL_OOPS", r"kernel BUG at [\w./-]{1,120}:\d+!", fatal=False, level=ANY_LEVEL),
    _rule("hung_task", "KERNEL_OOPS", r"Oops: [\w ,.:-]{1,120} " + _DIE_REST, fatal=False, level=ANY_LEVEL),
    _rule("hung_task", "KERNEL_OOPS", r"general protection fault(?:, [\w ,.-]{1,120})?: [0-9a-f]{4} " + _DIE_REST,
          fatal=False, level=ANY_LEVEL),
)  # fmt: skip
_MLX5_RULES = (
    _rule("mlx5", "MLX5_HEALTH",
          _MLX5 + r".*(?:health compromised|unrecoverable hardware error|[Ff]atal error \d+ detected"
          r"|synd 0x[1-9a-f][0-9a-f]*:|firmware internal error).*", fatal=True, level=ANY_LEVEL),
    _rule("mlx5", "MLX5_COMMAND", _MLX5 + r".*leak of a command resource.*", fatal=True),
    _rule("mlx5", "MLX5_POWER", _MLX5 + r".*[Dd]etected insufficient power.*", fatal=False),
    _rule("mlx5", "MLX5_MODULE", _MLX5 + r".*Port module event\[error\].*", fatal=False),
    _rule("mlx5", "MLX5_MODULE",
          r"mlx5_port_module_event:\d+:\(pid \d+\): Port module event\[error\]: (?P<on>module \d+).*", fatal=False),
)  # fmt: skip
_DRIVER_RULES = (
    _rule("driver", "GPU_INIT_FAILED", rf"NVRM: GPU {_PCI}: (?:RmInitAdapter failed|rm_init_adapter failed).*",
          fatal=False, level=ANY_LEVEL),
)  # fmt: skip

BY_START: Mapping[str, tuple[Rule, ...]] = {
    "mce: ": _MCE_RULES,
    "[Hardware Error]: ": _AMD_RULES,
    "Memory failure: ": _MEMORY_RULES,
    "EDAC MC": _EDAC_RULES,
    "nvme ": _NVME_RULES,
    "I/O error, dev ": _DISK_RULES,
    "critical ": _DISK_RULES,
    "blk_update_request: ": _DISK_RULES,
    "print_req_error: ": _DISK_RULES,
    "Buffer I/O error": _DISK_RULES,
    "EXT4-fs": _EXT4_RULES,
    "Aborting journal": _JOURNAL_RULES,
    "XFS (": _XFS_RULES,
    "BTRFS": _BTRFS_RULES,
    "nfs: server ": _NFS_RULES,
    "Lustre": _LUSTRE_RULES,
    "virtio-fs: ": _VIRTIOFS_RULES,
    "watchdog: ": _WATCHDOG_RULES,
    "NMI watchdog: ": _WATCHDOG_RULES,
    "rcu: INFO: ": _RCU_RULES,
    "BUG: ": _OOPS_RULES,
    "kernel BUG at ": _OOPS_RULES,
    "Oops: ": _OOPS_RULES,
    "general protection fault": _OOPS_RULES,
    "mlx5_": _MLX5_RULES,
    "NVRM: GPU ": _DRIVER_RULES,
}
"""Start of a record → the rules that can match it."""

_HEAD = 4
_BY_HEAD = {start[:_HEAD]: rules for start, rules in BY_START.items()}
"""One lookup decides for most records. No two groups begin with the same four characters."""

_AER_MARK = "PCIe Bus Error: severity="
"""These records begin with the name of the port's driver, which varies."""

CODES = frozenset(rule.code for rules in (_AER_RULES, *BY_START.values()) for rule in rules)
"""Every code that a single record can have."""


TO_CONFIRM = frozenset({"FS_SHUTDOWN"})
"""Codes that users can make the kernel write about a device of their own: a corrupt image, mounted in
a mount namespace of their own by a container runtime. Another probe has to know the device.
"""


def rule_for(text: str, level: int) -> tuple[Rule, re.Match[str]] | None:
    """The first rule that matches the whole record at this level."""
    rules = _AER_RULES if _AER_MARK in text else _BY_HEAD.get(text[:_HEAD], ())
    for rule in rules:
        match = rule.pattern.fullmatch(text) if level <= rule.level else None
        if match:
            return rule, match
    return None
