"""The section ``active`` of the configuration: where active checks run, and what each one demands."""

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
    """Active checks: tests that load a node."""

    partition: str = ""
    """Whose jobs the tests are. Empty: the first one that the node is in."""
    python: str = ""
    """Python of Holdfast on the nodes, as an absolute path. Empty: the same as where it is asked for."""
    torch_python: str = ""
    """A Python on the nodes whose torch has CUDA. Empty: ``python3`` along PATH."""
    nccl_tests: str = ""
    """Folder of ``all_reduce_perf`` on the nodes. Empty: the usual places, then PATH."""
    start_s: float = 60.0
    """How long a test job may wait for its start on the node that is kept for it."""
    inspect: tuple[str, ...] = (
        "host",
        "storage",
        "dcgm_diag_r1",
        "gpu_bandwidth",
        "nccl_loopback",
        "nccl_pairwise",
    )
    """What ``holdfast inspect`` runs unless it is told."""
    keep_reports: int = 60
    """Reports that ``holdfast inspect`` keeps in ``paths.state``/inspections."""
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
