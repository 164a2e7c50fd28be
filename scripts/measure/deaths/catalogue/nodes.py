"""Deaths because of a node, and of what runs the job there."""

from __future__ import annotations

from dataclasses import replace

from measure.deaths import acts, surroundings
from measure.deaths.death import Death, Expect, Where

_WAITS = "exec sleep 120"
_LONG_S = 25.0
"""Longer than a command of Slurm's waits for an answer."""
_ELSEWHERE = "requeued on other nodes; counts against nothing"
_MOVED = Expect(ends=("requeue", "done"), avoids=True, because="bad node")
_MOVED_SOMEHOW = Expect(ends=("requeue", "done"), or_slurm=True, avoids=True)
_BY_SLURM = (
    "Slurm requeues it on other nodes, without expedited requeue after its own delay (2 min)"
)
_GOES_ON = "the job goes on; the node is drained after it"


def _fault(
    name: str, how: str, *words: str, expect: Expect = _MOVED, then: str = _ELSEWHERE
) -> Death:
    """A fault of the sandbox in the node without the launcher."""
    return Death(
        name=name,
        how=how,
        then=then,
        rank=_WAITS,
        act=acts.fault(*words),
        where=Where.NODE,
        nodes=2,
        expect=expect,
    )


_GPU = (
    _fault("xid-79", "Xid 79: the GPU has fallen off the bus", "xid", "79", "--gpu", "1"),
    _fault("gpu-lost", "the GPU no longer answers NVML", "gpu-lost", "--gpu", "2"),
    _fault("ecc", "a double-bit ECC error (Xid 48)", "ecc", "--gpu", "1"),
    _fault("xid-95", "Xid 95: an uncontained ECC error", "xid", "95", "--gpu", "1"),
    _fault("xid-119", "Xid 119: the GSP does not answer", "xid", "119", "--gpu", "1"),
    _fault("nvlink-down", "an NVLink is down (Xid 74)", "nvlink-down", "--gpu", "1"),
    _fault(
        "row-remap-failed",
        "no spare row of the GPU's memory is left",
        "row-remap-failed",
        "--gpu",
        "1",
    ),
    Death(
        name="gpu-of-the-launcher",
        how="Xid 79 on the launcher's node",
        then=_ELSEWHERE,
        rank=_WAITS,
        act=acts.fault("xid", "79", "--gpu", "1"),
        where=Where.NODE,
        on_first=True,
        expect=_MOVED,
    ),
    Death(
        name="fault-no-requeue",
        how="Xid 79 in a job of sbatch --no-requeue",
        nodes=2,
        then="the job fails",
        rank=_WAITS,
        act=acts.fault("xid", "79", "--gpu", "1"),
        where=Where.NODE,
        options=("--no-requeue",),
        expect=Expect(ends=("fail",), state="FAILED", because="--no-requeue"),
    ),
    Death(
        name="fault-without-agent",
        how="Xid 79 right after the node's agent was killed",
        nodes=2,
        then=_ELSEWHERE,
        rank=_WAITS,
        act=acts.fault_without_agent,
        where=Where.NODE,
        expect=_MOVED,
    ),
    Death(
        name="application-xid",
        how="Xid 31, a fault of the program, and the task fails",
        nodes=2,
        then="restarted at once on the same nodes",
        rank="until_told\n[ $R = 3 ] && exit 1\n" + _WAITS,
        act=acts.fault_then_go("xid", "31", "--gpu", "1"),
        where=Where.NODE,
        expect=Expect(ends=("restart", "done"), charged=1),
    ),
    Death(
        name="too-hot",
        how="a GPU is too hot and slow",
        nodes=2,
        then=_GOES_ON,
        rank="until_told\nexit 0",
        act=acts.fault_then_go("thermal", "--gpu", "1", drains=True),
        where=Where.NODE,
        expect=Expect(ends=("done",)),
    ),
)

