"""What the kernel's own words mean: one rule for each form of record that speaks of a fault.

The forms are those of the kernels 4.18 to 6.18 and of the drivers of NVIDIA and Mellanox; tests hold
them against recorded lines (tests/data/kmsg/). A rule says nothing of how bad its code is: that is the
fault catalogue's word. What takes more than one record is in kmsg_events.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A record in which ``pattern`` is found is an event. Group ``on`` of the pattern is its subject
    (none: ``node``), group ``n`` how many errors it stands for. ``over``: it ends such an event."""

    kind: str
    code: str
    pattern: re.Pattern[str]
    fatal: bool | None = None
    over: bool = False


def _rule(
    kind: str, code: str, pattern: str, *, fatal: bool | None = None, over: bool = False
) -> Rule:
    return Rule(kind, code, re.compile(pattern), fatal, over)


_PCI = r"(?P<on>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_DISK = r"(?P<on>[\w-]+)"
_AER = rf"{_PCI}: (?:AER: )?PCIe Bus Error: severity="
_MLX5 = rf"^mlx5_core {_PCI}: "

_AER_RULES = (
    _rule("aer", "AER_FATAL", _AER + r"Uncorrect(?:ed|able) \(Fatal\)", fatal=True),
    _rule("aer", "AER_NONFATAL", _AER + r"Uncorrect(?:ed|able) \(Non-Fatal\)", fatal=False),
    _rule("aer", "AER_CORRECTED", _AER + r"Correct(?:ed|able)", fatal=False),
)
_CHECK = r"^mce: \[Hardware Error\]: (?P<on>CPU \d+): Machine Check[^:]*: \S+ Bank \d+: "
_AMD_CHECK = r"^\[Hardware Error\]: (?P<on>CPU:\d+) .*MC\d+_STATUS\[[^]]*\]: 0x"
_UNCORRECTED = "[2367abef][0-9a-f]{15}"
"""MCi_STATUS with its bit 61, UC (Intel SDM volume 3B, 17.3.2.2; AMD64 APM volume 2, 9.3.2)."""

_MCE_RULES = (
    _rule("mce", "MCE_UNCORRECTED", _CHECK + _UNCORRECTED, fatal=True),
    _rule("mce", "MCE_UNCORRECTED", _AMD_CHECK + _UNCORRECTED, fatal=True),
    _rule("mce", "MCE_CORRECTED", _CHECK, fatal=False),
    _rule("mce", "MCE_CORRECTED", _AMD_CHECK, fatal=False),
    _rule("mce", "MCE_CORRECTED", r"^mce: \[Hardware Error\]: Machine check events logged", fatal=False),
    _rule("edac", "DIMM_UNCORRECTED",
          r"^Memory failure: (?P<on>0x[0-9a-f]+): .*(?:[Kk]illing|recovery action|hardware memory corruption)",
          fatal=True),
)  # fmt: skip
_EDAC_RULES = (
    _rule("edac", "DIMM_CORRECTED", r"^EDAC MC\d+: (?P<n>\d+) CE .*? on (?P<on>\S+)", fatal=False),
    _rule("edac", "DIMM_UNCORRECTED", r"^EDAC MC\d+: (?P<n>\d+) UE .*? on (?P<on>\S+)", fatal=True),
)
_NVME_RULES = (
    _rule("nvme", "NVME_FAILED",
          r"^nvme (?P<on>nvme\d+): (?:Removing after probe failure|Disabling device after reset failure"
          r"|Device not ready; aborting|frozen state error detected)", fatal=True),
    _rule("nvme", "NVME_TIMEOUT",
          r"^nvme (?P<on>nvme\d+): (?:I/O .*\btimeout,|controller is down; will reset)", fatal=False),
)  # fmt: skip
_DISK_RULES = (
    _rule("nvme", "DISK_IO_ERROR",
          rf"(?:I/O|critical medium|critical target) error, dev {_DISK}, sector", fatal=False),
    _rule("nvme", "DISK_IO_ERROR", rf"^Buffer I/O error on dev(?:ice)? {_DISK},", fatal=False),
)  # fmt: skip
_LOCAL_FS_RULES = (
    _rule("fs", "FS_SHUTDOWN", r"^EXT4-fs \((?P<on>[^)]+)\): Remounting filesystem read-only", fatal=True),
    _rule("fs", "FS_SHUTDOWN", r"^Aborting journal on device (?P<on>\S+?)(?:-\d+)?\.$", fatal=True),
    _rule("fs", "FS_ERROR", r"^EXT4-fs (?:error|critical) \(device (?P<on>[^)]+)\)", fatal=False),
    _rule("fs", "FS_ERROR", r"^EXT4-fs \((?P<on>[^)]+)\): (?:I/O error|.*potential data loss)", fatal=False),
    _rule("fs", "FS_SHUTDOWN",
          r"^XFS \((?P<on>[^)]+)\): .*(?:[Ss]hutting down filesystem|Filesystem has been shut down"
          r"|log I/O error|Please unmount the filesystem|log mount failed)", fatal=True),
    _rule("fs", "FS_ERROR",
          r"^XFS \((?P<on>[^)]+)\): (?:metadata I/O error|Metadata (?:corruption|CRC error)|Corruption|Internal error)",
          fatal=False),
    _rule("fs", "FS_SHUTDOWN", r"^BTRFS.*\(device (?P<on>[^\s:)]+).*forced readonly", fatal=True),
    _rule("fs", "FS_ERROR", r"^BTRFS(?: critical|: error|: critical| error) \(device (?P<on>[^\s:)]+)", fatal=False),
)  # fmt: skip
_TARGET = r"(?P<on>\S+?)(?:-(?:osc|mdc|osp)-\w+)?: "
_LUSTRE = r"^Lustre: (?:\d+-\d+: )?" + _TARGET
_LUSTRE_ERROR = r"^LustreError: (?:\d+-\d+: )?" + _TARGET

