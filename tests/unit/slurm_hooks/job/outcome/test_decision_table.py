"""From what a job prints to what follows: the rows of the decision table (docs/reference/restarts.md)."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.policy.job import decision as policy
from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import (
    FailureKind,
    JobDecision,
    JobFacts,
    Next,
    NodeEvidence,
    PastAttempt,
)
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis.causes import Engine
from slurm_hooks.job.diagnosis.lines.line import Diagnosis
from slurm_hooks.job.outcome.attempt_end import AttemptEnd, after_transfer, attempt_end, facts
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.progress.hang_watch import diagnosis, text
from slurm_hooks.job.progress.ranks.suspects import Suspected
from slurm_hooks.job.resume.search import next_checkpoint
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import task_failure_in
from slurm_hooks.settings.job import JobConfig

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "restarts.md"
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
NODES = tuple(SlurmName(f"worker-{number}") for number in range(4))
JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
FAILED = "srun: error: worker-1: task 1: Exited with exit code 1"
PROGRESS = Left(progressed=True)
NONE = Left()


def ended(
    lines: str,
    left: Left = NONE,
    nodes: tuple[SlurmName, ...] = NODES,
    *,
    known: bool = True,
    failed: str = FAILED,
    ended_after: int = 99,
    **more: Any,
) -> AttemptEnd:
    """``known``: Slurm's options tell the node of each rank. ``failed``: srun's lines; ``ended_after``:
    so many of them the step was ended."""
    output = [*lines.splitlines(), *failed.splitlines()]
    hosts = {rank: str(node) for rank, node in enumerate(nodes)}
    engine = Engine(rank_hosts=hosts if known else {})
    engine.feed("stderr", "".join(f"{line}\n" for line in output).encode())
    engine.end("stderr")
    found = filter(None, (task_failure_in(line, 1.0) for line in output))
    failures = tuple(replace(one, ending=at >= ended_after) for at, one in enumerate(found))
    end = StepEnd(
        status=1, started_at=0.0, ended_at=1.0, failures=failures, found=engine.diagnosis()
    )
    return attempt_end(end, left, nodes, **more)


def asked(
    *attempts: AttemptEnd, snapshot: JobSnapshot | None = None, **about: object
) -> JobDecision:
    """The decision after these attempts, the last of which has just ended."""
    known = [
        facts(snapshot or JobSnapshot(job=JOB, faults=()), one, [], len(NODES)) for one in attempts
    ]
    past = [one.current for one in known[:-1]]
    return decide(replace(known[-1], past=past, **about), JobConfig(), NOW)  # type: ignore[arg-type]


ECC = "worker-2:1:2 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"
CUDA_ECC = "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
STALE = "OSError: [Errno 116] Stale file handle: '/mnt/data/shard_00012.bin'"
IO_ERROR = "OSError: [Errno 5] Input/output error: '/mnt/ckpt/iter_12'"
BUSY_PORT = "The server socket has failed to listen on any local network address. EADDRINUSE"
HUB = "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://hub"
FABRIC = "misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.1.0.14<51203> failed : No route to host"
NO_SPACE = "OSError: [Errno 28] No space left on device: '/mnt/ckpt/iter_0012000'"
TYPE_ERROR = "[rank3]: TypeError: forward() got an unexpected keyword argument 'attn_mask'"
CUDA_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TORN = (
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
)
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
TIMEOUT = (
    "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2398459, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800068 milliseconds before timing out."
)
NAN = "RuntimeError: Rank 3: found NaN in local grad norm"


def test_row_1_a_job_that_may_not_be_requeued_is_never_started_again() -> None:
    fixed = JobSnapshot(job=replace(JOB, requeue=False), faults=())
    assert asked(ended(STALE), snapshot=fixed).next is Next.FAIL
    bad = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True)
    assert asked(ended(STALE), snapshot=replace(fixed, faults=(bad,))).next is Next.FAIL


@pytest.mark.parametrize("state", ["CANCELLED", "DEADLINE", "PREEMPTED", "TIMEOUT", "NODE_FAIL"])
def test_rows_2_4_and_7_what_slurm_or_a_person_ended_stays_so_and_is_not_charged(
    state: str,
) -> None:
    snapshot = JobSnapshot(job=replace(JOB, state=state), faults=())
    assert asked(ended(STALE), snapshot=snapshot).next is Next.FAIL


@pytest.mark.parametrize("lines", [STALE, TYPE_ERROR, CUDA_OOM, ILLEGAL, TORN, ""])
def test_rows_3_and_6_a_bad_node_outranks_whatever_was_printed(lines: str) -> None:
    bad = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True)
    snapshot = JobSnapshot(job=JOB, faults=(bad,))
    assert asked(ended(lines), ended(lines), ended(lines), snapshot=snapshot).next is Next.REQUEUE


@pytest.mark.parametrize("lines", [TYPE_ERROR, CUDA_OOM])
def test_rows_8_and_10_a_deterministic_error_is_held_after_one_more_attempt(lines: str) -> None:
    one = ended(lines)
    assert one.kind is FailureKind.USER
    assert asked(one).next is Next.RESTART
    assert asked(one, one).next is Next.HOLD


ALL_FAILED = "srun: error: worker-[1-2]: tasks 1-2: Exited with exit code 1\n" + FAILED.replace(
    "1: task 1", "3: task 3"
)


def test_row_8_what_most_ranks_print_is_held_at_once() -> None:
    line = TYPE_ERROR.removeprefix("[rank3]: ")
    everywhere = ended("\n".join([line] * 3), failed=ALL_FAILED, tasks=4)
    assert (everywhere.kind, everywhere.most_ranks) == (FailureKind.USER, True)
    held = asked(everywhere)
    assert (held.next, "most ranks" in held.why) == (Next.HOLD, True)
    assert asked(ended("", PROGRESS), everywhere).next is Next.RESTART, "row 9: it has run before"
    assert asked(ended(line, PROGRESS, failed=ALL_FAILED, tasks=4)).next is Next.RESTART


def test_row_8_tasks_that_were_told_to_exit_confirm_nothing() -> None:
    """torchrun exits with 1 after a SIGTERM."""
    line = TYPE_ERROR.removeprefix("[rank3]: ")
    one = ended("\n".join([line] * 3), failed=ALL_FAILED, tasks=4, ended_after=1)
    assert (one.most_ranks, asked(one).next) == (False, Next.RESTART)


@pytest.mark.parametrize(
    ("lines", "failed", "tasks"),
    [
        (3, FAILED, 4),  # one task failed, and the launcher ended the others
        (1, ALL_FAILED, 4),  # they failed for another reason
        (3, ALL_FAILED, 6),  # half of them
        (3, ALL_FAILED, 0),  # it is not known how many there are
        (1, FAILED, 1),  # no other rank confirms it
        (3, FAILED + "\n" + ALL_FAILED.replace("code 1", "code 2"), 4),
    ],
)
def test_row_8_what_few_ranks_print_is_tried_once_more(lines: int, failed: str, tasks: int) -> None:
    line = TYPE_ERROR.removeprefix("[rank3]: ")
    one = ended("\n".join([line] * lines), failed=failed, tasks=tasks)
    assert (one.kind, one.most_ranks, asked(one).next) == (FailureKind.USER, False, Next.RESTART)


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 30] Read-only file system: '/tmp/x'",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: The NVIDIA driver on your system is too old: CUDA driver version is insufficient",
    ],
)
def test_row_8_what_one_broken_node_has_all_its_tasks_print_is_tried_once_more(line: str) -> None:
    lines, alone = (
        "\n".join([line] * 3),
        "srun: error: worker-1: tasks 0-2: Exited with exit code 1",
    )
    on_one = ended(lines, nodes=NODES[:1], failed=alone, tasks=3)
    assert (on_one.most_ranks, asked(on_one).next) == (False, Next.RESTART)
    assert ended(lines, failed=ALL_FAILED, tasks=4).most_ranks, "several nodes confirm it"
    same = ended("\n".join([CUDA_OOM] * 3), nodes=NODES[:1], failed=alone, tasks=3)
    assert same.most_ranks, "no node has a program do that"


OOM_KILL = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
OUT_OF_MEMORY = "srun: error: worker-{0}: task {0}: Out Of Memory"
KILLED = "srun: error: worker-{0}: task {0}: Killed"


def oom(node: int, left: Left = NONE, how: str = OUT_OF_MEMORY) -> AttemptEnd:
    return ended(OOM_KILL, left, failed=how.format(node) + "\n" + KILLED.format(0))


@pytest.mark.parametrize("how", [OUT_OF_MEMORY, KILLED])
def test_row_11_memory_used_up_twice_on_the_same_node_excludes_it(how: str) -> None:
    one = oom(2, how=how)
    assert (one.kind, list(one.suspects)) == (FailureKind.MEMORY, ["worker-2"])
    assert asked(one).next is Next.RESTART
    again = asked(one, one)
    assert (again.next, again.exclude) == (Next.REQUEUE, ("worker-2",))
    late = asked(oom(2, PROGRESS), one)
    assert (late.next, late.exclude) == (Next.REQUEUE, ("worker-2",))
    assert asked(one, one, one).next is Next.HOLD


def test_row_11_memory_used_up_on_several_nodes_is_the_jobs() -> None:
    assert asked(oom(2), oom(1)).next is Next.HOLD
    assert asked(oom(2), oom(2), spares=0).next is Next.HOLD
    alone = ended(OOM_KILL, NONE, NODES[:1], failed=KILLED.format(0))
    assert asked(alone, alone, node_count=1).next is Next.HOLD


def test_row_11_slurms_words_and_the_kernels_are_the_same_failure() -> None:
    killed = "kernel: Out of memory: Killed process 4711 (python) total-vm:1kB"
    assert ended(killed).fingerprint == oom(1).fingerprint


@pytest.mark.parametrize("lines", [TYPE_ERROR, CUDA_OOM])
def test_rows_9_and_11_after_progress_it_is_tried_once_from_the_last_checkpoint(lines: str) -> None:
    first, again = ended(lines, PROGRESS), ended(lines)
    assert asked(first).next is Next.RESTART
    assert asked(first, first).next is Next.RESTART  # it got further
    assert asked(first, again).next is Next.HOLD


def test_row_12_a_node_that_the_output_names_as_faulty_is_excluded_at_once() -> None:
    assert ended(ECC).suspects == {"worker-2"}
    named = ended(CUDA_ECC)
    assert (named.kind, list(named.suspects)) == (FailureKind.NODE, ["worker-2"])
    decision = asked(named)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, ("worker-2",))


def test_row_12_without_another_node_it_is_tried_again_there() -> None:
    assert asked(ended(CUDA_ECC), spares=0).next is Next.RESTART


LAGGING = (
    "[rank0]: To our best knowledge, the lagging ranks that caused the desync are: [2], "
    "and the ranks are at different collectives"
)
BARRIER = "[Rank 0]: Rank 3 failed to pass monitoredBarrier in 600000 ms"


def _timeouts(ranks: tuple[int, ...]) -> str:
    return "\n".join(TIMEOUT.replace("[Rank 2]", f"[Rank {rank}]") for rank in ranks)


@pytest.mark.parametrize(
    ("lines", "node"),
    [(_timeouts((0, 1, 3)), "worker-2"), (LAGGING, "worker-2"), (BARRIER, "worker-3")],
)
def test_row_13_the_node_of_the_ranks_that_the_others_waited_for_is_excluded(
    lines: str, node: str
) -> None:
    one = ended(lines)
    assert (one.kind, list(one.suspects)) == (FailureKind.NODE, [node])
    decision = asked(one)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, (node,))
    assert asked(one, spares=0).next is Next.RESTART
    assert asked(one, one, one).next is Next.HOLD


def test_row_13_ranks_of_all_nodes_tell_none_of_them_apart() -> None:
    lagging = LAGGING.replace("[2]", "[0, 1, 2, 3]")
    assert asked(ended(lagging)).next is Next.RESTART


def test_rows_14_and_15_a_timeout_without_a_culprit_is_tried_again_and_then_held() -> None:
    one = ended(TIMEOUT)
    assert one.suspects == frozenset()
    assert asked(one).next is Next.RESTART
    assert asked(one, one, one).next is Next.HOLD


def hung(*suspects: str) -> AttemptEnd:
    """How an attempt ended that made no progress."""
    who = Suspected(nodes=suspects, why="rank 2: sleeps")
    found = diagnosis(Diagnosis.none(), text("hang: nothing printed for 600 s", who), who)
    end = StepEnd(status=-6, started_at=0.0, ended_at=1.0, ended_why="hang: …", found=found)
    return attempt_end(end, NONE, NODES)


def test_row_16_a_hang_is_restarted_without_the_nodes_that_the_others_wait_for() -> None:
    one = hung("worker-2")
    assert (one.kind, one.fingerprint) == (FailureKind.NODE, "HANG")
    decision = asked(one)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, ("worker-2",))
    assert asked(one, spares=0).next is Next.RESTART
    assert asked(replace(one, progressed=True), one, one).next is Next.REQUEUE


def test_row_16_a_hang_that_blames_no_node_is_restarted_there() -> None:
    one = hung()
    assert (one.kind, one.fingerprint) == (FailureKind.UNKNOWN, "HANG")
    assert asked(one).next is Next.RESTART
    assert asked(one, hung("worker-1"), one).next is Next.HOLD, "all hangs are the same failure"


CRASHES = (
    ILLEGAL,
    "RuntimeError: CUDA error: unspecified launch failure",
    "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
    "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
)


@pytest.mark.parametrize("line", CRASHES)
def test_row_17_a_crash_on_the_same_node_twice_excludes_it(line: str) -> None:
    """One rank prints it, once."""
    one, elsewhere = (ended(f"[rank{rank}]: {line}") for rank in (2, 3))
    assert one.suspects == {"worker-2"}
    assert asked(one).next is Next.RESTART
    again = asked(one, one)
    assert (again.next, again.exclude) == (Next.REQUEUE, ("worker-2",))
    assert asked(elsewhere, one).next is Next.RESTART
    assert asked(one, elsewhere, one).next is Next.HOLD


@pytest.mark.parametrize("line", CRASHES)
def test_row_17_a_crash_of_ranks_of_several_nodes_or_of_an_unknown_one_excludes_none(
    line: str,
) -> None:
    for one in (ended(f"[rank0]: {line}\n[rank2]: {line}"), ended(line)):
        assert one.suspects == frozenset()
        assert [asked(one).next, asked(one, one).next] == [Next.RESTART, Next.RESTART]


ELASTIC = """\
E1122 01:05:00.1 4711 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {code}) \
local_rank: 1 (pid: 4713) of binary: /usr/bin/python3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_01:05:00
  host      : worker-2.example.internal
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 4713)
  error_file: <N/A>
  traceback : {traceback}
