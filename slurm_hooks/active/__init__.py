"""Active checks: the catalogue of tests that run a load on a node.

A passive check judges what the node reports; an active check makes the node work. Each module
exports ``CHECK``, an ``ActiveCheck``. The verdict of a test is passed, failed or error; a
missing program is never "passed".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from slurm_hooks.active.program import Node, Ran
from slurm_hooks.active.result import Judged


class Row(NamedTuple):
    """One row. ``config``: the key under ``active`` with its limits. ``level``: for modules with
    several rows, such as the levels of ``dcgmi diag``.
    """

    module: str
    config: str
    summary: str
    level: int = 0


CATALOGUE: Mapping[str, Row] = {
    "host": Row(
        "slurm_hooks.active.checks.host",
        "host",
        "hardware, kernel modules, PCIe, network: every probe once",
    ),
    "storage": Row(
        "slurm_hooks.active.checks.storage", "storage", "write and read every mount that jobs need"
    ),
    "dcgm_diag_r1": Row(
        "slurm_hooks.active.checks.dcgm_diag",
        "dcgm_diag",
        "DCGM diagnostics, software and set-up",
        1,
    ),
    "gpu_bandwidth": Row(
        "slurm_hooks.active.checks.gpu_bandwidth", "gpu_bandwidth", "GPU memory and PCIe throughput"
    ),
    "gpu_burn": Row(
        "slurm_hooks.active.checks.gpu_burn",
        "gpu_burn",
        "every GPU computes under load, results compared",
    ),
    "nccl_loopback": Row(
        "slurm_hooks.active.checks.nccl_loopback",
        "nccl_loopback",
        "all-reduce over the GPUs of one node",
    ),
    "nccl_pairwise": Row(
        "slurm_hooks.active.checks.nccl_pairwise",
        "nccl_pairwise",
        "all-reduce over pairs of nodes, in two rounds",
    ),
    "dcgm_diag_r2": Row(
        "slurm_hooks.active.checks.dcgm_diag",
        "dcgm_diag",
        "DCGM diagnostics with memory and PCIe",
        2,
    ),
    "dcgm_diag_r3": Row(
        "slurm_hooks.active.checks.dcgm_diag",
        "dcgm_diag",
        "DCGM diagnostics with stress and power",
        3,
    ),
    "dcgm_diag_r4": Row(
        "slurm_hooks.active.checks.dcgm_diag", "dcgm_diag", "DCGM diagnostics, the longest", 4
    ),
}
"""Name of the check → its row, cheapest first."""


LimitsT = TypeVar("LimitsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCheck(Generic[LimitsT]):
    """One module of the catalogue. ``level`` is that of its row.

    ``needs``         the program that it needs and where it is searched, for people.
    ``nodes``         how many nodes one test takes: 1 or 2.
    ``limits``        time limit and thresholds, a frozen dataclass; also its configuration.
    ``time_limit_s``  (limits, level) → seconds after which the program is stopped.
    ``command``       (node, limits, level) → argv. Raises ``Missing`` if the program is not there.
    ``read``          (run, node, limits, level) → readings and verdict. Pure.
    """

    needs: str
    nodes: int = 1
    limits: type[LimitsT]
    time_limit_s: Callable[[LimitsT, int], float]
    command: Callable[[Node, LimitsT, int], list[str]]
    read: Callable[[Ran, Node, LimitsT, int], Judged]


def load(name: str) -> ActiveCheck[Any]:
    """The check, imported at first use. Raises KeyError for a name that is not in the catalogue."""
    check = importlib.import_module(CATALOGUE[name].module).CHECK
    if not isinstance(check, ActiveCheck):
        raise TypeError(f"{CATALOGUE[name].module}.CHECK is no ActiveCheck")
    return check
