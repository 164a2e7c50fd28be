"""Parses the output of nccl-tests' ``all_reduce_perf`` and of Holdfast's ``programs/all_reduce``. Pure.

``busbw`` is the bus bandwidth in GB/s (nccl-tests, doc/PERFORMANCE.md): it is
comparable with the bandwidth of the hardware, for any number of ranks. Wrong results are a failure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_RANK = re.compile(
    r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+)", re.M
)
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)\s+(\w+)")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*([0-9.]+)")
_ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+\d+\s+\S+\s+\S+\s+-?\d+"
    r"\s+\S+\s+\S+\s+(?P<out>[0-9.]+)\s+(?P<out_wrong>\S+)"
    r"\s+\S+\s+\S+\s+(?P<in>[0-9.]+)\s+(?P<in_wrong>\S+)\s*$",
    re.M,
)
_TROUBLE = re.compile(r"^.*(?:NCCL WARN|Test NCCL failure|Test CUDA failure|Test failure).*$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """One run: ``busbw_gb_s`` of the largest size (the better of out-of-place and in-place),
    ``ranks`` and the hosts that they ran on, ``wrong`` values (None: not checked).
    """

    ranks: int
    hosts: tuple[str, ...]
    size: int
    busbw_gb_s: float
    wrong: int | None


def parse(text: str) -> AllReduce | None:
    """The run in this output; None if it is incomplete."""
    own = _own(text)
    if own is not None:
        return own
    rows = list(_ROW.finditer(text))
    if not rows or _AVERAGE.search(text) is None:
        return None
    last = max(rows, key=lambda row: int(row["size"]))
    found = _RANK.findall(text)
    bounds = _OUT_OF_BOUNDS.search(text)
    return AllReduce(
        ranks=len({rank for rank, _, _ in found}),
        hosts=tuple(dict.fromkeys(host for _, host, _ in found)),
        size=int(last["size"]),
        busbw_gb_s=max(float(last["out"]), float(last["in"])),
        wrong=int(bounds[1]) if bounds else None,
    )


def _own(text: str) -> AllReduce | None:
    for line in text.splitlines():
        try:
            values = json.loads(line)["all_reduce"]
            return AllReduce(
                ranks=int(values["ranks"]),
                hosts=tuple(values["hosts"]),
                size=int(values["size"]),
                busbw_gb_s=float(values["busbw_gb_s"]),
                wrong=int(values["wrong"]),
            )
        except (ValueError, TypeError, KeyError, IndexError):
            continue
    return None


def trouble(text: str) -> str:
    """The first error line of NCCL or CUDA."""
    match = _TROUBLE.search(text)
    return match[0].strip() if match else ""
