"""By how much the hardware's counters grew while a job ran. Pure.

The counters of the job's GPUs and of the node's ports are followed from the job's baseline on, so
that a reset or a wrap in between is noticed (rule 9). A counter that could not be compared has no
value, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from slurm_hooks.facts import GpuFacts, NodeFacts, PortFacts
from slurm_hooks.tracking.counters import Counter, advance

_LINK_DOWNED_FULL = 255
"""link_downed has eight bits and stops there (gpud 943)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One kind of counter that is followed for jobs.

    ``code``    the fault for which growth is evidence; empty: growth only appears in the report.
    ``check``   the check whose mode decides whether that may cause an action.
    ``least``   the smallest growth that is evidence.
    ``read``    its value; None if the hardware does not report it.
    """

    name: str
    title: str
    read: Callable[[Any], int | None]
    code: str = ""
    check: str = ""
    least: int = 1
    saturates_at: int | None = None

    def is_evidence(self, count: int) -> bool:
        """Whether growth by ``count`` is evidence of the fault."""
        return bool(self.code) and count >= self.least


def _field(name: str) -> Callable[[Any], int | None]:
    """Reads a number, or the sum of the numbers of all links."""

    def read(facts: Any) -> int | None:
        value = getattr(facts, name)
        if isinstance(value, tuple):
            return sum(value)
        return value if isinstance(value, int) else None

    return read


def _port(name: str) -> Callable[[Any], int | None]:
    def read(facts: Any) -> int | None:
        value = facts.counters.get(name)
        return value if isinstance(value, int) else None

    return read


# Sources for what counts as evidence: DCGM (any NVLink replay or recovery), NVIDIA's bring-up guide (a link
# that went down during a job), NVIDIA's GPU memory error management. CRC and PCIe replay counters grow on
# healthy machines too, so on their own they only appear in the report.
GPU_COUNTERS: tuple[Watched, ...] = (
    Watched(
        name="ecc_uncorrected",
        title="uncorrectable memory errors",
        read=_field("uncorrected"),
        code="ECC_UNCORRECTED",
        check="gpu_ecc",
    ),
    Watched(
        name="nvlink_recoveries",
        title="NVLink recoveries",
        read=_field("link_recoveries"),
        code="NVLINK_ERRORS",
        check="gpu_nvlink_errors",
    ),
    Watched(
        name="nvlink_replays",
        title="NVLink replays",
        read=_field("link_replays"),
        code="NVLINK_ERRORS",
        check="gpu_nvlink_errors",
    ),
    Watched(name="nvlink_crc", title="NVLink CRC errors", read=_field("link_crc_errors")),
    Watched(name="pcie_replays", title="PCIe replays", read=_field("pcie_replays")),
    Watched(name="ecc_corrected", title="corrected memory errors", read=_field("corrected")),
)
PORT_COUNTERS: tuple[Watched, ...] = (
    Watched(
        name="link_downed",
        title="losses of the link",
        read=_field("link_downed"),
        code="IB_FLAP",
        check="infiniband",
        saturates_at=_LINK_DOWNED_FULL,
    ),
    Watched(
        name="symbol_error",
        title="symbol errors of the link",
        read=_port("symbol_error"),
        saturates_at=0xFFFF,
    ),
    Watched(
        name="link_error_recovery",
        title="recoveries of the link",
        read=_port("link_error_recovery"),
        saturates_at=0xFF,
    ),
)
WATCHED: Mapping[str, Watched] = {
    watched.name: watched for watched in (*GPU_COUNTERS, *PORT_COUNTERS)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterDelta:
    """One counter of one device since the job's baseline.

    ``subject``  a GPU's UUID or a port; ``gpu`` its index.
    ``before``   what was counted before the last reset; ``resets``: how many resets there were.
    """

    name: str
    subject: str
    counter: Counter
    gpu: int | None = None
    before: int = 0
    resets: int = 0

    @property
    def count(self) -> int | None:
        """Growth since the baseline; None: unknown."""
        new = self.counter.new
        if new is None and not self.before:
            return None
        return self.before + (new or 0)


Deltas = Mapping[str, CounterDelta]


def begun(facts: NodeFacts, gpus: frozenset[int] | None, now: float) -> dict[str, CounterDelta]:
    """The baseline: every watched counter of these GPUs and of all ports. None: no GPU."""
    return {
        key: CounterDelta(
            name=watched.name,
            subject=subject,
            gpu=gpu,
            counter=advance(None, value, now, saturates_at=watched.saturates_at),
        )
        for key, watched, subject, gpu, value in _values(facts, gpus)
        if value is not None
    }


def grown(deltas: Deltas, facts: NodeFacts, now: float) -> dict[str, CounterDelta]:
    """The deltas after one more pass. Counters without a value in it stay as they were."""
    after = dict(deltas)
    for key, watched, _, _, value in _values(facts, None, every=True):
        delta = after.get(key)
        if delta is None or value is None:
            continue
        counter = advance(delta.counter, value, now, saturates_at=watched.saturates_at)
        if _was_reset(delta.counter, counter):
            counted = delta.before + (delta.counter.new or 0)
            # A counter that was reset to zero has counted its whole value since then.
            after[key] = replace(
                delta,
                counter=replace(counter, baseline=0, known=True),
                before=counted,
                resets=delta.resets + 1,
            )
        elif counter is not delta.counter:
            after[key] = replace(delta, counter=counter)
    return after


def _was_reset(before: Counter, after: Counter) -> bool:
    return (
        before.value is not None
        and after.value is not None
        and after.value < before.value
        and not after.known
    )


def counts(deltas: Deltas) -> Iterator[tuple[Watched, CounterDelta, int]]:
    """Every counter that grew, in the order of the tables (worst first)."""
    for name, watched in WATCHED.items():
        for _, delta in sorted(deltas.items()):
            if delta.name == name and delta.count:
                yield watched, delta, delta.count


def unknown(deltas: Deltas) -> tuple[str, ...]:
    """The counters that could not be compared, for the report."""
    return tuple(
        f"{delta.name} of {delta.subject}"
        for _, delta in sorted(deltas.items())
        if delta.count is None
    )


def _values(
    facts: NodeFacts, gpus: frozenset[int] | None, *, every: bool = False
) -> Iterator[tuple[str, Watched, str, int | None, int | None]]:
    """(key, counter, subject, GPU index, value). A GPU without a UUID could be another one at the
    next pass, so it has no deltas (rule 10)."""
    mine: Iterable[GpuFacts] = facts.gpus
    for gpu in mine:
        if gpu.uuid and (every or gpu.index in (gpus or ())):
            for watched in GPU_COUNTERS:
                key = f"{watched.name}|{gpu.uuid}"
                yield key, watched, gpu.uuid, gpu.index, watched.read(gpu)
    ports: Iterable[PortFacts] = facts.ports or ()
    for port in ports:
        for watched in PORT_COUNTERS:
            key = f"{watched.name}|{port.subject}"
            yield key, watched, port.subject, None, watched.read(port)


def as_json(deltas: Deltas) -> dict[str, Any]:
    return {key: asdict(delta) for key, delta in deltas.items()}
