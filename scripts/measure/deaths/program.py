"""Deaths that the job's own program causes: exit codes, signals, and errors that it prints."""

from __future__ import annotations

from measure.deaths.death import Death, Expect, Where

_RESTARTED = Expect(ends=("restart", "done"), charged=1)
_OUTAGE = Expect(ends=("restart", "done"), because="an outage, no node is to blame")
_HELD = Expect(
    ends=("restart", "hold"), state="HELD", charged=2, because="the same failure 2 times"
)
_FAILED = Expect(ends=("fail",), state="FAILED", charged=1, because="user error")
_BY_A_PERSON = Expect(ends=("others",), state="FAILED")
_HERE = "restarted at once on the same nodes"
_AFTER_15_S = "restarted on the same nodes after 15 s; counts as an outage, not against the job"
_TWICE = "restarted once, then held for its owner"
_ECC_OF_RANK_3 = """\
[ $R = 3 ] || exec sleep 120
say '[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered'
exit 1"""

_MPI_ABORT = """\
[ $R = 1 ] || exec sleep 120
say MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
exec bash -c 'echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read -r answer <&$PMI_FD
echo cmd=abort exitcode=1 >&$PMI_FD; exec sleep 120'
"""


def _signal(name: str, what: str, expect: Expect = _RESTARTED, then: str = _HERE) -> Death:
    return Death(
        name=f"signal-{name.lower()}",
        how=f"a task ends by SIG{name}{what}",
        then=then,
        rank=f"[ $R = 1 ] && kill -{name} $$; exec sleep 120",
        expect=expect,
    )


def _python(code: str) -> str:
    return f"exec python3 -c '{code}'"


def _prints(line: str, code: int = 1) -> str:
    """Task 1 prints the line and fails; the other one waits for it."""
    return f"[ $R = 1 ] || exec sleep 120\nsay '{line}'\nexit {code}"


_EXITS = (
    Death(
        name="exit-1",
        how="exit code 1 without a message",
        then=_HERE,
        rank="exit 1",
        expect=_RESTARTED,
    ),
    Death(
        name="exit-1-always",
        how="exit code 1 without a message, each time",
        then="restarted after 0 and 5 s, then held",
        rank="exit 1",
        every=True,
        expect=Expect(
            ends=("restart", "restart", "hold"),
            state="HELD",
            charged=3,
            because="the same failure 3 times",
        ),
    ),
    Death(
        name="exit-93",
        how="exit code 93: the program requests no other attempt",
        then="the job fails",
        rank="exit 93",
        expect=Expect(ends=("fail",), state="FAILED", charged=1),
    ),
    Death(
        name="exit-no-requeue",
        how="exit code 1 in a job of sbatch --no-requeue",
        then="the job fails",
        rank="exit 1",
        options=("--no-requeue",),
        expect=Expect(ends=("fail",), state="FAILED", charged=1, because="--no-requeue"),
    ),
    Death(
        name="exit-after-progress",
        how="exit code 1 three times, each after a newer checkpoint",
        then="restarted each time from the newest: never held",
        every=True,
        rank="[ $A -gt 3 ] && exit 0\nsave $((A * 5))\nsleep 0.5\nexit 1",
        expect=Expect(ends=("restart", "restart", "restart", "done"), charged=3, resumes=15),
    ),
    _signal("SEGV", ": a segmentation fault"),
    _signal("BUS", ": a bus error"),
    _signal("ILL", ": an illegal instruction"),
    _signal("FPE", ": a division by zero"),
    _signal("ABRT", ": an assertion of a C library"),
    _signal("KILL", ", as by the kernel"),
    _signal("TERM", " that it sent itself"),
    _signal("INT", ": Ctrl-C", _BY_A_PERSON, "the job ends: a person ended it"),
    _signal("USR1", " that it does not handle", _BY_A_PERSON, "the job ends: a person ended it"),
)

