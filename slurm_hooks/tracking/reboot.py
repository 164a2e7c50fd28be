"""Which tracked state is kept after a reboot and after a person resumed the node, and whether the
machine is still the same one. Pure.

Counters begin again with each boot, the list of devices does not: a card that was there before the
boot and not after it is missing, unless this is another machine (rule 10) or a person accepted it
(``acknowledged``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto

from holdfast.findings import Finding
from slurm_hooks import checks
from slurm_hooks.facts import NodeFacts, NvmlFacts, PortFacts
from slurm_hooks.tracking import fabric, gpu, host, kernel
from slurm_hooks.tracking.host import HostSeen
from slurm_hooks.tracking.kernel import SURVIVES_REBOOT, lasting
from slurm_hooks.tracking.node import Demand, TrackedState


def booted(tracked: TrackedState, boot_id: str, demand: Demand) -> TrackedState:
    """The state for this boot id. After a reboot: the faults that a reboot does not clear, and the
    devices."""
    if tracked.boot_id == boot_id:
        return tracked
    # Nothing is known from before, so no device can be missing.
    if tracked.lost_and_empty:
        return replace(tracked, boot_id=boot_id)
    kept = tuple(e for e in tracked.xids if lasting(demand(e), SURVIVES_REBOOT))
    # Without this a reboot would return a node whose fault only a replacement ends.
    streaks = {k: s for k, s in tracked.streaks.items() if s.open and _survives_reboot(s.finding)}
    return TrackedState(
        boot_id=boot_id,
        unproven=True,
        # Sequence numbers begin again with each boot.
        xids=tuple(replace(event, seq=-1, at_s=0.0) for event in kept),
        events=kernel.rebooted(tracked.events, demand),
        gpus={index: gpu.rebooted(seen) for index, seen in tracked.gpus.items()},
        ports={name: fabric.port_rebooted(port) for name, port in tracked.ports.items()},
        pci={name: fabric.pci_rebooted(device) for name, device in tracked.pci.items()},
        host=host.rebooted(tracked.host),
        streaks=streaks,
        returns=tracked.returns,
    )


def _survives_reboot(finding: Finding) -> bool:
    return finding.action in SURVIVES_REBOOT


class Machine(Enum):
    """Whether this is the machine from before the boot. A node's name may move to another machine."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()


def recognised(
    tracked: TrackedState, nvml: NvmlFacts | None, ports: Iterable[PortFacts] | None
) -> TrackedState:
    """The state once these readings show that this is the machine from before the boot, or another
    one. Another machine inherits no devices and no returns. While it is unknown the state stays
    ``unproven``.
    """
    if not tracked.unproven:
        return tracked
    machine = compared(tracked, nvml, ports)
    if machine is Machine.UNKNOWN:
        return tracked
    if machine is Machine.SAME:
        return replace(tracked, unproven=False)
    return replace(tracked, unproven=False, ports={}, pci={}, host=HostSeen(), returns=())


def compared(
    tracked: TrackedState, nvml: NvmlFacts | None, ports: Iterable[PortFacts] | None
) -> Machine:
    """Compares the GPUs and InfiniBand cards from before the boot with those of this pass.

    The first line that matches decides:

    | known before the boot | in this pass                    |         |                               |
    |-----------------------|---------------------------------|---------|-------------------------------|
    | no GPU and no card    | anything                        | SAME    | nothing to compare            |
    | a GPU or a card       | one of them                     | SAME    | a part moves rarely           |
    | a GPU                 | no GPU with a UUID              | UNKNOWN | the driver may not be up yet  |
    | a card                | the port probe did not answer   | UNKNOWN | the driver may not be up yet  |
    | cards only            | neither GPUs nor cards          | SAME    | all of its cards are missing  |
    | a GPU or a card       | only other ones                 | OTHER   |                               |
    """
    known_gpus = {seen.uuid for seen in tracked.gpus.values() if seen.uuid}
    known_cards = {port.guid for port in tracked.ports.values() if port.guid and not port.here}
    gpus = {seen.uuid for seen in nvml.gpus if seen.uuid} if nvml else set()
    cards = {port.guid for port in ports or () if port.guid}
    known, present = known_gpus | known_cards, gpus | cards
    if not known or known & present:
        return Machine.SAME
    if (known_gpus and not gpus) or (known_cards and ports is None):
        return Machine.UNKNOWN
    return Machine.OTHER if present else Machine.SAME


def acknowledged(tracked: TrackedState, facts: NodeFacts) -> TrackedState:
    """The state after a person resumed the node: earlier events no longer count, and the devices in
    ``facts``, the last pass, are the ones that the machine has to have.
    """
    streaks = {key: s for key, s in tracked.streaks.items() if not _of_the_past(s.finding)}
    gpus = {index: gpu.acknowledged(seen) for index, seen in tracked.gpus.items()}
    return replace(
        tracked,
        xids=(),
        events=(),
        streaks=streaks,
        ports=fabric.ports_acknowledged(tracked.ports, facts.ports or ()),
        pci=fabric.pci_acknowledged(tracked.pci, facts.pci),
        gpus=gpus,
        host=host.acknowledged(tracked.host, facts.host, facts.system),
        lost_records=0,
        returns=(),
    )


_TRACKED_CODES = gpu.COUNTED_CODES | fabric.COUNTED_CODES | fabric.MISSED_CODES | host.MISSED_CODES


def _of_the_past(finding: Finding) -> bool:
    from_log = finding.check in checks.CATALOGUE and checks.load(finding.check).probe == "kmsg"
    return finding.code in _TRACKED_CODES or from_log