_HOST = (
    _fault("ib-down", "an InfiniBand port is down", "ib-down", "--hca", "mlx5_1"),
    _fault("mount-gone", "the file store is not mounted any more", "mount-gone"),
    _fault("mount-hung", "the file store does not answer", "mount-hung"),
    _fault("mount-read-only", "the file store is read-only", "mount-read-only"),
    _fault(
        "driver-hung", "the driver hangs, and its processes cannot be killed", "nvml-unkillable"
    ),
    _fault(
        "power-off",
        "power loss of a node without the launcher",
        "power-off",
        then=_ELSEWHERE,
        expect=_MOVED_SOMEHOW,
    ),
    _fault(
        "power-cycle",
        "power loss, and the node boots at once",
        "power-cycle",
        then="requeued, also on the same node; counts against nothing",
        expect=Expect(ends=("requeue", "done")),
    ),
    _fault(
        "slurmd-killed", "slurmd is killed and stays down", "slurmd-killed", expect=_MOVED_SOMEHOW
    ),
    _fault(
        "network-cut",
        "the network cable of a node is unplugged",
        "network-cut",
        expect=_MOVED_SOMEHOW,
    ),
    Death(
        name="port-flap",
        how="an InfiniBand port goes down and up again once",
        then="the job goes on; the node stays in service",
        nodes=2,
        rank="until_told\nexit 0",
        act=acts.fault_then_go("link-flap", "--times", "1"),
        where=Where.NODE,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="port-flaps",
        how="an InfiniBand port goes down and up again three times",
        then=_GOES_ON,
        nodes=2,
        rank="until_told\nexit 0",
        act=acts.fault_then_go("link-flap", "--times", "3", drains=True),
        where=Where.NODE,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="prolog-fails",
        how="Xid 79, and on the next node the prolog fails",
        then="Slurm drains that node; the job runs on a third one, and counts against nothing",
        rank=_WAITS,
        act=surroundings.fail_the_next_prolog,
        where=Where.ALONE,
        on_first=True,
        expect=_MOVED,
    ),
    Death(
        name="power-off-launcher",
        how="power loss of the launcher's node",
        then=_BY_SLURM,
        within_s=200,
        rank=_WAITS,
        act=acts.fault("power-off"),
        where=Where.NODE,
        on_first=True,
        expect=Expect(ends=("lost", "done"), avoids=True),
    ),
    Death(
        name="power-off-launcher-watched",
        how="the same, where agents set dead nodes DOWN (`agent.node_death.mode: act`)",
        then="a neighbour's agent sets the node DOWN and ends Slurm's delay: seconds on each release",
        rank=_WAITS,
        act=acts.power_off_while_watched,
        where=Where.ALONE,
        on_first=True,
        expect=Expect(ends=("lost", "done"), avoids=True),
    ),
    Death(
        name="slurmd-restart",
        how="slurmd restarts",
        then="the job goes on",
        nodes=2,
        rank="until_told\nexit 0",
        act=acts.restart_slurmd,
        where=Where.NODE,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="admin-down",
        how="an administrator sets the node DOWN",
        then="requeued, also on the same node once slurmd has registered again",
        nodes=2,
        rank=_WAITS,
        act=acts.set_down,
        where=Where.NODE,
        expect=Expect(ends=("requeue", "done"), or_slurm=True),
    ),
    Death(
        name="admin-drain",
        how="an administrator drains the node and requeues the job",
        nodes=2,
        then="it runs again elsewhere; counts against nothing",
        rank=_WAITS,
        act=acts.drain_and_requeue,
        where=Where.NODE,
        expect=Expect(ends=("others", "done"), avoids=True),
    ),
)

