"""A short summary of a node's facts for the verdict file. Pure.

``holdfast check`` probes again and shows every value with its limit; this is the agent's last pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.text.wording import counted
from slurm_hooks.facts import MountState, NodeFacts

_GIB = 2**30


def brief(facts: NodeFacts) -> dict[str, str]:
    """A few words for each part that was probed."""
    return dict(_parts(facts))


def _parts(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    if facts.nvml is not None:
        answer = sum(gpu.answers for gpu in facts.gpus)
        driver = f", driver {facts.nvml.driver}" if facts.nvml.driver else ""
        yield "GPUs", f"{answer} of {facts.expected_gpus} answer{driver}"
    if facts.kmsg is not None:
        codes = [xid.code for xid in facts.kmsg.xids]
        codes += [event.code for event in facts.kmsg.events]
        yield "kernel log", ", ".join(dict.fromkeys(codes)) or "no faults"
    if facts.ports:
        active = sum(port.state == "ACTIVE" for port in facts.ports)
        yield "InfiniBand", f"{active} of {counted(len(facts.ports), 'port')} active"
    if facts.mounts:
        wrong = [
            f"{mount.path} {mount.state.value}"
            for mount in facts.mounts
            if mount.state is not MountState.OK
        ]
        yield "mounts", ", ".join(wrong) or f"{len(facts.mounts)} OK"
    if facts.host is not None and facts.host.load and facts.host.cpus:
        yield "load", f"{facts.host.load[0]:.1f} on {counted(facts.host.cpus, 'CPU')}"
    if facts.host is not None and facts.host.memory_available_bytes is not None:
        yield "memory", f"{facts.host.memory_available_bytes / _GIB:.0f} GiB available"
    if facts.slurmd is not None:
        yield "slurmd", "answers" if facts.slurmd.answers else "does not answer"
