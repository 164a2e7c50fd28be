"""The passive checks: the catalogue, and the type that every check has.

Each check is one small module that exports ``CHECK``, a ``Check``. A check is pure: it does no I/O
and has no state. To add one: the module, one row in ``CATALOGUE``, and a row in holdfast/faults/
for each new fault code (see CONTRIBUTING.md, "Add a check").
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

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
"""Name in the configuration → module. Every table lists the checks in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value that a check read, for ``holdfast check``: the value and its limit.

    ``seen``      False: the subject exists, but its value cannot be read from here. Such a row is
                  not shown as healthy; it is shown as blind if the configuration requires the
                  subject (``expected``).
    ``code``      fault code of the finding that this value belongs to; set only where one subject
                  can have several findings.
    """

    subject: str
    value: str
    limit: str
    seen: bool = True
    expected: bool = False
    code: str = ""


class Limits(Protocol):
    """What the limits of every check have: how many consecutive passes open and close a finding."""

    @property
    def open_after(self) -> int: ...

    @property
    def clear_after(self) -> int: ...


def _always_visible(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - the default
    return True


LimitsT = TypeVar("LimitsT", bound=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[LimitsT]):
    """One check of the catalogue.

    ``probe``      the probe that the check depends on: while it does not answer, the check neither
                   opens nor closes a finding. Empty: the check reads what the agent itself knows.
    ``also``       other probes whose facts it reads. It works without their answers.
    ``limits``     its limits, a frozen dataclass. The defaults are the defaults of the
                   configuration; ``__post_init__`` raises ValueError for a value out of range.
    ``judge``      (facts, limits) → the findings of this moment.
    ``show``       (facts, limits) → every value that it read, healthy or not.
    ``could_see``  (an earlier finding, facts) → whether the facts can show that this finding is
                   gone. While they cannot, the finding stays open.
    """

    name: str
    probe: str = ""
    also: frozenset[str] = frozenset()
    limits: type[LimitsT]
    judge: Callable[[NodeFacts, LimitsT], Iterator[Finding]]
    show: Callable[[NodeFacts, LimitsT], Iterator[Reading]]
    could_see: Callable[[Finding, NodeFacts], bool] = _always_visible


def load(name: str) -> Check[Any]:
    """The check, imported at first use. Raises KeyError for a name that is not in the catalogue."""
    check = importlib.import_module(CATALOGUE[name]).CHECK
    if not isinstance(check, Check):
        raise TypeError(f"{CATALOGUE[name]}.CHECK is no Check")
    return check


def limits_in_range(limits: Limits) -> None:
    """For ``__post_init__``: opening and closing a finding takes at least one pass each."""
    for name in ("open_after", "clear_after"):
        value = getattr(limits, name)
        if not 1 <= value <= 1000:
            raise ValueError(f"{name} must be between 1 and 1000 passes, got {value}")
