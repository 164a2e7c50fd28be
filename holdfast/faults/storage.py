"""Faults of one kind: filesystems and disks."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN = Severity.FATAL, Severity.WARN

STORAGE_FAULTS: tuple[Fault, ...] = (
    row(
        "MOUNT_GONE", "a mount that jobs need is not mounted",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it again; look at the storage if other nodes lost it too.", OWN,
    ),
    row(
        "MOUNT_HUNG", "a mount does not answer", (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Look at the storage and its client. Processes in it cannot be killed until it answers.", OWN,
    ),
    row(
        "MOUNT_FULL", "a mount has no room left", (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "Make room. Other nodes see the same, so leaving service would help nobody.", OWN,
    ),
    row(
        "MOUNT_READ_ONLY", "a mount that jobs write to is read-only",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it read-write again; look in the kernel log for why it changed.", OWN,
    ),
    row(
        "MOUNT_WRONG", "something else is mounted than should be",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Jobs would read and write the wrong data. Mount what checks.mounts.limits.sources says.",
        "gcm check-mountpoint",
    ),
    row(
        "MOUNT_SLOW", "a mount answers slowly", (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "Look at the storage and at the node's network; other nodes tell which of the two.", OWN,
    ),
    row(
        "DISK_FULL", "a local filesystem is nearly full", (_WARN, FaultClass.STORAGE, Action.WAIT, True),
        "Make room: logs, container images, files that jobs left in /tmp.",
        "gcm check_storage; kubelet eviction thresholds", by_users=True,
    ),
    row(
        "DISK_READ_ONLY", "a local filesystem turned read-only",
        (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "The kernel does so after errors: look in its log, check the disk, reboot.",
        "node-problem-detector: readonly-monitor",
    ),
)  # fmt: skip
