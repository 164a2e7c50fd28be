"""The decision table of the survey of recovery (rows 1 to 23), and the deaths that check each row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``evidence``, ``then``: for people. ``deaths``: their names. ``tests``: end-to-end tests, as paths below
    tests/e2e."""

    number: int
    evidence: str
    then: str
    deaths: tuple[str, ...]
    tests: tuple[str, ...] = ()


ROWS = (
    Row(
        number=1,
        evidence="the job may not be requeued",
        then="it fails; a bad node is drained all the same",
        deaths=("exit-no-requeue", "fault-no-requeue"),
    ),
    Row(
        number=2,
        evidence="a person cancelled it",
        then="nothing",
        deaths=("cancel-job", "cancel-step", "term-job", "cancel-requeued"),
    ),
    Row(
        number=3,
        evidence="a fatal fault of a node; a degraded node",
        then="drain, and requeue without it; drain after the job",
        deaths=("xid-79", "ecc", "nvlink-down", "row-remap-failed", "ib-down", "too-hot"),
    ),
    Row(
        number=4,
        evidence="a node or its slurmd is lost",
        then="requeue on other nodes, by Slurm or by Holdfast",
        deaths=("power-off", "slurmd-killed", "network-cut", "power-off-launcher"),
    ),
    Row(
        number=5,
        evidence="only the network reports an error",
        then="tolerate one a day, then drain after the job (`checks.infiniband.max_downs`)",
        deaths=("port-flap", "port-flaps"),
    ),
    Row(
        number=6,
        evidence="a prolog fails when the job starts",
        then="Slurm drains that node; the job starts elsewhere without Slurm's delay, uncharged",
        deaths=("prolog-fails",),
    ),
    Row(
        number=7,
        evidence="preemption; a time limit after progress",
        then="requeue, uncharged; a time limit with `--continue` only",
        deaths=("preempted", "time-limit", "time-limit-continue"),
    ),
    Row(
        number=8,
        evidence="the same error of the program on most ranks, without progress",
        then="hold at once, also if an attempt on fewer ranks would be repeated; a `program` error fails",
        deaths=(
            *("type-error", "permission-denied", "no-such-program"),
            *("type-error-of-one", "import-error", "syntax-error"),
        ),
    ),
    Row(
        number=9,
        evidence="an error of the program after progress",
        then="restart from the checkpoint; hold if it gets no further",
        deaths=("error-after-progress",),
    ),
    Row(
        number=10,
        evidence="CUDA out of memory at the start",
        then="as row 8. A process of an ended job on the GPU: its node is drained. A process that is not "
        "the job's, named in the error: requeue without the node",
        deaths=("gpu-out-of-memory", "gpu-memory-of-others"),
        tests=("job/test_job_health.py::test_only_processes_that_a_job_left_behind_are_ended",),
    ),
    Row(
        number=11,
        evidence="memory used up after progress",
        then="as row 9; requeue without a node whose memory was used up twice while no other's was",
        deaths=(
            *("gpu-out-of-memory-late", "host-out-of-memory", "host-out-of-memory-there"),
            *("memory-error", "oom-kill"),
        ),
    ),
    Row(
        number=12,
        evidence="a transfer fails between two nodes",
        then="requeue without both ends if they are known and others are free; else, and if it comes back on "
        "others, an outage",
        deaths=("transfer-error", "fabric-error"),
    ),
    Row(
        number=13,
        evidence="a collective times out, and the ranks that the others wait for are known",
        then="requeue without their nodes; these are not tested",
        deaths=("nccl-timeout-named",),
        tests=(
            "job/test_hangs.py::"
            "test_a_silent_hang_is_ended_and_the_rank_that_the_others_wait_for_is_named",
        ),
    ),
    Row(
        number=14,
        evidence="a collective times out, and no rank is known",
        then="restart on the same nodes",
        deaths=("nccl-timeout", "peer-closed", "connection-refused"),
    ),
    Row(
        number=15,
        evidence="row 14 again without progress",
        then="test the nodes in pairs, then restart, or requeue without those that failed",
        deaths=("nccl-timeout-twice",),
    ),
    Row(
        number=16,
        evidence="a hang",
        then="collect evidence, end the step, then row 13 or 14 (with `--hang-timeout`)",
        deaths=("hang",),
        tests=(
            "job/test_hangs.py::"
            "test_a_silent_hang_is_ended_and_the_rank_that_the_others_wait_for_is_named",
        ),
    ),
    Row(
        number=17,
        evidence="a crash: an illegal memory access, SIGSEGV",
        then="restart; requeue without the node at the second one on the same node",
        deaths=("illegal-access", "signal-segv", "segv-twice"),
    ),
    Row(
        number=18,
        evidence="NaN",
        then="restart from an older checkpoint; requeue without the node at the second one on the same node",
        deaths=("poisoned-checkpoint", "nan-on-one-node"),
    ),
    Row(
        number=19,
        evidence="a checkpoint that is torn or cannot be loaded",
        then="restart from the one before",
        deaths=("torn-checkpoint", "unloadable-checkpoint"),
    ),
    Row(
        number=20,
        evidence="storage fails on one node, or everywhere",
        then="requeue without that node; restart after 15 s, 5, 10, 20 min",
        deaths=("mount-gone", "mount-hung", "mount-read-only", "io-error", "no-space"),
    ),
    Row(
        number=21,
        evidence="SIGKILL or SIGTERM, and nothing else",
        then="restart after 0, 5, 15, 60 s, then hold",
        deaths=("signal-kill", "signal-term"),
    ),
    Row(
        number=22,
        evidence="the job becomes slower",
        then="it is reported; a throttled node is left at the next checkpoint, or drained after the job",
        deaths=("too-hot-left", "too-hot"),
    ),
    Row(
        number=23,
        evidence="nothing matches",
        then="restart after 0 and 5 s, then hold",
        deaths=("exit-1", "exit-1-always"),
    ),
)
