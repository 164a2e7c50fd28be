"""Slurm's configuration files of a box, as text.

They follow what Soperator renders (internal/render/common/configmap.go), with shorter timeouts. One
timeout is kept at Slurm's default, because Holdfast is compared with it: the delay of a requeued job
(cred_expire is not set).
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.shape import CONTROLLER, CONTROLLER_ADDRESS, GPUS_PER_NODE, Shape, address

JWT_KEY = "/etc/slurm/jwt_hs256.key"

_SLURM_CONF = """\
ClusterName=demo
SlurmctldHost={controller}({controller_address})
SlurmctldPort=6817
SlurmdPort=6818
# as in Soperator: the controller runs as root, so a reason set by Slurm shows root, like the agent's
SlurmUser=root
SlurmdUser=root
MailProg=/bin/true
AuthType=auth/{auth}
CredType={cred}
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={jwt_key}
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/lib/slurm/d/%n
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
DebugFlags=Script
# no cgroups in a sandbox (Soperator: proctrack/cgroup, task/cgroup,affinity)
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=0
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillOnBadExit=1
ReturnToService=2
MinJobAge=1800
MaxJobCount=20000
InactiveLimit=0
WaitTime=0
# Soperator: 180, 180, 60, 15, 180, 600, 5
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=5
TCPTimeout=2
KillWait=2
UnkillableStepTimeout=60
CompleteWait=0
SchedulerType=sched/backfill
SchedulerParameters={scheduler}
{prolog_flags}
TreeWidth=1000
# the nodes have more processors and memory configured than the machine has
SlurmdParameters=config_overrides
{slurmctld}
RebootProgram=/opt/sandbox/reboot
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={controller_address}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
{hooks}
{nodes}
PartitionName=main Nodes=ALL Default=YES PriorityTier=10 MaxTime=INFINITE State=UP
PartitionName=hidden Nodes=ALL Default=NO Hidden=YES PriorityTier=10 MaxTime=INFINITE State=UP
"""

_CRED_TYPES = {"munge": "cred/munge", "slurm": "auth/slurm"}

_SCHEDULER = (
    "nohold_on_prolog_fail", "extra_constraints", "pack_serial_at_end", "salloc_wait_nodes", "sbatch_wait_nodes",
    "defer_batch", "max_rpc_cnt=100", "bf_interval=2", "sched_interval=2",
)  # fmt: skip

_FOR_HOLDFAST = "nohold_on_prolog_fail"
"""Soperator sets it. Without Holdfast the file is one that needs this word, and PrologFlags too."""

_EXPEDITED_REQUEUE = (25, 11)
"""The first release with ``sbatch --requeue=expedite``; it changes nothing for other jobs."""

_HOOKS = """\
Prolog=/opt/holdfast/hooks/prolog
Epilog=/opt/holdfast/hooks/epilog"""

_HEALTH_CHECK = """\
HealthCheckProgram=/opt/holdfast/hooks/health_check
HealthCheckInterval=5
HealthCheckNodeState=ANY"""

_SLURMDBD_CONF = """\
DbdHost=localhost
SlurmUser=root
AuthType=auth/{auth}
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={jwt_key}
StorageType=accounting_storage/mysql
StorageUser=root
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd/slurmdbd.pid
"""


def slurm_conf(shape: Shape) -> str:
    """``slurm.conf``; the hooks are configured only where Holdfast is installed.

    The health check starts the agents. With pods it is not configured: the DaemonSet starts them.
    """
    nodes = "\n".join(
        f"NodeName={node} NodeAddr={address(node)} CPUs=16 RealMemory=64000 "
        f"Gres=gpu:h100:{GPUS_PER_NODE} State=UNKNOWN"
        for node in shape.node_names
    )
    return _SLURM_CONF.format(
        controller=CONTROLLER,
        controller_address=CONTROLLER_ADDRESS,
        jwt_key=JWT_KEY,
        auth=shape.auth,
        cred=_CRED_TYPES[shape.auth],
        scheduler=",".join(name for name in _SCHEDULER if shape.holdfast or name != _FOR_HOLDFAST),
        prolog_flags="PrologFlags=contain" if shape.holdfast else "# no PrologFlags",
        slurmctld="\n".join(_slurmctld_parameters(shape)),
        hooks=_hooks(shape),
        nodes=nodes,
    )


def _slurmctld_parameters(shape: Shape) -> Iterator[str]:
    """Soperator's cluster has a step manager, which needs PrologFlags; a plain one has the defaults."""
    can_expedite = tuple(map(int, shape.slurm.split("."))) >= _EXPEDITED_REQUEUE
    words = ["enable_stepmgr"] * shape.holdfast + ["enable_expedited_requeue"] * can_expedite
    if words:
        yield f"SlurmctldParameters={','.join(words)}"


def _hooks(shape: Shape) -> str:
    if not shape.holdfast:
        return "# no hooks: Holdfast is not installed"
    return _HOOKS if shape.pods else f"{_HOOKS}\n{_HEALTH_CHECK}"


def gres_conf(shape: Shape) -> str:
    """``gres.conf``: the files must be device nodes, else slurmd complains."""
    lines = (
        f"NodeName={node} Name=gpu Type=h100 File=/dev/nvidia[0-{GPUS_PER_NODE - 1}]"
        for node in shape.node_names
    )
    return "AutoDetect=off\n" + "\n".join(lines) + "\n"


def slurm_files(shape: Shape) -> dict[str, str]:
    """Every file of ``/etc/slurm``: name -> text."""
    return {
        "slurm.conf": slurm_conf(shape),
        "gres.conf": gres_conf(shape),
        # required, else slurmd exits with "No filesystem mounted on /sys/fs/cgroup"
        "cgroup.conf": "CgroupPlugin=disabled\n",
        "slurmdbd.conf": _SLURMDBD_CONF.format(jwt_key=JWT_KEY, auth=shape.auth),
    }


def hosts(shape: Shape) -> str:
    """``/etc/hosts`` of the box and of every node."""
    lines = ["127.0.0.1 localhost", f"{CONTROLLER_ADDRESS} {CONTROLLER}"]
    lines += [f"{address(node)} {node}" for node in shape.node_names]
    return "\n".join(lines) + "\n"
