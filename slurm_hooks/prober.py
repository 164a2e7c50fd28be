"""One pass over all probes that may block, each in a contained worker of its own, side by side.

The process that calls this touches neither driver nor mounts nor sysfs itself (law 1).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.config.schema import PathsConfig, SlurmConfig
from slurm_hooks.config import AgentConfig, NodeConfig
from slurm_hooks.contain import Answer, Worker, gather
from slurm_hooks.facts import (
    Blind,
    ClockFacts,
    MountFacts,
    MountState,
    NvmlFacts,
    PcieFacts,
    PortFacts,
)

NVML, SYSFS, MOUNTS, CLOCK = "nvml", "sysfs", "mounts", "clock"


@dataclass(slots=True)
class Readings:
    """What one pass brought. ``looked`` holds the probes that answered, ``blind`` those that did
    not.
    """

    nvml: NvmlFacts | None = None
    mounts: list[MountFacts] = field(default_factory=list)
    ports: tuple[PortFacts, ...] | None = None
    pcie: tuple[PcieFacts, ...] | None = None
    clock: ClockFacts | None = None
    looked: set[str] = field(default_factory=set)
    blind: list[Blind] = field(default_factory=list)


class Prober:
    """Starts passes and collects their answers; never blocks. ``wanted`` holds probes that checks
    need.
    """

    def __init__(
        self, node: NodeConfig, agent: AgentConfig, paths: PathsConfig, slurm: SlurmConfig
    ) -> None:
        self._node, self._agent, self._paths, self._slurm = node, agent, paths, slurm
        self._workers: dict[str, Worker] = {}
        self._waiting: dict[str, Worker] = {}
        self._readings = Readings()
        self._clock_at = float("-inf")
        self.release_driver = False
        """True while a GPU reset is waited for: an open NVML client stands in its way."""

    @property
    def running(self) -> bool:
        return bool(self._waiting)

    @property
    def workers(self) -> list[Worker]:
        """Those whose answers are waited for."""
        return list(self._waiting.values())

    @property
    def deadline(self) -> float | None:
        """Monotonic time of the next deadline of this pass."""
        return min((w.deadline for w in self._waiting.values() if w.deadline), default=None)

    def start(self, wanted: set[str], now: float) -> None:
        """Ask every wanted probe. Not to be called while ``running``."""
        self._readings = Readings()
        for key, worker, request, deadline_s in self._requests(wanted, now):
            if not worker.busy:
                worker.ask(request, deadline_s=deadline_s)
                self._waiting[key] = worker

    def collect(self) -> Readings | None:
        """The pass's readings once every probe answered or ran out of time, else None."""
        for key, worker in list(self._waiting.items()):
            answer = worker.take()
            if answer is not None:
                del self._waiting[key]
                self._store(key, answer)
        if self._waiting:
            return None
        if self._readings.mounts and MOUNTS not in {blind.probe for blind in self._readings.blind}:
            self._readings.looked.add(MOUNTS)
        return self._readings

    def run(self, wanted: set[str]) -> Readings:
        """One whole pass, waited for. Bounded by the probes' deadlines."""
        self.start(wanted, time.monotonic())
        while (readings := self.collect()) is None:
            left = (self.deadline or 0.0) - time.monotonic()
            gather(self.workers, timeout_s=left)
        return readings

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

    def reap(self, now: float) -> None:
        for worker in self._workers.values():
            worker.reap(now)

    # --- requests ------------------------------------------------------------------------------

    def _requests(self, wanted: set[str], now: float) -> Iterator[tuple[str, Worker, Any, float]]:
        deadline_s = self._agent.probe_deadline_s
        if NVML in wanted and self._node.expected_gpus:
            request = "release" if self.release_driver else "read"
            yield NVML, self._worker(NVML, self._open_nvml, keep=True), request, deadline_s
        if SYSFS in wanted:
            yield SYSFS, self._worker(SYSFS, self._open_sysfs), None, deadline_s
        if MOUNTS in wanted:
            for path in self._node.mounts:
                key = f"{MOUNTS}:{path}"
                yield key, self._worker(key, self._open_mounts), path, deadline_s
        if CLOCK in wanted and now - self._clock_at >= self._agent.clock_interval_s:
            self._clock_at = now
            bound_s = self._slurm.timeout_s + 1.0
            yield CLOCK, self._worker(CLOCK, self._open_clock), None, min(bound_s, 5.0)

    def _worker(self, name: str, open_: Any, *, keep: bool = False) -> Worker:
        if name not in self._workers:
            token = self._paths.state / "stuck" / (name.replace("/", "_").strip("_") + ".json")
            self._workers[name] = Worker(name, open_, token=token, keep=keep)
        return self._workers[name]

    # These run in the worker; the imports belong there too.

    def _open_nvml(self) -> Any:
        from slurm_hooks.probes import nvml  # noqa: PLC0415 - only in the worker

        return nvml.open_probe(self._paths.nvml_library)

    def _open_mounts(self) -> Any:
        from slurm_hooks.probes import mounts  # noqa: PLC0415 - only in the worker

        return mounts.open_probe()

    def _open_sysfs(self) -> Any:
        from slurm_hooks.probes import infiniband, pcie  # noqa: PLC0415 - only in the worker

        def serve(_request: object) -> Iterator[object]:
            yield ("ports", infiniband.read(self._paths.sysfs))
            yield ("pcie", pcie.read(self._paths.sysfs))

        return serve

    def _open_clock(self) -> Any:
        from holdfast.adapters.slurm_cli import SlurmCli  # noqa: PLC0415 - only in the worker
        from slurm_hooks.probes import clock  # noqa: PLC0415 - only in the worker

        return clock.open_probe(SlurmCli(self._slurm.timeout_s, self._slurm.bin))

    # --- answers -------------------------------------------------------------------------------

    def _store(self, key: str, answer: Answer) -> None:
        name, _, path = key.partition(":")
        readings = self._readings
        if name == MOUNTS:
            self._store_mount(path, answer)
            return
        if not answer.complete:
            why = answer.error
            if name == NVML and answer.items:
                why += f" after {len(answer.items) - 1} GPUs"
            readings.blind.append(
                Blind(
                    probe=name,
                    why=why,
                    hung=answer.hung,
                    stuck=answer.stuck,
                    evidence=answer.evidence,
                )
            )
            return
        readings.looked.add(name)
        if name == NVML:
            readings.nvml = _assemble(answer.items)
        elif name == SYSFS:
            said = dict(answer.items)
            readings.ports, readings.pcie = said.get("ports"), said.get("pcie")
        elif name == CLOCK:
            readings.clock = next(iter(answer.items), None)

    def _store_mount(self, path: str, answer: Answer) -> None:
        if answer.hung:
            detail = f"no answer in {self._agent.probe_deadline_s:g} s; {answer.evidence}"
            fact = MountFacts(path=path, state=MountState.HUNG, detail=detail)
            self._readings.mounts.append(fact)
        elif answer.error:
            self._readings.blind.append(Blind(probe=MOUNTS, why=f"{path}: {answer.error}"))
        else:
            self._readings.mounts.extend(answer.items)


def _assemble(items: tuple[Any, ...]) -> NvmlFacts | None:
    from slurm_hooks.probes import nvml  # noqa: PLC0415 - cheap: the binding itself is not imported

    return nvml.assemble(items)
