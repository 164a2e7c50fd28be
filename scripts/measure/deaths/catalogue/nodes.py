"""Deaths because of a node, and of what runs the job there."""

from __future__ import annotations

from measure.deaths import acts, disturbances
from measure.deaths.catalogue.common import ELSEWHERE, MOVED, WAITS
from measure.deaths.death import Death, Expect, Where

_MOVED_SOMEHOW = Expect(ends=("requeue", "done"), or_slurm=True, avoids=True)
_BY_SLURM = (
    "Slurm requeues it on other nodes, without expedited requeue after its own delay (2 min)"
)
_GOES_ON = "the job goes on; the node is drained after it"


def _fault(
    name: str, how: str, *words: str, expect: Expect = MOVED, then: str = ELSEWHERE
) -> Death:
    """A fault of the sandbox in the node without the launcher."""
    return Death(
        name=name,
        how=how,
        then=then,
        rank=WAITS,
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
        then=ELSEWHERE,
        rank=WAITS,
        act=acts.fault("xid", "79", "--gpu", "1"),
        where=Where.NODE,
        on_first=True,
        expect=MOVED,
    ),
    Death(
        name="fault-no-requeue",
        how="Xid 79 in a job of sbatch --no-requeue",
        nodes=2,
        then="the job fails",
        rank=WAITS,
        act=acts.fault("xid", "79", "--gpu", "1"),
        where=Where.NODE,
        options=("--no-requeue",),
        expect=Expect(ends=("fail",), state="FAILED", because="--no-requeue"),
    ),
    Death(
        name="fault-without-agent",
        how="Xid 79 right after the node's agent was killed",
        nodes=2,
        then=ELSEWHERE,
        rank=WAITS,
        act=acts.fault_without_agent,
        where=Where.NODE,
        expect=MOVED,
    ),
    Death(
        name="application-xid",
        how="Xid 31, a fault of the program, and the task fails",
        nodes=2,
        then="restarted at once on the same nodes",
        rank="until_told\n[ $R = 3 ] && exit 1\n" + WAITS,
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
    Death(
        name="too-hot-left",
        how="a GPU is too hot and slow, and the job writes a checkpoint",
        nodes=2,
        then="it is requeued from that checkpoint on other nodes; counts against nothing",
        every=True,
        rank="[ $A -gt 1 ] && exit 0\nuntil_told\nsave 5\n" + WAITS,
        act=acts.fault_then_checkpoint("thermal", "--gpu", "1"),
        where=Where.ALONE,
        expect=Expect(ends=("requeue", "done"), avoids=True, resumes=5, because="leaves"),
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
        then=ELSEWHERE,
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
        rank=WAITS,
        act=disturbances.fail_the_next_prolog,
        where=Where.ALONE,
        on_first=True,
        expect=MOVED,
    ),
    Death(
        name="power-off-launcher",
        how="power loss of the launcher's node",
        then=_BY_SLURM,
        within_s=200,
        rank=WAITS,
        act=acts.fault("power-off"),
        where=Where.NODE,
        on_first=True,
        expect=Expect(ends=("lost", "done"), avoids=True),
    ),
    Death(
        name="power-off-launcher-watched",
        how="the same, where agents set dead nodes DOWN (`agent.node_death.mode: act`)",
        then="a neighbour's agent sets the node DOWN and ends Slurm's delay: seconds on each release",
        rank=WAITS,
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
        rank=WAITS,
        act=acts.set_down,
        where=Where.NODE,
        expect=Expect(ends=("requeue", "done"), or_slurm=True),
    ),
    Death(
        name="admin-drain",
        how="an administrator drains the node and requeues the job",
        nodes=2,
        then="it runs again elsewhere; counts against nothing",
        rank=WAITS,
        act=acts.drain_and_requeue,
        where=Where.NODE,
        expect=Expect(ends=("others", "done"), avoids=True),
    ),
)

_PROCESSES = (
    Death(
        name="launcher-killed",
        how="SIGKILL for holdfast run",
        rank=WAITS,
        then="the node's agent requeues it",
        act=acts.kill("holdfast run"),
        expect=Expect(ends=("lost", "done")),
    ),
    Death(
        name="script-killed",
        how="SIGKILL for the batch script",
        rank=WAITS,
        then="the node's agent requeues it",
        act=acts.kill("slurm_script"),
        expect=Expect(ends=("lost", "done"), or_slurm=True),
    ),
    Death(
        name="srun-killed",
        how="SIGKILL for the step's srun",
        rank=WAITS,
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
        rank=WAITS,
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

DEATHS = (*_GPU, *_HOST, *_PROCESSES, *_SLURMSTEPDS)
