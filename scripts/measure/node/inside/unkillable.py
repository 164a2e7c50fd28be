"""Prints as JSON the seconds of passes over all probes while NVML calls hang, and the probes' deadline."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from holdfast.config.path import config_path
from slurm_hooks.probes.runner import NVML, Prober
from slurm_hooks.settings import settings


def main() -> None:
    config = settings.load(config_path())
    wanted = config.probes(config.active())
    times = []
    for turn in range(int(sys.argv[1])):
        stuck = Path(f"/tmp/bench-{os.getpid()}-{turn}")  # noqa: S108
        paths = replace(config.cluster.paths, state=stuck)
        prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
        begin = time.perf_counter()
        readings = prober.run(wanted)
        times.append(time.perf_counter() - begin)
        if not any(blind.probe == NVML and blind.hung for blind in readings.blind):
            raise SystemExit("the driver did not hang")
        prober.close()
    print(json.dumps({"pass": times, "deadline": config.agent.probe_deadline_s}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
