"""The job's comment in Slurm, the leftovers and the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.records.incidents import Incident, parse, render
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import Action, Severity
from slurm_hooks.agent.job_report import files, leftovers, report
from slurm_hooks.agent.job_report.admin_comment import CommentRequest, add
from slurm_hooks.agent.job_report.report import Leftover, Place, Remains
from slurm_hooks.agent.job_runs.processes import Fate
from slurm_hooks.agent.job_runs.run_matching import attribute
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.checks import job_leftovers
from slurm_hooks.facts import GpuProcess, NodeFacts
from slurm_hooks.facts.leftovers import LeftoverFacts
from tests.unit.slurm_hooks.agent.job_runs.builders import (
    BOB,
    begin,
    facts,
    finish,
    process,
    run_of,
    xid,
)

XID = Incident(code="XID13", node="worker-1", gpu=3, at=5)


class FakeComments:
    """A job's comment, and another node's agent that may write at the same time."""

    def __init__(self, comment: str = "", *, known: bool = True, rival: str = "") -> None:
        self.comment, self.known, self.rival = comment, known, rival
        self.refuses = False
        self.writes: list[str] = []

    def job(self, job_id: int) -> SlurmJob | None:
        if not self.known:
            return None
        return SlurmJob(
            job_id=job_id,
            name="train",
            user="alice",
            state="RUNNING",
            state_reason="",
            restarts=0,
            requeue=True,
            admin_comment=self.comment,
        )

    def admin_comment(self, job: SlurmJob, text: str) -> None:
        if self.refuses:
            raise Refused(["scontrol"], "no", "Job has already finished", 1)
        self.writes.append(text)
        self.comment, self.rival = self.rival or text, ""


def write(comments: FakeComments) -> str:
    return add(comments, CommentRequest(job=7, entries=(XID,)), sleep=lambda _: None)


def test_the_comment_is_written_once() -> None:
    comments = FakeComments()
    assert write(comments) == "written"
    assert parse(comments.comment) == (XID,)
    assert write(comments) == "already written"
    assert len(comments.writes) == 1


def test_other_nodes_entries_stay() -> None:
    other = replace(XID, node="worker-0")
    comments = FakeComments(render([other]))
    write(comments)
    assert set(parse(comments.comment)) == {XID, other}


def test_an_entry_that_another_node_overwrote_is_written_again() -> None:
    other = replace(XID, node="worker-0")
    comments = FakeComments(rival=render([other]))
    assert write(comments) == "written"
    assert set(parse(comments.comment)) == {XID, other}


@pytest.mark.parametrize("text", ["ticket 1234", "[reviewed]"])
def test_a_persons_comment_on_a_job_is_never_overwritten(text: str) -> None:
    comments = FakeComments(text)
    assert "not Holdfast's" in write(comments)
    assert (comments.comment, comments.writes) == (text, [])


def test_an_ended_job_is_not_an_error() -> None:
    comments = FakeComments()
    comments.refuses = True
    assert write(comments) == "not written: the job has ended; its report has the incidents"
    assert write(FakeComments(known=False)) == "Slurm no longer knows the job"


def test_if_slurmctld_does_not_answer_the_caller_retries() -> None:
    class Silent(FakeComments):
        def job(self, job_id: int) -> SlurmJob | None:
            raise Unavailable(["scontrol"], "no answer in 5 s")

    with pytest.raises(Unavailable):
        write(Silent())


# --- leftovers ------------------------------------------------------------------------------------

OVER = finish(begin(Runs()))
RUN = run_of(OVER)


def held(pid: int, used: int | None = 1 << 30) -> NodeFacts:
    return facts(processes=(GpuProcess(pid=pid, used_bytes=used),))


def test_a_leftover_is_reported_with_the_memory_that_it_holds() -> None:
    (left,) = leftovers.find_leftovers(OVER, RUN, [process()], held(4711))
    assert (left.gpus, left.used_bytes, left.code) == ((0, 1), 2 << 30, "JOB_LEFTOVER")


def test_a_leftover_without_a_gpu_is_reported_but_not_a_fault() -> None:
    (left,) = leftovers.find_leftovers(OVER, RUN, [process()], facts())
    assert (left.gpus, left.code) == ((), "")


def test_memory_of_a_live_jobs_process_is_not_left_behind() -> None:
    shared = begin(OVER, job=8, uid=BOB, at_s=150.0)
    assert leftovers.find_leftovers(shared, RUN, [process(5, job=8, uid=BOB)], held(5)) == ()
    assert leftovers.find_leftovers(shared, RUN, (), held(5)) == ()


def test_an_unknown_process_on_gpus_that_only_this_job_had_is_unconfirmed() -> None:
    (left,) = leftovers.find_leftovers(OVER, RUN, (), held(5))
    assert (left.pid, left.confirmed, left.code) == (5, False, "JOB_LEFTOVER")
    assert leftovers.to_end(RUN, [left], [process(5)]) == ()


def test_only_processes_of_the_jobs_user_may_be_killed() -> None:
    left = leftovers.find_leftovers(OVER, RUN, [process()], facts())
    assert leftovers.to_end(RUN, left, [process(), process(9)]) == (process(),)
    assert leftovers.to_end(RUN, left, [process(uid=BOB)]) == (), "it now runs as another user"
    assert leftovers.to_end(replace(RUN, uid=0), left, [process(uid=0)]) == ()
    assert leftovers.to_end(replace(RUN, uid=None), left, [process()]) == ()


def test_results_of_signals_are_reported() -> None:
    left = (Leftover(pid=1, start=10), Leftover(pid=2, start=20), Leftover(pid=3, start=30))
    fates = [Fate(pid=1, start=10, gone=True), Fate(pid=2, start=20, gone=False, state="D")]
    after = leftovers.with_fates(left, fates)
    assert [one.fate for one in after] == ["ended", "unkillable", "alive"]
    assert [one.pid for one in leftovers.still_there(RUN, after)] == [2, 3]
    assert after[1].code == "JOB_UNKILLABLE"


def test_a_process_that_exited_by_itself_is_reported_as_gone() -> None:
    before = (Leftover(pid=1, start=10), Leftover(pid=2, start=20))
    after = leftovers.settled(before, (Leftover(pid=2, start=20),))
    assert {one.pid: one.fate for one in after} == {1: "gone", 2: "alive"}


def judged(*left: LeftoverFacts) -> list[tuple[str, Severity, Action]]:
    known = NodeFacts(expected_gpus=2, leftovers=left)
    found = job_leftovers.judge(known, job_leftovers.Limits())
    return [(one.code, one.severity, one.action) for one in found]


def test_the_check_judges_memory_and_what_sigkill_does_not_end() -> None:
    one = LeftoverFacts(pid=1, job=7, gpus=(0,), used_bytes=1 << 30)
    assert judged(one) == [("JOB_LEFTOVER", Severity.WARN, Action.WAIT)]
    assert judged(replace(one, used_bytes=None)) != []
    assert judged(replace(one, used_bytes=15 << 20)) == []
    assert judged(replace(one, gpus=(), used_bytes=None)) == []
    stuck = replace(one, gpus=(), unkillable=True, state="D")
    assert judged(stuck) == [("JOB_UNKILLABLE", Severity.WARN, Action.WAIT)]
    assert judged() == []


def test_without_a_scan_nothing_is_judged() -> None:
    known = NodeFacts(expected_gpus=2)
    assert list(job_leftovers.judge(known, job_leftovers.Limits())) == []
    assert list(job_leftovers.show(known, job_leftovers.Limits())) == []


@pytest.mark.parametrize("value", [-1, (1 << 20) + 1])
def test_the_limit_is_checked(value: int) -> None:
    with pytest.raises(ValueError, match="max_used_mib"):
        job_leftovers.Limits(max_used_mib=value)


# --- reports --------------------------------------------------------------------------------------

PLACE = Place(node="worker-1", boot_id="b", epoch_of_boot=1000.0)


def test_a_report_names_xid_step_and_attribution() -> None:
    known, _ = attribute(begin(Runs()), xid(79, gpu=1), 50, [process(50, step="4")])
    known, _ = attribute(known, xid(45, gpu=1, seq=2), None, ())
    run = run_of(finish(known))
    found = report.document(replace(run, baseline_s=99.0), Remains(final=True), PLACE)
    assert (found["attribution"], found["evaluated"]) == ("node", True)
    assert [
        (x["code"], x["step"], x["pid"], x["attribution_method"], x["attribution"])
        for x in found["xids"]
    ] == [
        ("XID79", "4", 50, "pid", "node"),
        ("XID45", "", None, "gpu", "none"),
    ]
    (entry,) = report.evidence(run, (), PLACE)
    assert str(entry) == "XID79 node=worker-1 gpu=1 step=4 pid=50 run=0 at=1150"


def test_a_check_in_mode_observe_is_marked() -> None:
    known, _ = attribute(begin(Runs()), xid(79), None, ())
    place = replace(PLACE, observe_only=frozenset({"gpu_xid"}))
    assert report.evidence(run_of(known), (), place)[0].observe_only


def test_a_job_that_skips_the_checks_has_no_incidents() -> None:
    known, _ = attribute(begin(Runs(), skip=True), xid(79), None, ())
    assert report.evidence(run_of(known), (), PLACE) == ()
    assert "skip_checks" in report.document(run_of(known), Remains(), PLACE)["not_evaluated_reason"]


def test_reports_do_not_pile_up(tmp_path: Path) -> None:
    files.prepare(tmp_path, allow_skip=False)
    for job in range(files.MAX_REPORTS + 20):
        files.write_report(tmp_path, {"job": job})
    left = {int(path.stem) for path in files.reports_in(tmp_path).iterdir()}
    assert len(left) == files.MAX_REPORTS
    assert files.MAX_REPORTS + 19 in left


def test_a_report_lists_only_some_of_very_many_leftovers() -> None:
    known = begin(Runs())
    left = tuple(Leftover(pid=pid, start=1, confirmed=True) for pid in range(10_000))
    found = report.document(run_of(known), Remains(final=True, left=left), PLACE)
    assert (len(found["leftovers"]), found["leftovers_total"]) == (report.MAX_LISTED, 10_000)