_ERRORS = (
    Death(
        name="type-error",
        how="a TypeError of Python, each time",
        then=_TWICE,
        every=True,
        rank=_python("len(5)"),
        expect=_HELD,
    ),
    Death(
        name="gpu-out-of-memory",
        how="CUDA out of memory, each time",
        then=_TWICE,
        every=True,
        rank=_prints(
            "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 "
            "has a total capacity of 79.11 GiB of which 10.00 GiB is free."
        ),
        expect=_HELD,
    ),
    Death(
        name="host-out-of-memory",
        how="the kernel kills a task of the step, in Slurm's words, each time",
        then=_TWICE,
        every=True,
        rank="[ $R = 1 ] || exec sleep 120\n"
        'say "slurmstepd: error: Detected 1 oom_kill event in StepId=$SLURM_JOB_ID.0. '
        'Some of the step tasks have been OOM Killed."\nkill -KILL $$',
        expect=_HELD,
    ),
    Death(
        name="memory-error",
        how="a MemoryError of Python, each time",
        then=_TWICE,
        every=True,
        rank=_python(
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**28,) * 2); bytearray(2**30)"
        ),
        expect=_HELD,
    ),
    Death(
        name="permission-denied",
        how="a file that the user may not read, each time",
        then=_TWICE,
        every=True,
        rank=_python('open("/etc/shadow")'),
        expect=_HELD,
    ),
    Death(
        name="no-such-program",
        how="python3 FILE without such a file, each time",
        then=_TWICE,
        every=True,
        rank="exec python3 /mnt/training/no-such-program.py",
        expect=_HELD,
    ),
    Death(
        name="file-not-found",
        how="a FileNotFoundError of Python",
        then=_HERE,
        rank=_python('open("/mnt/training/no-such-file")'),
        expect=_RESTARTED,
    ),
    Death(
        name="import-error",
        how="a module that is not installed",
        then="the job fails at once",
        every=True,
        rank=_python("import no_such_module"),
        expect=_FAILED,
    ),
    Death(
        name="syntax-error",
        how="a syntax error of Python",
        then="the job fails at once",
        every=True,
        rank=_python("def"),
        expect=_FAILED,
    ),
    Death(
        name="data-loader",
        how="a worker of the DataLoader is killed",
        then=_HERE,
        rank=_prints("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed."),
        expect=_RESTARTED,
    ),
    Death(
        name="too-many-files",
        how="too many open files (the real limit of the process)",
        then=_HERE,
        rank=_python(
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16,) * 2); "
            'kept = [open("/dev/null") for _ in range(20)]'
        ),
        expect=_RESTARTED,
    ),
)

_OUTAGES = (
    Death(
        name="port-in-use",
        how="the rendezvous port is taken (EADDRINUSE, really)",
        then=_AFTER_15_S,
        rank=_python(
            'import socket; one, two = socket.socket(), socket.socket(); one.bind(("", 0)); '
            "one.listen(); two.bind(one.getsockname())"
        ),
        expect=_OUTAGE,
    ),
    Death(
        name="hub-429",
        how="a hub answers HTTP 429",
        then=_AFTER_15_S,
        rank=_prints(
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: "
            "https://hub.example/api/models"
        ),
        expect=_OUTAGE,
    ),
    Death(
        name="no-space",
        how="no space left on the device (a real ENOSPC)",
        then=_AFTER_15_S,
        rank=_python('stream = open("/dev/full", "w"); stream.write("x"); stream.flush()'),
        expect=_OUTAGE,
    ),
    Death(
        name="quota",
        how="the user's disk quota is used up (EDQUOT)",
        then=_AFTER_15_S,
        rank=_python("import errno, os; raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))"),
        expect=_OUTAGE,
    ),
    Death(
        name="io-error",
        how="a file system answers with EIO (a real one)",
        then=_AFTER_15_S,
        rank=_python('open("/proc/self/mem", "rb").read(1)'),
        expect=_OUTAGE,
    ),
    Death(
        name="stale-handle",
        how="a network file system answers with ESTALE",
        then=_AFTER_15_S,
        rank=_python("import errno, os; raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))"),
        expect=_OUTAGE,
    ),
)