============================================================
"""
"""What torchrun prints; with it srun has one task on each node, and does not know the ranks."""


def torchrun(code: int, traceback: str, before: str = "", label: str = "") -> AttemptEnd:
    lines = (before + ELASTIC.format(code=code, traceback=traceback)).splitlines()
    return ended("\n".join(label + line for line in lines), known=False)


@pytest.mark.parametrize("label", ["", "2: "])
def test_row_12_torchrun_tells_the_node_of_a_rank(label: str) -> None:
    one = torchrun(1, "To enable traceback see: x", f"[rank5]: {CUDA_ECC[9:]}\n", label)
    assert (one.kind, list(one.suspects)) == (FailureKind.NODE, ["worker-2"])


@pytest.mark.parametrize("label", ["", "2: "])
def test_row_17_a_segmentation_fault_under_torchrun_twice_on_a_node_excludes_it(label: str) -> None:
    one = torchrun(-11, "Signal 11 (SIGSEGV) received by PID 4713", label=label)
    assert list(one.suspects) == ["worker-2"]
    assert asked(one).next is Next.RESTART
    assert asked(one, one).exclude == ("worker-2",)


def test_row_17_equal_process_ids_on_two_nodes_name_none() -> None:
    """As in containers. The first table is that of a victim."""
    victim = ELASTIC.format(code=-15, traceback="Signal 15 (SIGTERM) received by PID 4713")
    victim = victim.replace("worker-2", "worker-1").replace("rank      : 5", "rank      : 3")
    one = torchrun(-11, "Signal 11 (SIGSEGV) received by PID 4713", victim)
    assert one.suspects == frozenset()


@pytest.mark.parametrize("line", [NAN, STALE, IO_ERROR])
def test_rows_17_and_20_one_line_of_nan_or_storage_names_no_node(line: str) -> None:
    assert ended(f"[rank3]: {line}").suspects == frozenset()


def test_row_18_nan_goes_back_to_an_older_checkpoint_at_once() -> None:
    one = ended(NAN)
    assert one.kind is FailureKind.NUMERIC
    assert asked(one, next_checkpoint="step_8.pt").next is Next.RESTART
    assert asked(one, one, one, next_checkpoint="step_8.pt").next is Next.RESTART
    assert asked(one).next is Next.RESTART
    assert asked(one, one).next is Next.HOLD


def test_row_18_nan_on_the_same_node_twice_excludes_it() -> None:
    one = ended("\n".join(f"[rank2]: {NAN.replace('3', '2')}" for _ in range(2)))
    assert one.suspects == {"worker-2"}
    assert asked(one, next_checkpoint="step_8.pt").next is Next.RESTART
    again = asked(one, one, next_checkpoint="step_8.pt")
    assert (again.next, again.exclude) == (Next.REQUEUE, ("worker-2",))
    assert asked(one, one, one).next is Next.HOLD


def test_row_19_a_checkpoint_that_cannot_be_loaded() -> None:
    one = ended(TORN)
    assert one.kind is FailureKind.CHECKPOINT
    assert asked(one, next_checkpoint="step_8.pt").next is Next.RESTART
    assert asked(one, one).next is Next.HOLD


@pytest.mark.parametrize("kind", [FailureKind.CHECKPOINT, FailureKind.NUMERIC])
def test_rows_18_and_19_one_failure_is_enough_to_avoid_the_checkpoint(
    kind: FailureKind, tmp_path: Path
) -> None:
    for step in range(1, 10):
        path = tmp_path / f"step_{step}.pt"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("x/data.pkl", b"\x80\x02}.")
        os.utime(path, (step, step))
    tried = [_resumed(1, tmp_path / "step_9.pt", 9, FailureKind.USER)]
    assert next_checkpoint(tmp_path, tried) == ""
    tried = [_resumed(1, tmp_path / "step_9.pt", 9, kind)]
    assert next_checkpoint(tmp_path, tried) == "step_8.pt"
    good = replace(tried[0], progressed=True)
    assert next_checkpoint(tmp_path, [good]) == ""
    tried.append(_resumed(2, tmp_path / "step_8.pt", 8, kind))
    assert next_checkpoint(tmp_path, tried) == "step_4.pt"  # half of those that are left


def _resumed(number: int, path: Path, step: int, kind: FailureKind) -> JournalAttempt:
    return JournalAttempt(
        number=number,
        started=True,
        ended=True,
        exit_code=1,
        terminated=False,
        resumed_path=str(path),
        resumed_step=step,
        fingerprint="x",
        progressed=False,
        node_fault=False,
        suspects=(),
        ended_at=1000.0 + number,
        kind=kind.value,
    )


@pytest.mark.parametrize("lines", [STALE, IO_ERROR, BUSY_PORT, HUB, FABRIC, NO_SPACE])
def test_row_20_an_outage_that_no_node_can_be_blamed_for_is_waited_for(lines: str) -> None:
    one = ended(lines)
    assert one.kind is FailureKind.OUTAGE
    waits = [asked(*[one] * count).delay_s for count in range(1, 6)]
    assert waits == [15, 300, 600, 1200, 1200]


def test_row_20_storage_that_only_one_node_has_lost_is_that_nodes() -> None:
    one = ended("\n".join(f"[rank2]: {STALE}" for _ in range(3)))
    assert (one.kind, list(one.suspects)) == (FailureKind.INFRASTRUCTURE, ["worker-2"])
    assert asked(one, one).exclude == ("worker-2",)
    everywhere = ended("\n".join(f"[rank{rank}]: {STALE}" for rank in range(4)))
    assert (everywhere.kind, everywhere.suspects) == (FailureKind.OUTAGE, frozenset())


PEER = "worker-1:1:2 [3] NCCL WARN NET/IB: Got completion from peer 10.0.0.3<456> with status=12"
BOOTSTRAP = "{}:1:2 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>"


@pytest.mark.parametrize("before", ["", BOOTSTRAP.format("worker-9")])
def test_row_20_a_transfer_to_a_host_that_is_none_of_the_jobs_blames_nobody(before: str) -> None:
    """Its reporter is the victim as often as not; without the other end they cannot be told apart."""
    one = ended(f"{before}\n{PEER}")
    assert (one.kind, one.suspects) == (FailureKind.OUTAGE, frozenset())
    assert [asked(*[one] * count).delay_s for count in (1, 2)] == [15, 300]


def test_row_12_both_ends_of_a_failed_transfer_are_excluded() -> None:
    one = ended(f"{BOOTSTRAP.format('worker-3')}\n{PEER}")
    assert (one.kind, sorted(one.suspects)) == (FailureKind.NODE, ["worker-1", "worker-3"])
    assert asked(one).exclude == ("worker-1", "worker-3")


def test_row_12_slurm_too_knows_whose_address_the_other_end_has() -> None:
    one = ended(PEER, addresses={"10.0.0.3": NODES[3]})
    assert (one.kind, sorted(one.suspects)) == (FailureKind.NODE, ["worker-1", "worker-3"])


def test_row_12_a_job_of_two_nodes_leaves_both() -> None:
    pair = (NODES[1], NODES[3])
    one = ended(f"{BOOTSTRAP.format('worker-3')}\n{PEER}", nodes=pair)
    assert (one.kind, one.both_ends) == (FailureKind.NODE, True)
    assert asked(one, node_count=2).exclude == pair


def transferred(one: AttemptEnd, *, of: AttemptEnd | None = None, spares: int | None) -> AttemptEnd:
    """``of``: how the attempt before ended."""
    before = []
    if of is not None:
        past = _resumed(1, Path("x"), 1, of.kind)
        before = [replace(past, fingerprint=of.fingerprint, suspects=tuple(of.suspects))]
    return after_transfer(one, before, spares)


def test_row_12_a_transfer_that_fails_elsewhere_too_is_an_outage_of_the_network() -> None:
    one = ended(f"{BOOTSTRAP.format('worker-3')}\n{PEER}")
    other = replace(one, suspects=frozenset({NODES[0], NODES[2]}))
    assert transferred(one, spares=2) == one
    assert transferred(one, spares=None) == one
    assert transferred(one, of=one, spares=2) == one
    for outage in (transferred(one, spares=1), transferred(one, of=other, spares=2)):
        assert (outage.kind, outage.suspects) == (FailureKind.OUTAGE, frozenset())
        assert asked(outage).delay_s == 15
    named = ended(CUDA_ECC)
    assert transferred(named, spares=0) == named


@pytest.mark.parametrize("lines", [TYPE_ERROR, "", "python: can't open file '/mnt/x/train.py'"])
def test_row_20_whatever_is_printed_while_the_checkpoints_cannot_be_read(lines: str) -> None:
    one = ended(lines, Left(progressed=None, unreadable="Stale file handle"))
    assert (one.kind, one.progressed) == (FailureKind.OUTAGE, None)


@pytest.mark.parametrize("row", ["21: a task was killed", "23: nothing is known"])
def test_rows_21_and_23_what_nothing_explains_is_tried_twice_more(row: str) -> None:
    one = ended("")
    assert one.kind is FailureKind.UNKNOWN, row
    assert [asked(*[one] * count).next for count in (1, 2, 3)] == [
        *(Next.RESTART, Next.RESTART, Next.HOLD)
    ]


def test_row_21_a_task_killed_on_the_same_node_twice_excludes_it() -> None:
    """Without Slurm's words: the kernel may have killed it for the memory that others use."""
    one, elsewhere = (ended("", failed=KILLED.format(node)) for node in (2, 1))
    assert asked(one).next is Next.RESTART
    again = asked(one, one)
    assert (again.next, again.exclude) == (Next.REQUEUE, ("worker-2",))
    assert asked(elsewhere, one).next is Next.RESTART


