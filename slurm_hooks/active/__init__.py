"""Active checks: a literal catalogue of tests that load a node to see whether it holds.

A passive check judges what the node says of itself; an active one makes it work. Each row is one
small module with ``NEEDS`` (the program that it needs and how that is looked for), ``NODES``, ``Limits``
(time limit and thresholds; also its configuration), ``command`` (what to run; raises ``Missing``
where the program is not there) and ``read`` (pure: the program's output → readings and a verdict).
The verdict is passed, failed or could-not-run; a missing program is never "passed".
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from slurm_hooks.active.result import Judged
from slurm_hooks.active.run import Node, Ran


class Row(NamedTuple):
    """``config`` is the key under ``active`` that holds its limits; ``level`` tells apart rows of one
    module.
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


class ActiveCheck(Protocol):
    """What a module of the catalogue offers."""

    NEEDS: str
    NODES: int
    Limits: type[Any]

    def time_limit_s(self, limits: Any, level: int) -> float: ...

    def command(self, node: Node, limits: Any, level: int) -> list[str]: ...

    def read(self, ran: Ran, node: Node, limits: Any, level: int) -> Judged: ...


def load(name: str) -> ActiveCheck:
    """The check's module. Raises KeyError for a name that is not in the catalogue."""
    return cast("ActiveCheck", importlib.import_module(CATALOGUE[name].module))
