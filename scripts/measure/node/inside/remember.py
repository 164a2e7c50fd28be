"""Runs one pass over all probes and saves it as the agent's state: the baseline for counters."""

from __future__ import annotations

import os

from holdfast.config.path import config_path
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.node import machine
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings import settings
from slurm_hooks.tracking import store
from slurm_hooks.tracking.node import TrackedState


def main() -> None:
    config = settings.load(config_path())
    table, paths = config.active(), config.cluster.paths
    prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
    observer = Observer(config.node.expected_gpus, machine.boot_id(paths.procfs), TrackedState())
    uptime_s = machine.uptime_s(paths.procfs)
    observer.read_probes(prober.run(config.probes(table)), log_problem="", uptime_s=uptime_s)
    observer.judge(table)
    store.save(store.path_in(paths.state), observer.tracked)
    prober.close()
    os._exit(0)


if __name__ == "__main__":
    main()
