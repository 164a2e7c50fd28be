"""Deaths that concern several ranks: collectives, connections, GPUs, and ranks that hang."""

from __future__ import annotations

from measure.deaths.catalogue.common import (
    AFTER_15_S,
    ECC_OF_RANK_3,
    HERE,
    OUTAGE,
    RESTARTED,
    prints,
    python,
)
from measure.deaths.death import Death, Expect, Where

_MPI_ABORT = """\
[ $R = 1 ] || exec sleep 120
say MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
exec bash -c 'echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read -r answer <&$PMI_FD
echo cmd=abort exitcode=1 >&$PMI_FD; exec sleep 120'
"""

_TIMEOUT = (
    "[rank1]:[E1122 10:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)
_COLLECTIVES = (
    Death(
        name="nccl-timeout",
        how="NCCL's watchdog ends a collective, and no rank is named",
        then=HERE,
        rank=prints(_TIMEOUT),
        expect=RESTARTED,
    ),
    Death(
        name="nccl-timeout-named",
        how="a collective in which the others waited for one rank",
        then="requeued without that rank's node",
        nodes=2,
        where=Where.NODE,
        rank="[ $R = 0 ] || exec sleep 120\n"
        "say '[rank0]: RuntimeError: Rank 3 failed to pass monitoredBarrier in 600000 ms'\nexit 1",
        expect=Expect(ends=("requeue", "done"), charged=1, avoids=True),
    ),
    Death(
        name="ecc-in-output",
        how="a rank prints an uncorrectable ECC error, and no agent reports one",
        then="requeued without that rank's node",
        nodes=2,
        where=Where.NODE,
        rank=ECC_OF_RANK_3,
        expect=Expect(ends=("requeue", "done"), charged=1, avoids=True, because="its output"),
    ),
    Death(
        name="users-exclude",
        how="the same in a job of sbatch --exclude=NODE",
        then="requeued without that node, and the owner's list is kept",
        nodes=2,
        where=Where.NODE,
        options=("--requeue", "--exclude=OTHER"),
        rank=ECC_OF_RANK_3,
        expect=Expect(
            ends=("requeue", "done"), charged=1, avoids=True, keeps=True, because="its output"
        ),
    ),
    Death(
        name="mpi-abort",
        how="a rank calls MPI_Abort: by PMI it has slurmctld end the step",
        then=HERE,
        rank=_MPI_ABORT,
        before="export SLURM_MPI_TYPE=pmi2",
        expect=RESTARTED,
    ),
    Death(
        name="connection-refused",
        how="the rendezvous refuses the connection (a real ECONNREFUSED)",
        then=HERE,
        expect=RESTARTED,
        rank=python('import socket; socket.create_connection(("127.0.0.1", 1))'),
    ),
    Death(
        name="peer-closed",
        how="a peer closed its connection, and nothing else is printed",
        then=HERE,
        rank=prints(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
            "peer [10.77.0.11]:40217"
        ),
        expect=RESTARTED,
    ),
    Death(
        name="nccl-timeout-twice",
        how="the same timeout twice in a job of three nodes, and no rank is named",
        then="restarted on the same nodes, the second time after a test of the nodes in pairs",
        nodes=3,
        where=Where.ALONE,
        every=True,
        rank="[ $A = 3 ] && exit 0\n" + prints(_TIMEOUT),
        expect=Expect(ends=("restart", "restart", "done"), charged=2, tests=True),
    ),
    Death(
        name="hang",
        how="a rank hangs without a word (`--hang-timeout 20`)",
        then="ended after 20 s and restarted on the same nodes",
        rank="[ $R = 1 ] && exec sleep 300\nexec sleep 301",
        run="--hang-timeout 20",
        within_s=150,
        expect=RESTARTED,
    ),
    Death(
        name="segv-twice",
        how="a segmentation fault on the same node twice",
        then="restarted on the same nodes, then requeued without that node",
        nodes=2,
        where=Where.NODE,
        every=True,
        rank="[ $A -lt 3 ] || exit 0\n[ $R = 3 ] && kill -SEGV $$; exec sleep 120",
        expect=Expect(
            ends=("restart", "requeue", "done"), charged=2, avoids=True, because="failure twice"
        ),
    ),
)

_GPU = (
    Death(
        name="illegal-access",
        how="an illegal memory access on a GPU, and no agent reports a fault",
        then=HERE,
        rank=prints("RuntimeError: CUDA error: an illegal memory access was encountered", 134),
        expect=RESTARTED,
    ),
    Death(
        name="fabric-error",
        how="InfiniBand gives up a transfer to an address that is not known as a node of the job",
        then=AFTER_15_S,
        rank="[ $R = 1 ] || exec sleep 120\n"
        'say "$SLURMD_NODENAME:4711:4999 [0] NCCL WARN NET/IB : Got completion from peer 10.77.9.9<4791> '
        'with status=12 opcode=0 len=0 vendor err 129 (Send)"\nexit 1',
        expect=OUTAGE,
    ),
    Death(
        name="transfer-error",
        how="InfiniBand gives up a transfer to the address of the job's other node",
        then="requeued without both nodes",
        nodes=2,
        where=Where.ALONE,
        rank="[ $R = 0 ] || exec sleep 120\n"
        'other=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)\n'
        "peer=$(scontrol -o show node $other | sed 's/.*NodeAddr=\\([^ ]*\\).*/\\1/')\n"
        'say "$SLURMD_NODENAME:4711:4999 [0] NCCL WARN NET/IB : Got completion from peer $peer<4791> '
        'with status=12 opcode=0 len=0 vendor err 129 (Send)"\nexit 1',
        expect=Expect(
            ends=("requeue", "done"), charged=1, avoids_all=True, because="attributed to"
        ),
    ),
)

DEATHS = (*_COLLECTIVES, *_GPU)
