"""Faults of one kind: filesystems and disks."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN = Severity.FATAL, Severity.WARN

STORAGE_FAULTS: tuple[Fault, ...] = (
    row(
        "MOUNT_GONE", "a required filesystem is not mounted",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it again; check the storage if other nodes lost it too.", OWN,
    ),
    row(
        "MOUNT_HUNG", "a mount does not respond", (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Check the storage and its client. Processes that use it cannot be killed until it responds.", OWN,
    ),
    row(
        "MOUNT_FULL", "a mount has no free space", (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "Free space. A drain would not help: other nodes have the same mount.", OWN,
    ),
    row(
        "MOUNT_READ_ONLY", "a mount that jobs write to is read-only",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it read-write again; look in the kernel log for why it changed.", OWN,
    ),
    row(
        "MOUNT_WRONG", "the mount has another source than expected",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Jobs would read and write the wrong data. Mount the source in checks.mounts.limits.sources.",
        "gcm check-mountpoint",
    ),
    row(
        "MOUNT_SLOW", "a mount responds slowly", (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "Check the storage and the node's network; compare with other nodes.", OWN,
    ),
    row(
        "DISK_FULL", "a local filesystem is nearly full", (_WARN, FaultClass.STORAGE, Action.WAIT, True),
        "Free space: logs, container images, files that jobs left in /tmp.",
        "gcm check_storage; kubelet eviction thresholds", by_users=True,
    ),
    row(
        "DISK_READ_ONLY", "a local filesystem turned read-only",
        (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "The kernel does so after errors: check its log and the disk, then reboot.",
        "node-problem-detector: readonly-monitor",
    ),
)  # fmt: skip
