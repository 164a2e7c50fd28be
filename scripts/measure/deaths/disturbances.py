"""What is done around a job: to its node's memory, to a prolog, to another task of its array."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from demonstration.observe import Cluster, json_lines, until
from testbed.errors import SandboxError

from measure.deaths.job import RunningJob

_AGAIN_WITHIN_S = 30.0
"""Far less than Slurm's requeue delay."""
_PROLOG = "/opt/holdfast/hooks/prolog"
_FAILS = f"""\
#!/bin/sh
[ "$SLURMD_NODENAME" = {{node}} ] && exit 1
HOLDFAST_HOOK=prolog exec {_PROLOG}.aside "$@"
"""
_OTHER_USES = 40 << 20
_LIMIT = 64 << 20
_CGROUPS = Path("/sys/fs/cgroup")


def wait_for_one_of_two(job: RunningJob) -> None:
    """Until one of two array tasks has ended without a step; then the other one may end."""
    folder = job.box.path(f"{job.folder}/.holdfast")

    def ends() -> list[str]:
        events = [json_lines(path) for path in folder.glob("job-*.jsonl")]
        last = [each[-1] for each in events if each]
        return [
            "done" if each.get("succeeded") else "not started"
            for each in last
            if each["event"] == "finish"
        ]

    job.wait(lambda: "not started" in ends(), "the task that does not start")
    time.sleep(1.0)
    if "done" in ends():
        raise SandboxError("a task ended before it was told to")
    job.tell()
    job.wait(lambda: sorted(ends()) == ["done", "not started"], "the end of the other task")


def use_up_memory(job: RunningJob) -> None:
    """In a cgroup of the machine: a process of root takes memory, and then task 1 takes more than is left.
    The kernel kills the task, as its ``oom_score_adj`` asks. The node's kernel log gets the kernel's line."""
    ours = f"SLURM_JOB_ID={job.job_id}".encode()

    def rank() -> int | None:
        for pid, argv in job.box.pids(job.victim):
            if argv[-1:] == [f"{job.folder}.rank"] and "srun" not in argv[0]:
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    if ours in words and b"SLURM_PROCID=1" in words:
                        return pid
        return None

    pid = until(rank, "task 1", 20)
    with _limited_memory(job.job_id) as procs:
        code = f"kept = b'x' * {_OTHER_USES}; print('up', flush=True); import time; time.sleep(60)"
        argv = ["sh", "-c", f'echo $$ >{procs}; exec python3 -c "$0"', code]
        other = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        try:
            if not other.stdout or not other.stdout.readline():
                raise SandboxError("no process that uses memory")
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
            procs.write_text(str(pid))
            job.box.fault(job.victim, "kernel-log", "oom-system")
            job.tell()
            job.wait(lambda: not Path(f"/proc/{pid}").exists(), "the end of task 1")
            if other.poll() is not None:
                raise SandboxError("the kernel killed the other process")
        finally:
            other.kill()
            other.communicate()


def use_gpu_memory(job: RunningJob) -> None:
    """A process of root, which is not of the job, on its node. The task reads its pid, as torch would from
    NVML, and names it."""
    node = job.box.node(job.victim)
    argv = ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"]
    pid = node.run(argv).stdout.strip()
    job.box.path(f"{job.folder}/go.new").write_text(f"{pid}\n")
    job.box.path(f"{job.folder}/go.new").rename(job.box.path(f"{job.folder}/go"))
    try:
        job.wait(lambda: len(job.runs()) > 1, "its next run")
    finally:
        node.run(["kill", pid])


@contextlib.contextmanager
def _limited_memory(name: int) -> Iterator[Path]:
    """The ``cgroup.procs`` of a new cgroup with little memory."""
    version_1 = _CGROUPS / "memory"
    top = version_1 if version_1.is_dir() else _CGROUPS
    group = top / f"deaths-{name}-{os.getpid()}"
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if version_1.is_dir() else "memory.max"
        (group / limit).write_text(str(_LIMIT))
        yield group / "cgroup.procs"
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "an empty cgroup", 20)
        group.rmdir()


def fail_the_next_prolog(job: RunningJob) -> None:
    """The node of the victim breaks. The next node that Slurm chooses has a prolog that fails."""
    box, cluster = job.box, Cluster(job.box)
    broken = next(name for name in ("worker-0", "worker-1") if name != job.victim)
    prolog = box.path(_PROLOG)  # all nodes have the same
    aside = prolog.rename(prolog.with_name("prolog.aside"))
    prolog.write_text(_FAILS.format(node=broken))
    prolog.chmod(0o755)
    try:
        box.fault(job.victim, "xid", "79", "--gpu", "1")
        job.wait(lambda: "DRAIN" in cluster.node(broken).states, "the drain of its prolog's node")
        job.wait(lambda: len(job.starts()) > 1, "its next run", _AGAIN_WITHIN_S)
    finally:
        aside.rename(prolog)
        reason = cluster.node(broken).reason
        box.run(["scontrol", "update", f"nodename={broken}", "state=undrain"], check=False)
    if "rolog" not in reason:
        raise SandboxError(f"{broken} was drained for another reason: {reason}")
