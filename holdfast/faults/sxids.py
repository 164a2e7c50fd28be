"""The rows of the SXids: what NVSwitches log.

Kinds and remedies: NVIDIA's Fabric Manager user guide (DU-09883-001_v1.3, October 2023: tables of
non-fatal, fatal, always fatal and other notable SXids), compared with what the driver does with each
(open kernel modules 595.45.04: fatal for a link, fatal for the device, or not). Where they disagree:

- 19054 to 19067, 19069, 19070: fatal in the guide; the driver logs some of them as non-fatal. The log line
  decides.
- 19055, 19057, 19059: corrected in the guide; the driver logs them as fatal. The log line decides.
- 12001, 12002: fatal for a link in the guide, for the whole switch in the driver: all GPUs are reset.

What the driver logs ("Fatal", "Non-fatal") outranks the row in either direction: the row is what to expect,
the line is what happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.faults.row import Fault, row
from holdfast.faults.sxid_rows import ROWS
from holdfast.vocabulary import Action, FaultClass, Severity

_INFO, _WARN, _FATAL = Severity.INFO, Severity.WARN, Severity.FATAL
_LINK, _SWITCH = FaultClass.LINK, FaultClass.SWITCH

_GUIDE = "NVIDIA Fabric Manager user guide, SXid tables; open-gpu-kernel-modules 595.45.04"
_DRIVER = "open-gpu-kernel-modules 595.45.04 (NVSwitch LS10); not in NVIDIA's guide"

_Kind = tuple[Severity, FaultClass, Action, bool, str]
KINDS: Mapping[str, _Kind] = {
    "note": (
        _INFO, _LINK, Action.NONE, False,
        "Nothing to do: corrected or harmless. Recorded because many on one link indicate a bad cable or board.",
    ),
    "warn": (
        _WARN, _SWITCH, Action.NONE, False,
        "Not fatal by itself. Look for fatal SXids and for Xids 45 and 74 at the same time; if it repeats, keep "
        "the log and contact NVIDIA.",
    ),
    "job": (
        _WARN, _LINK, Action.RESTART_JOB, False,
        "The GPU behind this link stops and the driver ends its CUDA jobs with Xid 45: restart the job. If it "
        "happens again without a faulty job, reset all GPUs and check the Fabric Manager's partitions.",
    ),
    "thermal": (
        _WARN, _SWITCH, Action.WAIT, False,
        "NVLink is slower until the switch has cooled down: check fans and air flow.",
    ),
    "cable": (
        _WARN, _LINK, Action.CONTACT_SUPPORT, False,
        "Unless GPUs or nodes were just switched off: have the link's mechanical connection checked.",
    ),
    "module": (
        _WARN, _SWITCH, Action.CONTACT_SUPPORT, False,
        "A cable module of an NVLink network between nodes. An HGX H100 node has none: keep the log, contact NVIDIA.",
    ),
    "heartbeat": (
        _WARN, _LINK, Action.RESET_GPU, True,
        "It usually comes with a fatal SXid, which is the cause. Reset all GPUs and NVSwitches once the node "
        "is empty.",
    ),
    "soe": (
        _WARN, _SWITCH, Action.REBOOT, True,
        "The switch's controller (SOE) has stopped: NVLink works, but is not monitored. Reboot the node once it "
        "is empty.",
    ),
    "link": (
        _FATAL, _LINK, Action.RESET_GPU, True,
        "The NVLink of one GPU has failed (the GPU logs Xid 74). End the jobs, then reset all GPUs with "
        "nvidia-smi -r, or reboot. If the same link fails again: request a replacement of the GPU board or NVSwitch.",
    ),
    "all": (
        _FATAL, _SWITCH, Action.RESET_GPU, True,
        "Fatal to the NVLink fabric. End all jobs, then reset all GPUs and NVSwitches (nvidia-smi -r), or reboot.",
    ),
    "always": (
        _FATAL, _SWITCH, Action.REBOOT, True,
        "Always fatal to the whole fabric. Reboot the node. If the same switch fails again: request a "
        "replacement of the baseboard.",
    ),
}  # fmt: skip

_LINE = re.compile(r"(\d{5})([* ]) (\w+) (.+)")


def _row(number: int, title: str, kind: _Kind, source: str) -> Fault:
    return row(f"SXID{number}", f"NVSwitch: {title}", kind[:4], kind[4], source)


def unknown(number: int) -> Fault:
    """The row of a number that is not in the catalogue: a warning that never drains, unless the log line
    itself reports it as fatal."""
    return _row(number, "unknown SXid", KINDS["warn"], "none: this number is not in the catalogue")


def _parsed(line: str) -> Fault:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a row of an SXid: {line!r}")
    number, mark, kind, title = match.groups()
    return _row(int(number), title, KINDS[kind], _GUIDE if mark == "*" else _DRIVER)


SXIDS: tuple[Fault, ...] = tuple(_parsed(line) for line in ROWS.splitlines())
"""By number."""