def test_row_21_a_killed_task_does_not_turn_an_outage_into_a_nodes_fault() -> None:
    assert ended(STALE, failed=KILLED.format(2)).kind is FailureKind.OUTAGE


def test_a_program_that_cannot_run_fails_at_once() -> None:
    assert asked(ended("ModuleNotFoundError: No module named 'x'")).next is Next.FAIL


def _cells() -> dict[str, list[str]]:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if "|" in line]
    return {cells[0].strip("` "): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_page_has_a_row_for_each_kind_with_the_limits_of_the_code() -> None:
    cells = _cells()
    assert {kind.value for kind in FailureKind} <= set(cells)
    for kind in FailureKind:
        text = " ".join(cells[kind.value])
        current = PastAttempt(fingerprint="x", progressed=False, kind=kind)
        known = JobFacts(exit_code=1, current=current, node_count=2)
        most = JobConfig().max_attempts
        actions = [
            decide(replace(known, past=[current] * count), JobConfig(), NOW).next
            for count in range(most)
        ]
        last = next(count for count, action in enumerate(actions, 1) if action is not Next.RESTART)
        assert f"{actions[last - 1].value} after {last}" in text, (kind, last, actions[last - 1])
    waits = ", ".join(f"{delay / 60:g}" for delay in policy.OUTAGE_DELAYS_S[1:])
    assert f"{policy.OUTAGE_DELAYS_S[0]:g} s, {waits} min" in " ".join(cells["outage"])


def test_evidence_of_nodes_is_not_needed_to_read_the_table() -> None:
    bad = NodeEvidence(node=NODES[0], code="XID79", fatal=True)
    assert f"`{asked(ended(''), nodes=(bad,)).next.value}`" in PAGE.read_text()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "ray: A worker died or was killed while executing a task by an error",
            FailureKind.UNKNOWN,
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above.",
            FailureKind.UNKNOWN,
        ),
        ("JaxRuntimeError: INTERNAL: Failed to execute XLA Runtime", FailureKind.UNKNOWN),
        ("tensorflow.errors_impl.UnavailableError: OS Error", FailureKind.UNKNOWN),
        ("NCCL WARN failed to open CUDA IPC handle : 217", FailureKind.INFRASTRUCTURE),
        ("failed: Unable to load NCCL library", FailureKind.UNKNOWN),
        ("Error: Curand error 203 - rand.cpp:74", FailureKind.INFRASTRUCTURE),
        ("slurmstepd: error: container_p_join: open failed", FailureKind.UNKNOWN),
        ("W bfc_allocator.cc] ran out of memory trying to allocate 2GiB.", FailureKind.USER),
        ("FloatingPointError: Loss became infinite or NaN", FailureKind.NUMERIC),
    ],
)
def test_what_frameworks_print_is_of_the_right_kind(line: str, kind: FailureKind) -> None:
    assert ended(f"{line}\n").kind is kind
