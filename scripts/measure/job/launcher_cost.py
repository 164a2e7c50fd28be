"""CPU and memory of ``holdfast run`` while a healthy job runs, beside a Python program that only waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from demonstration.observe import until
from testbed.box import Box
from testbed.running_box import Node, RunningBox

from measure.figures import Figure, Series
from measure.node.agent_cost import cpu_ticks_s, pss_mib
from slurm_hooks.job.step.node_watch import SETTLED_S

FOLDER = "/mnt/training/launcher-cost"
START_S, YOUNG_S, OVER_S = 15.0, 30.0, 120.0
"""Not counted: imports, the first look. Then two windows, before and after the launcher looks less often."""
_PRINTS = 'n=0; while sleep 1; do n=$((n+1)); echo "step $n loss 0.1"; done'
_SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive --requeue --output={FOLDER}/log
holdfast run --checkpoints {FOLDER} -- srun sh -c '{_PRINTS}'
"""
_FLOOR = "import subprocess; subprocess.Popen(['sleep', '3600']).wait()"


def launcher(box: Box, say: Callable[[str], None]) -> Figure:
    """Share of one core that the launcher and its commands use, without srun, which the job would need anyway."""
    box.run(["install", "-d", "-o", "alice", FOLDER])
    done = box.run(["sbatch", "--parsable"], user="alice", stdin=_SCRIPT)
    job = int(done.stdout.split(";")[0])
    try:
        host = until(lambda: _host(box, job), f"job {job} running", 60)
        pid = until(lambda: _pid(box, host, "--checkpoints", FOLDER), "its launcher", 30)
        with _waiting(Node(box=box, name=host)) as floor:
            say(f"launcher: {START_S + YOUNG_S:.0f} s of a young job")
            time.sleep(START_S)
            young = _share(pid, YOUNG_S)
            say(f"launcher: {OVER_S:.0f} s of a settled job, after {SETTLED_S:.0f} s")
            time.sleep(max(0.0, SETTLED_S - START_S - YOUNG_S + 5.0))
            floor_s = cpu_ticks_s(floor)
            ours = _share(pid, OVER_S)
            floor_share = (cpu_ticks_s(floor) - floor_s) / OVER_S
            ours_mib, floor_mib = pss_mib(pid), pss_mib(floor)
    finally:
        box.run(["scancel", str(job)], check=False)
        until(lambda: not _host(box, job), f"the end of job {job}", 60)
    return Figure(
        name="launcher",
        ours=Series(what="holdfast run beside a healthy job", seconds=(ours,), unit="core"),
        rival=Series(what="Python that waits for a child", seconds=(floor_share,), unit="core"),
        target="at most 0.1 % of a core, 30 MiB",
        met=ours <= 0.001 and ours_mib <= 30,
        notes=(
            f"over {OVER_S:.0f} s, user and system time of the launcher and of scontrol, without srun; the job prints "
            f"a line each second; in its first {SETTLED_S:.0f} s, where it looks at its nodes every 5 s: {young:.2%}",
            f"{ours_mib:.0f} MiB (proportional set size); Python alone: {floor_mib:.0f} MiB",
        ),
    )


def _share(pid: int, over_s: float) -> float:
    before, begin = cpu_ticks_s(pid), time.monotonic()
    time.sleep(over_s)
    return (cpu_ticks_s(pid) - before) / (time.monotonic() - begin)


def _host(box: Box, job: int) -> str | None:
    """The node of the running job's script; None: it does not run."""
    shown = box.run(
        ["squeue", "--noheader", "--states=R", f"--jobs={job}", "--format=%B"], check=False
    )
    return shown.stdout.strip() or None


def _pid(box: RunningBox, node: str, *words: str) -> int | None:
    for pid, argv in box.pids(node):
        line = " ".join(argv)
        if all(word in line for word in words) and "python" in argv[0]:
            return pid
    return None


@contextmanager
def _waiting(node: Node) -> Iterator[int]:
    """A Python program on this node that waits for a child, as alice."""
    node.run(["sh", "-c", f'exec setsid python3 -c "{_FLOOR}" >/dev/null 2>&1 &'], user="alice")
    pid = until(
        lambda: _pid(node.box, node.name, "sleep", "3600", "Popen"), "the waiting Python", 20
    )
    try:
        yield pid
    finally:
        node.run(["sh", "-c", "kill $(pgrep -u alice -f 'sleep.*3600')"], check=False)
