"""The catalogue of probes.

A probe is one module of this folder with ``open_probe``. It runs in a contained worker of its own,
so a probe that hangs does not delay another. To add one: the module, one row here, and a field in
``NodeFacts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_hooks.facts import Blind, MountFacts, MountState
from slurm_hooks.probes.probe import Probe, Sources, silence
from slurm_hooks.settings.sections import AgentConfig
from slurm_hooks.worker.child import Serve
from slurm_hooks.worker.worker import Answer

NVML, INFINIBAND, PCIE, MOUNTS, CLOCK = "nvml", "infiniband", "pcie", "mounts", "clock"
HOST, SYSTEM, SLURMD, DCGM, MLXLINK = "host", "system", "slurmd", "dcgm", "mlxlink"


# --- how each probe opens; called in its worker, which also does the imports ---------------------


def _nvml(sources: Sources) -> Serve:
    from slurm_hooks.probes.nvml import reader  # noqa: PLC0415 - only in the worker

    return reader.open_probe(sources.paths.nvml_library)


def _infiniband(sources: Sources) -> Serve:
    from slurm_hooks.probes import infiniband  # noqa: PLC0415 - only in the worker

    return infiniband.open_probe(sources.paths.sysfs)


def _pcie(sources: Sources) -> Serve:
    from slurm_hooks.probes import pcie  # noqa: PLC0415 - only in the worker

    return pcie.open_probe(sources.paths.sysfs, expected=sources.node.expected_gpus > 0)


def _mounts(sources: Sources) -> Serve:
    from slurm_hooks.probes import mounts  # noqa: PLC0415 - only in the worker

    return mounts.open_probe(str(sources.paths.procfs))


def _host(sources: Sources) -> Serve:
    from slurm_hooks.probes import host  # noqa: PLC0415 - only in the worker

    return host.open_probe(sources.paths.procfs, sources.node.disks, sources.paths.sysfs)


def _system(sources: Sources) -> Serve:
    from slurm_hooks.probes import system  # noqa: PLC0415 - only in the worker

    return system.open_probe(sources.paths.procfs, sources.paths.sysfs)


def _slurmd(sources: Sources) -> Serve:
    from slurm_hooks.probes import slurmd  # noqa: PLC0415 - only in the worker

    return slurmd.open_probe(sources.slurm.timeout_s, sources.slurm.bin)


def _dcgm(_sources: Sources) -> Serve:
    from slurm_hooks.probes import dcgm  # noqa: PLC0415 - only in the worker

    return dcgm.open_probe(_DCGM_LIMIT_S)


def _clock(sources: Sources) -> Serve:
    from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - only in the worker
    from slurm_hooks.probes import clock  # noqa: PLC0415 - only in the worker

    return clock.open_probe(SlurmCli(sources.slurm.timeout_s, sources.slurm.bin))


def _mlxlink(sources: Sources) -> Serve:
    from slurm_hooks.probes import mlxlink  # noqa: PLC0415 - only in the worker

    return mlxlink.open_probe(sources.paths.sysfs, _MLXLINK_LIMIT_S)


# --- targets, requests and digests that differ from the defaults ---------------------------------


def _if_gpus(sources: Sources) -> tuple[str, ...]:
    return ("",) if sources.node.expected_gpus else ()


def _read_or_release(_target: str, release: bool) -> object:
    return "release" if release else "read"


def _whole_driver(probe: Probe, answers: Mapping[str, Answer]) -> tuple[Any, Blind | None]:
    from slurm_hooks.probes.nvml import reader  # noqa: PLC0415 - cheap: the binding itself is not imported

    (answer,) = answers.values()
    if answer.complete:
        facts = reader.assemble(answer.items)
        if facts is not None and facts.init_code is not None:
            # This is a fact about the driver, but no GPU was read.
            why = f"NVML code {facts.init_code}: {facts.init_error}"
            return facts, silence(probe.name, answer, why)
        return facts, None
    after = f" after {len(answer.items) - 1} GPUs" if answer.items else ""
    return None, silence(probe.name, answer, answer.error + after)


def _each_mount(probe: Probe, answers: Mapping[str, Answer]) -> tuple[Any, Blind | None]:
    """A mount without an answer is a fact (hung), not a probe without an answer."""
    found: list[MountFacts] = []
    blind = None
    for path, answer in answers.items():
        if answer.hung:
            detail = f"no answer before the deadline; {answer.evidence}"
            found.append(MountFacts(path=path, state=MountState.HUNG, detail=detail))
        elif answer.error:
            blind = silence(probe.name, answer, f"{path}: {answer.error}")
        else:
            found.extend(answer.items)
    return tuple(found), blind


def _mount_points(sources: Sources) -> tuple[str, ...]:
    return sources.node.mounts


def _slurm_call(sources: Sources) -> float:
    return sources.slurm.timeout_s + 1.0


def _clock_interval(agent: AgentConfig) -> float:
    return agent.clock_interval_s


def _slow_interval(agent: AgentConfig) -> float:
    return agent.slow_interval_s


def _dcgm_interval(agent: AgentConfig) -> float:
    return agent.dcgm_interval_s


_DCGM_LIMIT_S = 20.0
"""nv-hostengine answers late or never while a GPU blocks it (NVSentinel issue 1748)."""


def _dcgm_call(_sources: Sources) -> float:
    return _DCGM_LIMIT_S + 1.0


_MLXLINK_LIMIT_S = 5.0
"""For one link; it usually answers within a second."""


def _mlxlink_calls(_sources: Sources) -> float:
    return 12 * _MLXLINK_LIMIT_S


def _mlxlink_interval(agent: AgentConfig) -> float:
    return agent.mlxlink_interval_s


PROBES: tuple[Probe, ...] = (
    Probe(
        name=NVML,
        open_=_nvml,
        facts="nvml",
        targets=_if_gpus,
        request=_read_or_release,
        digest=_whole_driver,
        also_triggers=SYSTEM,
    ),
    Probe(name=INFINIBAND, open_=_infiniband, facts="ports"),
    Probe(name=PCIE, open_=_pcie, facts="pci"),
    Probe(name=HOST, open_=_host, facts="host"),
    Probe(name=MOUNTS, open_=_mounts, facts="mounts", targets=_mount_points, digest=_each_mount),
    Probe(name=SYSTEM, open_=_system, facts="system", every_s=_slow_interval, vital=False),
    Probe(
        name=SLURMD,
        open_=_slurmd,
        facts="slurmd",
        every_s=_slow_interval,
        deadline_s=_slurm_call,
        background=True,
        vital=False,
    ),
    Probe(
        name=DCGM,
        open_=_dcgm,
        facts="dcgm",
        every_s=_dcgm_interval,
        deadline_s=_dcgm_call,
        targets=_if_gpus,
        background=True,
        vital=False,
    ),
    Probe(
        name=MLXLINK,
        open_=_mlxlink,
        facts="links",
        every_s=_mlxlink_interval,
        deadline_s=_mlxlink_calls,
        background=True,
        vital=False,
    ),
    Probe(
        name=CLOCK,
        open_=_clock,
        facts="clock",
        every_s=_clock_interval,
        deadline_s=_slurm_call,
        background=True,
        vital=False,
    ),
)

BY_NAME: Mapping[str, Probe] = {probe.name: probe for probe in PROBES}
