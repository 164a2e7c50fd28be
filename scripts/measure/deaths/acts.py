"""What is done to a job from outside. Each function takes the running job."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable

from demonstration.observe import Cluster, NotSeenError, until

from measure.deaths.death import Where
from measure.deaths.job import RunningJob
from measure.node import reconfigure
from measure.node.node_death import HEARD_S

Act = Callable[[RunningJob], None]

_WITHOUT_DELAY_S = 20.0
"""Far less than Slurm's requeue delay."""
_FOR_A_PERSON = "IB_FLAP"
"""A drain that lasts for a day unless a person ends it."""
_URGENT = "urgent"
_RESERVATION = "deaths"
_REGISTERS_S = 5.0


def fault(*words: str) -> Act:
    """A fault of the sandbox, in the job's victim."""

    def act(job: RunningJob) -> None:
        job.box.fault(job.victim, *words)

    return act


def power_off_while_watched(job: RunningJob) -> None:
    """With agents that set a dead node DOWN. Its agent has to be back for the old configuration."""

    def acting(text: str) -> str:
        return text.replace("agent: {", "agent: {node_death: {mode: act}, ", 1)

    with reconfigure.configured(job.box, acting):
        time.sleep(HEARD_S)
        job.box.fault(job.victim, "power-off")
        job.wait(lambda: len(job.starts()) > 1, "its next run", _WITHOUT_DELAY_S)
        job.box.heal(job.victim)


def fault_then_go(*words: str, drains: bool = False) -> Act:
    """The fault; its task goes on a second later, or once the node is drained."""

    def act(job: RunningJob) -> None:
        job.box.fault(job.victim, *words)
        if drains:
            job.wait(lambda: "DRAIN" in Cluster(job.box).node(job.victim).states, "the drain")
        else:
            time.sleep(1.0)
        job.tell()

    return act


def fault_then_checkpoint(*words: str) -> Act:
    """The fault; once the launcher asks for a checkpoint, the tasks write one."""

    def act(job: RunningJob) -> None:
        job.box.fault(job.victim, *words)
        job.wait(lambda: "degraded: " in job.log(), "the request for a checkpoint")
        job.tell()

    return act


def fault_without_agent(job: RunningJob) -> None:
    job.box.fault(job.victim, "agent-killed")
    job.box.fault(job.victim, "xid", "79", "--gpu", "1")


def fault_then_kill_slurmctld(job: RunningJob) -> None:
    """A slurmctld that is killed before it has saved the job forgets it, so this waits for that first."""
    saved, up = job.box.path("/var/lib/slurm/ctld/job_state"), time.time()
    job.wait(lambda: saved.exists() and saved.stat().st_mtime > up, "the state in a file", 30)
    job.box.fault(job.victim, "xid", "79", "--gpu", "1")
    job.wait(lambda: any(event["event"] == "decision" for event in job.events()), "a decision")
    job.box.fault("controller", "slurmctld-killed")
    time.sleep(4.0)
    job.box.heal("controller", "slurmctld-killed")
    job.tell()  # a slurmctld that comes back forgets a run that ended meanwhile


def done_then_kill_slurmctld(job: RunningJob) -> None:
    """slurmctld has saved that the job runs, and is killed before it has saved that it has ended."""
    saved, up = job.box.path("/var/lib/slurm/ctld/job_state"), time.time()
    job.wait(lambda: saved.exists() and saved.stat().st_mtime > up, "the state in a file", 30)
    job.tell()
    argv = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job.job_id}"]
    job.wait(lambda: job.box.run(argv).stdout.startswith("COMPLET"), "its end")
    job.box.fault("controller", "slurmctld-killed")
    time.sleep(4.0)
    job.box.heal("controller", "slurmctld-killed")
    time.sleep(_REGISTERS_S)  # until then it shows the job as RUNNING, or as COMPLETED


def fault_without_accounting(job: RunningJob) -> None:
    job.box.fault("controller", "slurmdbd-down")
    try:
        job.box.fault(job.victim, "xid", "79", "--gpu", "1")
        job.wait(lambda: job.restarts > 0, "the requeue")
    finally:
        job.box.heal("controller", "slurmdbd-down")


def go_while_slurmctld_is_silent(silent_s: float, *fault_words: str) -> Act:
    """The tasks go on, and there may be a fault of the victim."""

    def act(job: RunningJob) -> None:
        job.box.fault("controller", "slurmctld-stopped")
        try:
            if fault_words:
                job.box.fault(job.victim, *fault_words)
            job.tell()
            time.sleep(silent_s)
        finally:
            job.box.heal("controller", "slurmctld-stopped")

    return act


def restart_slurmd(job: RunningJob) -> None:
    job.box.fault(job.victim, "slurmd-killed")
    job.box.heal(job.victim, "slurmd-killed")
    job.tell()