_COLLECTIVES = (
    Death(
        name="nccl-timeout",
        how="NCCL's watchdog ends a collective, and no rank is named",
        then=_HERE,
        rank=_prints(
            "[rank1]:[E1122 10:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
        expect=_RESTARTED,
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
        rank=_ECC_OF_RANK_3,
        expect=Expect(ends=("requeue", "done"), charged=1, avoids=True, because="its output"),
    ),
    Death(
        name="users-exclude",
        how="the same in a job of sbatch --exclude=NODE",
        then="requeued without that node, and the owner's list is kept",
        nodes=2,
        where=Where.NODE,
        options=("--requeue", "--exclude=OTHER"),
        rank=_ECC_OF_RANK_3,
        expect=Expect(
            ends=("requeue", "done"), charged=1, avoids=True, keeps=True, because="its output"
        ),
    ),
    Death(
        name="mpi-abort",
        how="a rank calls MPI_Abort: by PMI it has slurmctld end the step",
        then=_HERE,
        rank=_MPI_ABORT,
        before="export SLURM_MPI_TYPE=pmi2",
        expect=_RESTARTED,
    ),
    Death(
        name="connection-refused",
        how="the rendezvous refuses the connection (a real ECONNREFUSED)",
        then=_HERE,
        expect=_RESTARTED,
        rank=_python('import socket; socket.create_connection(("127.0.0.1", 1))'),
    ),
    Death(
        name="peer-closed",
        how="a peer closed its connection, and nothing else is printed",
        then=_HERE,
        rank=_prints(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
            "peer [10.77.0.11]:40217"
        ),
        expect=_RESTARTED,
    ),
)

_GPU = (
    Death(
        name="illegal-access",
        how="an illegal memory access on a GPU, and no agent reports a fault",
        then=_HERE,
        rank=_prints("RuntimeError: CUDA error: an illegal memory access was encountered", 134),
        expect=_RESTARTED,
    ),
    Death(
        name="fabric-error",
        how="InfiniBand gives up a transfer to an address that is not known as a node of the job",
        then=_AFTER_15_S,
        rank="[ $R = 1 ] || exec sleep 120\n"
        'say "$SLURMD_NODENAME:4711:4999 [0] NCCL WARN NET/IB : Got completion from peer 10.77.9.9<4791> '
        'with status=12 opcode=0 len=0 vendor err 129 (Send)"\nexit 1',
        expect=_OUTAGE,
    ),
)

_CHECKPOINTS = (
    Death(
        name="torn-checkpoint",
        how="it ends while it writes a checkpoint",
        then="restarted from the last complete one",
        rank="save 5\n[ $R = 0 ] && head -c 40 /mnt/training/deaths/good.pt >$F/step_10.pt\n"
        "sleep 0.5\nexit 1",
        expect=Expect(ends=("restart", "done"), charged=1, resumes=5),
    ),
    Death(
        name="unloadable-checkpoint",
        how="the newest checkpoint cannot be loaded (a real EOFError)",
        then="restarted from the one before",
        every=True,
        rank='case "$A:$HOLDFAST_RESUME_STEP" in\n1:*) save 5; sleep 1; save 10; sleep 0.5; exit 1;;\n'
        '*:10) exec python3 -c "import pickle; pickle.loads(bytes())";;\nesac',
        expect=Expect(
            ends=("restart", "restart", "done"),
            charged=2,
            resumes=5,
            because="the checkpoint may be bad",
        ),
    ),
    Death(
        name="poisoned-checkpoint",
        how="the loss is NaN from the newest two checkpoints on",
        then="restarted from older ones, until one is good",
        every=True,
        rank='case "$A:$HOLDFAST_RESUME_STEP" in\n'
        "1:*) save 5; sleep 1; save 10; sleep 1; save 15; sleep 0.5; exit 1;;\n"
        "*:15|*:10) say 'RuntimeError: loss is nan, stopping'; exit 1;;\nesac",
        expect=Expect(
            ends=("restart", "restart", "restart", "done"),
            charged=3,
            resumes=5,
            because="the checkpoint may be bad",
        ),
    ),
)

_SCRIPTS = (
    Death(
        name="second-command",
        how="the second of two holdfast run in a script is requeued",
        then="the first one, which has finished, is not run again",
        nodes=2,
        where=Where.NODE,
        before="holdfast run --checkpoints FOLDER -- sh -c 'echo ran >>FOLDER/first'",
        every=True,
        rank='[ -z "$SLURM_RESTART_COUNT" ] || exit 0\n' + _ECC_OF_RANK_3,
        expect=Expect(ends=("done", "requeue", "done"), charged=1, avoids=True),
    ),
    Death(
        name="array-task",
        how="a task of a job array fails",
        then=_HERE,
        rank="exit 1",
        options=("--requeue", "--array=7"),
        expect=_RESTARTED,
    ),
)

DEATHS = (*_EXITS, *_ERRORS, *_OUTAGES, *_COLLECTIVES, *_GPU, *_CHECKPOINTS, *_SCRIPTS)