_REMOTE_FS_RULES = (
    _rule("fs", "FS_SERVER_LOST", r"^nfs: server (?P<on>\S+) not responding", fatal=False),
    _rule("fs", "FS_SERVER_LOST", r"^nfs: server (?P<on>\S+) OK$", over=True),
    _rule("fs", "FS_EVICTED", _LUSTRE_ERROR + r"This client was evicted by", fatal=False),
    _rule(
        "fs", "FS_SERVER_LOST", _LUSTRE + r"Connection to \S+ \(at [^)]*\) was lost", fatal=False
    ),
    _rule("fs", "FS_SERVER_LOST", _LUSTRE + r"Connection restored to", over=True),
    _rule("fs", "FS_ERROR", r"^virtio-fs: tag <(?P<on>[^>]+)> not found", fatal=False),
)
_STUCK_RULES = (
    _rule("hung_task", "CPU_LOCKUP",
          r"^watchdog: BUG: soft lockup - (?P<on>CPU#\d+) stuck for", fatal=False),
    _rule("hung_task", "CPU_LOCKUP", r"^(?:NMI )?[Ww]atchdog.*hard LOCKUP on (?P<on>cpu \d+)", fatal=True),
    _rule("hung_task", "CPU_LOCKUP", r"^rcu: INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stall",
          fatal=False),
    _rule("hung_task", "KERNEL_OOPS",
          r"^(?:BUG: (?:unable to handle|kernel NULL|Bad page)|kernel BUG at|Oops: |general protection fault)",
          fatal=False),
)  # fmt: skip
_MLX5_RULES = (
    _rule("mlx5", "MLX5_HEALTH",
          _MLX5 + r".*(?:health compromised|unrecoverable hardware error|[Ff]atal error \d+ detected"
          r"|synd 0x[1-9a-f][0-9a-f]*:|firmware internal error)", fatal=True),
    _rule("mlx5", "MLX5_COMMAND", _MLX5 + r".*leak of a command resource", fatal=True),
    _rule("mlx5", "MLX5_POWER", _MLX5 + r".*[Dd]etected insufficient power", fatal=False),
    _rule("mlx5", "MLX5_MODULE", _MLX5 + r".*Port module event\[error\]", fatal=False),
    _rule("mlx5", "MLX5_MODULE",
          r"^mlx5_port_module_event.*Port module event\[error\]: (?P<on>module \d+)", fatal=False),
)  # fmt: skip
_DRIVER_RULES = (
    _rule("driver", "GPU_INIT_FAILED", rf"^NVRM: GPU {_PCI}: (?:RmInitAdapter failed|rm_init_adapter failed)",
          fatal=False),
)  # fmt: skip

BY_MARK: Mapping[str, tuple[Rule, ...]] = {
    "PCIe Bus Error": _AER_RULES,
    "[Hardware Error]": _MCE_RULES,
    "Memory failure:": _MCE_RULES,
    "EDAC MC": _EDAC_RULES,
    "nvme nvme": _NVME_RULES,
    " error, dev ": _DISK_RULES,
    "Buffer I/O error": _DISK_RULES,
    "EXT4-fs": _LOCAL_FS_RULES,
    "Aborting journal": _LOCAL_FS_RULES,
    "XFS (": _LOCAL_FS_RULES,
    "BTRFS": _LOCAL_FS_RULES,
    "nfs: server": _REMOTE_FS_RULES,
    "Lustre": _REMOTE_FS_RULES,
    "virtio-fs:": _REMOTE_FS_RULES,
    "soft lockup": _STUCK_RULES,
    "hard LOCKUP": _STUCK_RULES,
    "rcu: INFO": _STUCK_RULES,
    "BUG": _STUCK_RULES,
    "Oops": _STUCK_RULES,
    "general protection fault": _STUCK_RULES,
    "mlx5_": _MLX5_RULES,
    "_init_adapter failed": _DRIVER_RULES,
    "RmInitAdapter failed": _DRIVER_RULES,
}
"""A piece of text without which no rule of the group can match: records of a healthy node cost only
these tests."""

CODES = frozenset(rule.code for rules in BY_MARK.values() for rule in rules)
"""Every code that a single record can become."""


def rule_for(text: str) -> tuple[Rule, re.Match[str]] | None:
    """The first rule that finds itself in the record's text."""
    for mark, rules in BY_MARK.items():
        if mark not in text:
            continue
        for rule in rules:
            match = rule.pattern.search(text)
            if match:
                return rule, match
    return None