def scontrol(verb: str) -> Act:
    def act(job: RunningJob) -> None:
        job.box.run(["scontrol", verb, str(job.job_id)])

    return act


def requeue_and_cancel(job: RunningJob) -> None:
    """The owner cancels the job while it waits for its next run."""
    job.box.run(["scontrol", "requeue", str(job.job_id)])
    job.wait(lambda: job.restarts > 0, "the requeue")
    job.box.run(["scancel", str(job.job_id)], user=job.user)


def suspend_and_resume(job: RunningJob) -> None:
    job.box.run(["scontrol", "suspend", str(job.job_id)])
    time.sleep(4.0)
    job.box.run(["scontrol", "resume", str(job.job_id)])


def set_down(job: RunningJob) -> None:
    words = [f"nodename={job.victim}", "state=down", "reason=a technician pulls the node"]
    job.box.run(["scontrol", "update", *words])


def drain_and_requeue(job: RunningJob) -> None:
    words = [f"nodename={job.victim}", "state=drain", "reason=swapping a DIMM"]
    job.box.run(["scontrol", "update", *words])
    job.box.run(["scontrol", "requeue", str(job.job_id)])


def preempt(job: RunningJob) -> None:
    """A job of a partition that is made for it takes the whole node for a few seconds."""
    words = [f"PartitionName={_URGENT}", "Nodes=ALL", "PriorityTier=100", "State=UP"]
    job.box.run(["scontrol", "create", *words])
    argv = ["sbatch", "--parsable", f"--partition={_URGENT}", f"--nodelist={job.victim}"]
    argv += ["--exclusive", "--chdir=/tmp", "--output=/dev/null", "--wrap=sleep 8"]
    job.box.run(argv, user="bob")
    job.wait(lambda: job.restarts > 0, "the preemption")


def maintain(job: RunningJob) -> None:
    words = [
        f"ReservationName={_RESERVATION}",
        f"Nodes={job.victim}",
        "Users=root",
        "StartTime=now",
    ]
    words += ["Duration=2", "Flags=MAINT,IGNORE_JOBS"]
    job.box.run(["scontrol", "create", "reservation", *words])
    job.box.run(["scontrol", "requeue", str(job.job_id)])


def kill(pattern: str) -> Act:
    """SIGKILL for the job's processes on its first node whose command line has this pattern."""

    def act(job: RunningJob) -> None:
        def named(argv: list[str], pid: int) -> bool:
            return bool(re.search(pattern, " ".join(argv))) and _is_of(job, pid)

        _kill(job, named)

    return act


def kill_slurmstepd(step: str) -> Act:
    """SIGKILL for the slurmstepd of a step of the job, on its victim."""

    def act(job: RunningJob) -> None:
        title = f"slurmstepd: [{job.job_id}.{step}]"
        _kill(job, lambda argv, _: " ".join(argv).startswith(title), job.victim)

    return act


def _is_of(job: RunningJob, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123 - procfs
            return f"SLURM_JOB_ID={job.job_id}".encode() in stream.read().split(b"\0")
    except OSError:
        return False


def _kill(job: RunningJob, wanted: Callable[[list[str], int], bool], node: str = "") -> None:
    """``node``: empty for the job's first one."""

    def once() -> bool:
        there = job.box.pids(node or job.runs()[0][0])
        found = [pid for pid, argv in there if wanted(argv, pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):  # srun's child ends with it
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    until(once, f"a process of job {job.job_id} to kill", 20)


def clean_up(job: RunningJob) -> None:
    """Ends the job, heals its node, and takes back what an act left behind. Raises ``NotSeenError``."""
    box = job.box
    box.run(["scancel", str(job.job_id)], check=False)
    if job.death.where is Where.SHARED:
        return
    box.run(["scontrol", "delete", f"reservation={_RESERVATION}"], check=False)
    box.run(["scancel", f"--partition={_URGENT}"], check=False)
    try:
        victim = job.victim
    except IndexError:
        return
    box.heal(victim)
    cluster = Cluster(box)

    def back() -> bool:
        node = cluster.node(victim)
        if not node.states & {"DRAIN", "DOWN", "NOT_RESPONDING", "FAIL", "MAINT"}:
            return True
        if node.reason and (
            not node.reason.startswith("holdfast:") or _FOR_A_PERSON in node.reason
        ):
            state = "resume" if "DOWN" in node.states else "undrain"
            box.run(["scontrol", "update", f"nodename={victim}", f"state={state}"], check=False)
        return False

    try:
        until(back, f"{victim} in service", 60, 0.3)
    except NotSeenError as error:
        node = cluster.node(victim)
        raise NotSeenError(f"{error}: {'+'.join(sorted(node.states))} {node.reason}") from None
