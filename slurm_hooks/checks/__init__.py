"""The checks of this half: a literal catalogue, and what each one is made of.

A check is one small module with ``NEEDS`` (the probe whose silence blinds it), ``Limits`` (a frozen
dataclass; its defaults are the defaults), ``judge(facts, limits)`` and ``show(facts, limits)``. One
that also judges what other probes say names them in ``ALSO``, a frozenset; their silence does not
blind it. ``could_see(finding, facts)``, where there is one, is False while what an old finding is
about does not say how it is: it is not gone then. A check never does I/O. Adding one: the module,
one row here, the code's row in holdfast/faults/.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from holdfast.config.bounds import within as within
from holdfast.findings import Finding
from slurm_hooks.facts import NodeFacts

CATALOGUE: Mapping[str, str] = {
    "gpu_xid": "slurm_hooks.checks.gpu_xid",
    "gpu_lost": "slurm_hooks.checks.gpu_lost",
    "gpu_count": "slurm_hooks.checks.gpu_count",
    "gpu_recovery": "slurm_hooks.checks.gpu_recovery",
    "gpu_row_remap": "slurm_hooks.checks.gpu_row_remap",
    "gpu_ecc": "slurm_hooks.checks.gpu_ecc",
    "gpu_nvlink": "slurm_hooks.checks.gpu_nvlink",
    "gpu_nvlink_errors": "slurm_hooks.checks.gpu_nvlink_errors",
    "gpu_fabric": "slurm_hooks.checks.gpu_fabric",
    "gpu_thermal": "slurm_hooks.checks.gpu_thermal",
    "gpu_power_brake": "slurm_hooks.checks.gpu_power_brake",
    "gpu_pcie": "slurm_hooks.checks.gpu_pcie",
    "gpu_modes": "slurm_hooks.checks.gpu_modes",
    "gpu_versions": "slurm_hooks.checks.gpu_versions",
    "gpu_errors": "slurm_hooks.checks.gpu_errors",
    "pcie_link": "slurm_hooks.checks.pcie_link",
    "driver_hung": "slurm_hooks.checks.driver_hung",
    "nvswitch_sxid": "slurm_hooks.checks.nvswitch_sxid",
    "kernel_driver": "slurm_hooks.checks.kernel_driver",
    "kernel_pcie_aer": "slurm_hooks.checks.kernel_pcie_aer",
    "kernel_mce": "slurm_hooks.checks.kernel_mce",
    "kernel_nvme": "slurm_hooks.checks.kernel_nvme",
    "kernel_fs": "slurm_hooks.checks.kernel_fs",
    "kernel_oom": "slurm_hooks.checks.kernel_oom",
    "kernel_hung_task": "slurm_hooks.checks.kernel_hung_task",
    "kernel_mlx5": "slurm_hooks.checks.kernel_mlx5",
    "kmsg": "slurm_hooks.checks.kmsg",
    "pci_devices": "slurm_hooks.checks.pci_devices",
    "pcie_aer": "slurm_hooks.checks.pcie_aer",
    "dcgm": "slurm_hooks.checks.dcgm",
    "mounts": "slurm_hooks.checks.mounts",
    "infiniband": "slurm_hooks.checks.infiniband",
    "infiniband_errors": "slurm_hooks.checks.infiniband_errors",
    "infiniband_ber": "slurm_hooks.checks.infiniband_ber",
    "infiniband_firmware": "slurm_hooks.checks.infiniband_firmware",
    "disks": "slurm_hooks.checks.disks",
    "memory": "slurm_hooks.checks.memory",
    "cpu_load": "slurm_hooks.checks.cpu_load",
    "tasks": "slurm_hooks.checks.tasks",
    "kernel_modules": "slurm_hooks.checks.kernel_modules",
    "services": "slurm_hooks.checks.services",
    "slurmd": "slurm_hooks.checks.slurmd",
    "clock": "slurm_hooks.checks.clock",
    "clock_sync": "slurm_hooks.checks.clock_sync",
    "job_leftovers": "slurm_hooks.checks.job_leftovers",
    "agent_state": "slurm_hooks.checks.agent_state",
    "probe_blind": "slurm_hooks.checks.probe_blind",
}
"""Name in the configuration → module. The order is that of every table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value that a check looked at, for people: the value and what it must not pass.

    ``seen``: False where the subject is there but cannot be looked at, which is not to read as well;
    blind, where the configuration ``expected`` it. ``code``: of the finding that this value belongs
    to, where there may be several of one subject.
    """

    subject: str
    value: str
    limit: str
    seen: bool = True
    expected: bool = False
    code: str = ""


class Limits(Protocol):
    """Every check's limits say how many passes in a row open a finding, and how many close it."""

    @property
    def open_after(self) -> int: ...

    @property
    def clear_after(self) -> int: ...


class Check(Protocol):
    """What a module of the catalogue offers."""

    NEEDS: str
    Limits: type[Any]

    def judge(self, facts: NodeFacts, limits: Any) -> Iterator[Finding]: ...

    def show(self, facts: NodeFacts, limits: Any) -> Iterator[Reading]: ...


def load(name: str) -> Check:
    """The check's module. Raises KeyError for a name that is not in the catalogue."""
    return cast("Check", importlib.import_module(CATALOGUE[name]))


def limits_in_range(limits: Limits) -> None:
    """For ``__post_init__``: a finding needs at least one pass to open and one to close."""
    for name in ("open_after", "clear_after"):
        value = getattr(limits, name)
        if not 1 <= value <= 1000:
            raise ValueError(f"{name} must be between 1 and 1000 passes, got {value}")
