"""Prints what Holdfast reads of the jobs on this machine. Run by machine.sh."""

import json
import sys
from pathlib import Path

sys.path.insert(0, "/opt/tree")

from slurm_hooks.agent.job_runs.processes import scan
from slurm_hooks.node import slurmstepds, step_cgroup

PROC = Path("/proc")
found = [
    {
        "job": one.job,
        "step": one.step,
        "by_cgroup": one.by_cgroup,
        "command": one.command,
        "paths": [path.path for path in step_cgroup.each((PROC / f"{one.pid}/cgroup").read_text())],
    }
    for one in scan(PROC)
]
sys.stdout.write(json.dumps({"processes": found, "steps": sorted(slurmstepds.steps(PROC))}) + "\n")
