"""The section ``active`` of the configuration: where active checks run, and their limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.config.bounds import within
from slurm_hooks.active import CATALOGUE
from slurm_hooks.active.checks import (
    dcgm_diag,
    gpu_bandwidth,
    gpu_burn,
    host,
    nccl_loopback,
    nccl_pairwise,
    storage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConfig:
    """Active checks: tests that run a load on a node."""

    partition: str = ""
    """Partition of the test jobs. Empty: the first partition of the node."""
    python: str = ""
    """Absolute path of the Python with Holdfast on the nodes. Empty: the path on this machine."""
    torch_python: str = ""
    """A Python on the nodes with torch and CUDA. Empty: ``python3`` in PATH."""
    nccl_tests: str = ""
    """Folder of ``all_reduce_perf`` on the nodes. Empty: the usual folders, then PATH."""
    start_s: float = 60.0
    """Seconds that a test job may wait for its start on the reserved node."""
    inspect: tuple[str, ...] = (
        "host",
        "storage",
        "dcgm_diag_r1",
        "gpu_bandwidth",
        "nccl_loopback",
        "nccl_pairwise",
    )
    """Checks that ``holdfast inspect`` runs by default."""
    keep_reports: int = 60
    """Number of reports of ``holdfast inspect`` to keep in ``paths.state``/inspections."""
    host: host.Limits = field(default_factory=host.Limits)
    storage: storage.Limits = field(default_factory=storage.Limits)
    dcgm_diag: dcgm_diag.Limits = field(default_factory=dcgm_diag.Limits)
    gpu_bandwidth: gpu_bandwidth.Limits = field(default_factory=gpu_bandwidth.Limits)
    gpu_burn: gpu_burn.Limits = field(default_factory=gpu_burn.Limits)
    nccl_loopback: nccl_loopback.Limits = field(default_factory=nccl_loopback.Limits)
    nccl_pairwise: nccl_pairwise.Limits = field(default_factory=nccl_pairwise.Limits)

    def __post_init__(self) -> None:
        for name in ("python", "torch_python", "nccl_tests"):
            path: str = getattr(self, name)
            if path and not Path(path).is_absolute():
                raise ValueError(f"{name} must be an absolute path, got {path!r}")
        unknown = [name for name in self.inspect if name not in CATALOGUE]
        if unknown:
            raise ValueError(
                f"inspect must name active checks, got {unknown[0]!r}; known: {', '.join(CATALOGUE)}"
            )
        within(self, start_s=(1, 3600), keep_reports=(1, 10000))

    def limits(self, check: str) -> Any:
        """The limits of a check of the catalogue."""
        return getattr(self, CATALOGUE[check].config)
