"""What of the memory is kept over a boot and over a person's word, and whether the machine is still the
same one. Pure.

Counters begin anew with each boot. What the machine had does not: a card that was there before the
boot and is not there after it is missing, for as long as nothing shows that this is another machine
(law 10) and nobody said that it may be so (``memory.forgiven``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.findings import Finding
from slurm_hooks import checks
from slurm_hooks.facts import NodeFacts, NvmlFacts, PortFacts
from slurm_hooks.tracking import fabric, gpu, host, kernel
from slurm_hooks.tracking.host import HostSeen
from slurm_hooks.tracking.kernel import SURVIVES_REBOOT, lasting
from slurm_hooks.tracking.node import Demand, Memory


def booted(memory: Memory, boot_id: str, demand: Demand) -> Memory:
    """The memory under this boot id: after a reboot what no reboot cures, and what the machine had."""
    if memory.boot_id == boot_id:
        return memory
    if memory.begun_anew:
        return replace(memory, boot_id=boot_id)
    kept = tuple(e for e in memory.xids if lasting(demand(e), SURVIVES_REBOOT))
    streaks = {k: s for k, s in memory.streaks.items() if s.open and _survives_reboot(s.finding)}
    return Memory(
        boot_id=boot_id,
        unproven=True,
        # Sequence numbers begin anew with each boot.
        xids=tuple(replace(event, seq=-1, at_s=0.0) for event in kept),
        events=kernel.rebooted(memory.events, demand),
        gpus={index: gpu.rebooted(seen) for index, seen in memory.gpus.items()},
        ports={name: fabric.port_rebooted(port) for name, port in memory.ports.items()},
        pci={name: fabric.pci_rebooted(device) for name, device in memory.pci.items()},
        host=host.rebooted(memory.host),
        streaks=streaks,
        returns=memory.returns,
    )


def _survives_reboot(finding: Finding) -> bool:
    return finding.action in SURVIVES_REBOOT


def recognised(memory: Memory, nvml: NvmlFacts | None, ports: Iterable[PortFacts] | None) -> Memory:
    """The memory once this look proves that the machine is the one before the boot, or another one.

    One GPU or card of before is proof enough that it is the same; none of them among those that are
    there, that it is another. Until one of the two is seen it stays ``unproven``.
    """
    if not memory.unproven:
        return memory
    known_gpus = {gpu.uuid for gpu in memory.gpus.values() if gpu.uuid}
    known_cards = {port.guid for port in memory.ports.values() if port.guid and not port.here}
    gpus = {gpu.uuid for gpu in nvml.gpus if gpu.uuid} if nvml else set()
    cards = {port.guid for port in ports or () if port.guid}
    if known_gpus & gpus or known_cards & cards or not (known_gpus or known_cards):
        return replace(memory, unproven=False)
    if (known_gpus and not gpus) or (known_cards and ports is None):
        return memory
    if not (gpus or cards):
        return replace(memory, unproven=False)  # cards alone were known, and all are gone
    return replace(memory, unproven=False, ports={}, pci={}, host=HostSeen(), returns=())


def forgiven(memory: Memory, facts: NodeFacts) -> Memory:
    """Somebody who may put this node back into service did: past events no longer count, and what
    the machine has by ``facts``, the last look, is what it is to have.
    """
    streaks = {key: s for key, s in memory.streaks.items() if not _of_the_past(s.finding)}
    gpus = {index: gpu.forgiven(seen) for index, seen in memory.gpus.items()}
    return replace(
        memory,
        xids=(),
        events=(),
        streaks=streaks,
        ports=fabric.ports_forgiven(memory.ports, facts.ports or ()),
        pci=fabric.pci_forgiven(memory.pci, facts.pci),
        gpus=gpus,
        host=host.forgiven(memory.host, facts.host, facts.system),
        lost_records=0,
        returns=(),
    )


_REMEMBERED_CODES = (
    gpu.COUNTED_CODES | fabric.COUNTED_CODES | fabric.MISSED_CODES | host.MISSED_CODES
)


def _of_the_past(finding: Finding) -> bool:
    of_the_log = finding.check in checks.CATALOGUE and checks.load(finding.check).probe == "kmsg"
    return finding.code in _REMEMBERED_CODES or of_the_log