_PROCESSES = (
    Death(
        name="launcher-killed",
        how="SIGKILL for holdfast run",
        rank=_WAITS,
        then="the node's agent requeues it",
        act=acts.kill("holdfast run"),
        expect=Expect(ends=("lost", "done")),
    ),
    Death(
        name="script-killed",
        how="SIGKILL for the batch script",
        rank=_WAITS,
        then="the node's agent requeues it",
        act=acts.kill("slurm_script"),
        expect=Expect(ends=("lost", "done"), or_slurm=True),
    ),
    Death(
        name="srun-killed",
        how="SIGKILL for the step's srun",
        rank=_WAITS,
        then="restarted at once on the same nodes",
        act=acts.kill(r"^(/\S*/)?srun sh "),
        expect=Expect(ends=("restart", "done"), charged=1),
    ),
)

_SLURMSTEPDS = tuple(
    Death(
        name=name,
        how=f"SIGKILL for the slurmstepd of a step, on {where}",
        then="requeued, also on the same node; counts against nothing",
        rank=_WAITS,
        act=acts.kill_slurmstepd("0"),
        where=Where.NODE,
        nodes=1 if on_first else 2,
        on_first=on_first,
        expect=Expect(ends=("requeue", "done"), because="LOST"),
    )
    for name, where, on_first in (
        ("slurmstepd-killed", "a node without the launcher", False),
        ("slurmstepd-killed-launcher", "the launcher's node", True),
    )
)

_CONTROLLER = (
    Death(
        name="slurmctld-restart",
        how="Xid 79, and slurmctld is killed while the job is requeued",
        nodes=2,
        then=_ELSEWHERE + ", once slurmctld answers; a second time if it has forgotten that run",
        every=True,
        rank="[ ! -e $F/go ] || exit 0\n[ $A = 1 ] && exec sleep 120\nuntil_told\nexit 0",
        act=acts.fault_then_kill_slurmctld,
        where=Where.ALONE,
        within_s=150,
        expect=replace(_MOVED, or_ends=("requeue", "others", "done")),
    ),
    Death(
        name="slurmctld-silent",
        how="exit code 1 while slurmctld does not answer for 5 s",
        then="restarted on the same nodes",
        rank="until_told\nexit 1",
        act=acts.go_while_slurmctld_is_silent(5.0),
        where=Where.ALONE,
        expect=Expect(ends=("restart", "done"), charged=1),
    ),
    Death(
        name="slurmctld-slow",
        how="exit code 1 while slurmctld does not answer for 25 s",
        then="restarted on the same nodes, once slurmctld answers",
        rank="until_told\nexit 1",
        act=acts.go_while_slurmctld_is_silent(_LONG_S),
        where=Where.ALONE,
        expect=Expect(ends=("restart", "done"), charged=1, because="no node"),
    ),
    Death(
        name="slurmctld-slow-done",
        how="the program succeeds while slurmctld does not answer for 25 s",
        then="the job ends, and its success is recorded",
        rank="until_told\nexit 0",
        act=acts.go_while_slurmctld_is_silent(_LONG_S),
        where=Where.ALONE,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="slurmctld-slow-no-requeue",
        how="exit code 1 in a job of sbatch --no-requeue, while slurmctld does not answer for 25 s",
        then="the job fails",
        rank="until_told\nexit 1",
        act=acts.go_while_slurmctld_is_silent(_LONG_S),
        options=("--no-requeue",),
        where=Where.ALONE,
        expect=Expect(ends=("fail",), state="FAILED", charged=1, because="--no-requeue"),
    ),
    Death(
        name="slurmctld-slow-fault",
        how="Xid 79 while slurmctld does not answer for 25 s",
        nodes=2,
        then=_ELSEWHERE + ", once slurmctld answers",
        rank=_WAITS,
        act=acts.go_while_slurmctld_is_silent(_LONG_S, "xid", "79", "--gpu", "1"),
        where=Where.ALONE,
        expect=_MOVED,
    ),
    Death(
        name="slurmdbd-down",
        how="Xid 79 while accounting is down",
        nodes=2,
        then=_ELSEWHERE,
        rank=_WAITS,
        act=acts.fault_without_accounting,
        where=Where.ALONE,
        expect=_MOVED,
    ),
)

DEATHS = (*_GPU, *_HOST, *_PROCESSES, *_SLURMSTEPDS, *_CONTROLLER)
