"""Prints as JSON the seconds of whole node checks, as the agent runs them, and of NVML's calls in each.

One check consists of every probe that the configured checks need, each in its worker, and the
evaluation. NVML's time is measured by reading the same GPUs again in this process, with a timer
around every call into the library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast.config.path import config_path
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.node import machine
from slurm_hooks.probes.nvml import reader
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings import settings
from slurm_hooks.tracking.node import TrackedState


class Clocked:
    """Times every function that the binding calls in the library."""

    def __init__(self, binding: Any):
        self.spent_s = 0.0
        self._find = binding._nvmlGetFunctionPointer
        self._known: dict[str, Callable[..., Any]] = {}
        binding._nvmlGetFunctionPointer = self.function

    def function(self, name: str) -> Callable[..., Any]:
        if name not in self._known:
            self._known[name] = self._timed(self._find(name))
        return self._known[name]

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*args)
            finally:
                self.spent_s += time.perf_counter() - begin

        return timed


def main() -> None:
    import pynvml  # noqa: PLC0415 - needed only here

    rounds = int(sys.argv[1])
    config = settings.load(config_path())
    table = config.active()
    wanted = config.probes(table)
    prober = Prober(config.node, config.agent, config.cluster.paths, config.cluster.slurm)
    boot_id = machine.boot_id(config.cluster.paths.procfs)
    observer = Observer(config.node.expected_gpus, boot_id, TrackedState())
    clock = Clocked(pynvml)
    own = reader.open_probe(config.cluster.paths.nvml_library)
    times: dict[str, list[float]] = {"check": [], "nvml": []}
    for turn in range(rounds + 3):
        begin = time.perf_counter()
        readings = prober.run(wanted)
        observer.read_probes(readings, log_problem="", uptime_s=time.monotonic())
        observer.judge(table)
        took = time.perf_counter() - begin
        clock.spent_s = 0.0
        list(own("read"))
        if turn >= 3:  # the first rounds start the workers
            times["check"].append(took)
            times["nvml"].append(clock.spent_s)
    prober.close()
    print(json.dumps(times), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
