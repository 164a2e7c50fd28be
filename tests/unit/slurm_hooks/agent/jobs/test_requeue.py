"""A job whose launcher is gone is requeued and started at once, but only if that is safe and
wanted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.slurm.client import SlurmJob
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from tests.unit.slurm_hooks.agent.jobs.fake_job import JOB, Node


def test_without_markers_slurm_is_not_called(node: Node) -> None:
    node.run(5)
    assert node.slurm.asked == []
    assert node.afterlife.wait_s(0.0) is None


def test_a_requeued_job_starts_within_two_seconds(node: Node) -> None:
    node.mark("requeue", exclude=("n2",))
    node.run(0.2)
    node.slurm.requeued()
    node.run(2)
    assert node.changes == ["start_now n2"]
    assert node.slurm.job_now is not None
    assert node.slurm.job_now.state == "RUNNING"
    node.run(4)
    assert node.changes == ["start_now n2"]
    assert not node.marked


@pytest.mark.parametrize(
    ("listed", "exclude", "remove", "becomes"),
    [
        ("n[7-8]", ("n2",), (), "start_now n2,n7,n8"),
        ("n[2,7]", ("n2",), (), "start_now"),  # nothing to change
        ("n[2,7]", (), ("n2",), "start_now n7"),
        ("n2", (), ("n2",), "start_now "),  # the list becomes empty
        ("n7", (), ("n2",), "start_now"),  # a person has removed it meanwhile
        ("n[2-3]", ("n4",), ("n2",), "start_now n3,n4"),
    ],
)
def test_what_the_owner_excludes_is_kept_and_what_holdfast_added_can_be_removed(
    node: Node, listed: str, exclude: tuple[str, ...], remove: tuple[str, ...], becomes: str
) -> None:
    assert node.slurm.job_now is not None
    node.slurm.job_now = replace(node.slurm.job_now, excluded=listed)
    node.mark("requeue", exclude=exclude, release=remove)
    node.run(0.2)
    node.slurm.requeued()
    node.run(3)
    assert node.changes == [becomes]


def test_a_job_whose_launcher_hangs_on_a_lost_node_is_requeued(node: Node) -> None:
    """It hangs on the mount of its checkpoints, and would do nothing until the job's time limit."""
    node.mark("running")
    node.work_lost = True
    node.run(60)
    assert node.changes == []
    node.run(40)
    assert node.changes == ["requeue", "start_now"]
    assert "job 7: its launcher hangs, requeued" in node.log


@pytest.mark.parametrize("state", ["SUSPENDED", "RUNNING+COMPLETING"])
def test_only_a_launcher_that_could_act_hangs(node: Node, state: str) -> None:
    node.slurm.job_now = replace(JOB, state=state)
    node.mark("running")
    node.work_lost = True
    node.run(200)
    assert node.changes == []


def test_a_requeue_that_a_killed_slurmctld_has_forgotten_is_made_again(node: Node) -> None:
    """It has the job's state of seconds before, RUNNING, while its batch script has ended here."""
    node.mark(markers.REQUEUE)
    node.run(5)
    assert node.changes == []
    node.script_runs = False
    node.run(2.5)
    assert node.changes == []
    node.run(2)
    assert node.changes[:1] == ["requeue"]
    assert "job 7: slurmctld has forgotten its requeue, requeued" in node.log
    node.run(5)
    assert node.changes == ["requeue", "start_now"]


def test_a_start_that_a_killed_slurmctld_has_forgotten_is_made_again(node: Node) -> None:
    """It comes back with the job RUNNING in the run before, which has ended on its nodes."""
    node.mark(markers.REQUEUE)
    node.slurm.requeued()
    node.run(2)
    assert node.changes == ["start_now"]
    node.slurm.silent = True
    node.run(40)
    node.slurm.silent, node.script_runs = False, False
    node.slurm.job_now, node.slurm.completing = JOB, 2
    node.slurm.asked.clear()
    node.run(8)
    assert node.changes == ["requeue", "start_now"]
    assert node.slurm.job_now.state == "RUNNING"
    assert "job 7: slurmctld has forgotten its start" in node.log
    node.run(4)
    assert (node.marked, node.changes) == (False, ["requeue", "start_now"])


def test_a_requeue_that_is_forgotten_right_before_the_start_is_made_again(node: Node) -> None:
    node.mark(markers.REQUEUE, exclude=("n2",))
    node.slurm.requeued()
    node.run(0.5)
    assert node.changes == []
    node.slurm.job_now, node.slurm.completing, node.script_runs = JOB, 2, False
    node.run(8)
    assert node.changes == ["start_now n2", "requeue", "start_now n2"]
    assert "no longer pending" in " ".join(node.log)
    node.run(4)
    assert not node.marked


def test_a_job_that_slurm_starts_at_the_same_moment_is_left_alone(node: Node) -> None:
    node.mark(markers.REQUEUE)
    node.slurm.requeued()
    node.run(0.5)
    node.slurm.job_now = replace(JOB, restarts=1)
    node.run(8)
    assert node.changes == ["start_now"]
    assert not node.marked


def test_a_job_of_a_killed_launcher_whose_start_was_forgotten_is_requeued_again(
    node: Node,
) -> None:
    node.mark(markers.RUNNING)
    node.slurm.job_now = replace(JOB, state="FAILED")
    node.ended()
    node.run(3)
    assert node.changes == ["requeue", "start_now"]
    node.slurm.job_now, node.slurm.completing, node.script_runs = JOB, 2, False
    node.run(8)
    assert node.changes == ["requeue", "start_now"] * 2
    node.run(4)
    assert not node.marked


def test_a_delay_that_a_killed_slurmctld_has_restored_is_ended_again(node: Node) -> None:
    node.mark(markers.REQUEUE, exclude=("n2",))
    node.slurm.requeued()
    node.run(2)
    later = datetime.fromtimestamp(node.slurm.now + 110, tz=timezone.utc)
    node.slurm.job_now = replace(
        JOB, state="PENDING", state_reason="BeginTime", restarts=1, start_at=later
    )
    node.run(3)
    assert node.changes == ["start_now n2"] * 2
    node.run(4)
    assert not node.marked


def test_a_delay_that_comes_back_again_and_again_is_left_to_slurm(node: Node) -> None:
    node.mark(markers.REQUEUE)
    node.slurm.requeued()
    later = datetime.fromtimestamp(node.slurm.now + 500, tz=timezone.utc)
    delayed = replace(JOB, state="PENDING", state_reason="BeginTime", restarts=1, start_at=later)
    for _ in range(300):
        node.run(0.1)
        if node.slurm.job_now and node.slurm.job_now.state == "RUNNING":
            node.slurm.job_now = delayed
    assert node.changes == ["start_now"] * 4
    assert not node.marked


def test_a_script_that_was_not_seen_for_a_moment_is_no_reason_to_requeue(node: Node) -> None:
    node.mark(markers.REQUEUE)
    for _ in range(5):
        node.script_runs = False
        node.run(2)
        node.script_runs = True
        node.run(2)
    assert node.changes == []


def test_a_launcher_on_a_recovered_node_does_not_count_as_hung(node: Node) -> None:
    node.mark("running")
    node.work_lost = True
    node.run(50)
    node.work_lost = False
    node.run(50)
    node.work_lost = True
    node.run(50)
    assert node.changes == []


def test_a_start_that_a_prolog_refused_is_tried_again(node: Node) -> None:
    node.mark("requeue", exclude=("n2",))
    node.slurm.requeued()
    node.run(2)
    node.slurm.completing = 2
    node.slurm.requeued()  # by Slurm itself, with its whole delay
    node.run(8)
    assert node.changes == ["start_now n2", "start_now"]
    assert "its start failed, Slurm requeued it" in " ".join(node.log)
    assert not node.marked


@pytest.mark.parametrize("state", ["RUNNING+CONFIGURING", "PENDING"])
def test_a_start_is_followed_until_it_has_settled(node: Node, state: str) -> None:
    """However long the prologs take, or the nodes are taken."""
    node.mark("requeue")
    node.slurm.requeued()
    node.run(2)
    waits_s = 20 if state == "PENDING" else 300
    started = replace(JOB, state="RUNNING", restarts=1)
    node.slurm.job_now = replace(started, state=state)
    node.run(waits_s)
    assert node.marked
    node.slurm.job_now = started
    node.run(2)
    node.slurm.completing = 2
    node.slurm.requeued()  # by Slurm: a prolog, or the launch of the script, failed in the end
    node.run(8)
    assert node.changes == ["start_now", "start_now"]
    assert not node.marked


def test_a_start_that_slurmd_refused_is_tried_again(node: Node) -> None:
    node.mark("requeue")
    node.slurm.requeued()
    node.run(2)
    assert node.slurm.job_now is not None
    node.slurm.completing = 2
    node.slurm.job_now = replace(
        node.slurm.job_now, state="FAILED", state_reason="JobLaunchFailure"
    )
    node.run(8)
    assert node.changes == ["start_now", "requeue", "start_now"]
    assert node.slurm.job_now.state == "RUNNING"


def test_a_program_that_fails_at_once_is_left_to_its_launcher(node: Node) -> None:
    node.mark("requeue")
    node.slurm.requeued()
    node.run(2)
    assert node.slurm.job_now is not None
    node.slurm.job_now = replace(node.slurm.job_now, state="FAILED", state_reason="NonZeroExitCode")
    node.run(8)
    assert node.changes == ["start_now"]
    assert not node.marked


def test_starts_that_fail_again_and_again_are_left_to_slurm(node: Node) -> None:
    node.mark("requeue")
    for _ in range(6):
        node.slurm.completing = 2
        node.slurm.requeued()
        node.run(3)
    assert node.changes == ["start_now"] * 3
    assert not node.marked


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.85, 0.95])
def test_never_in_the_second_of_the_revocation(fraction: float, node: Node) -> None:
    node.slurm.now = 1000 + fraction
    node.mark("requeue")
    node.slurm.requeued()
    node.run(3)
    assert node.slurm.job_now is not None
    assert node.slurm.job_now.state == "RUNNING"


def test_a_clock_ahead_waits_longer(node: Node) -> None:
    node.slurm.skew_s = 3.0
    node.mark("requeue")
    node.slurm.requeued()
    node.run(3)
    assert not any(call.startswith("start_now") for call in node.slurm.asked)
    node.run(4)
    assert node.changes[-1] == "start_now"


def test_a_clock_too_far_ahead_leaves_slurms_delay(node: Node) -> None:
    node.slurm.skew_s = 60.0
    node.mark("requeue")
    node.slurm.requeued()
    node.run(10)
    assert not any(call.startswith("start_now") for call in node.slurm.asked)
    assert "61 s ahead" in node.log[-1]
    assert not node.marked


def test_the_job_of_a_killed_launcher_is_requeued_and_started(node: Node) -> None:
    node.mark("running")
    node.run(1)
    assert node.slurm.asked == []
    node.slurm.job_now = replace(JOB, state="FAILED", exit_code="137:0")
    node.ended()
    node.run(4)
    assert node.slurm.asked.count("requeue") == 1
    assert node.changes[-1] == "start_now"
    assert not any(markers.ended_folder(node.run_dir).iterdir())


def test_without_an_epilog_a_killed_launcher_is_noticed_later(node: Node) -> None:
    node.mark("running")
    node.slurm.job_now = replace(JOB, state="FAILED")
    node.run(20)
    assert node.slurm.asked.count("requeue") == 1


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "COMPLETED", "DEADLINE", "PREEMPTED"])
def test_a_job_that_the_user_or_slurm_ended_is_not_requeued(state: str, node: Node) -> None:
    node.mark("running")
    node.slurm.job_now = replace(JOB, state=state)
    node.ended()
    node.run(3)
    assert node.slurm.asked == ["job"]
    assert not node.marked


def test_no_requeue_is_honoured(node: Node) -> None:
    node.mark("running")
    node.slurm.job_now = replace(JOB, state="FAILED", requeue=False)
    node.ended()
    node.run(3)
    assert node.slurm.asked == ["job"]
    assert not node.marked


def test_a_launcher_that_is_killed_repeatedly_is_not_requeued(node: Node) -> None:
    node.mark("running", launchers_killed=2)
    node.slurm.job_now = replace(JOB, state="FAILED")
    node.ended()
    node.run(3)
    assert "requeue" not in node.slurm.asked
    assert "was killed 3 times in a row" in node.log[-1]


def test_a_job_with_too_many_restarts_is_not_requeued(node: Node) -> None:
    node.mark("running", restarts=19)
    node.slurm.job_now = replace(JOB, state="FAILED", restarts=19)
    node.ended()
    node.run(3)
    assert "requeue" not in node.slurm.asked


def test_slurms_own_requeue_after_a_node_loss_is_sped_up_too(node: Node) -> None:
    node.mark("running")
    node.run(0.5)
    node.slurm.requeued()
    node.ended()
    node.run(3)
    assert node.changes[-1] == "start_now"
    assert "requeue" not in node.slurm.asked


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin", "Resources", "Dependency"])
def test_a_pending_job_that_waits_for_something_else_is_not_changed(
    reason: str, node: Node
) -> None:
    node.mark("requeue")
    node.slurm.job_now = replace(JOB, state="PENDING", state_reason=reason, restarts=1)
    node.run(2)
    assert node.slurm.asked == ["job"]
    assert not node.marked


def test_the_reason_of_the_last_end_means_nothing_yet(node: Node) -> None:
    node.mark("requeue")
    stale = replace(JOB, state="PENDING", state_reason="NonZeroExitCode", restarts=1)
    node.slurm.job_now = stale
    node.run(1)
    assert set(node.slurm.asked) == {"job"}
    node.slurm.job_now = replace(stale, state_reason="BeginTime")
    node.run(2)
    assert node.changes[-1] == "start_now"


def test_a_later_start_time_is_the_delay_for_any_reason(node: Node) -> None:
    node.mark("requeue")
    soon = datetime.fromtimestamp(1000 + 121, tz=timezone.utc)
    node.slurm.job_now = replace(
        JOB, state="PENDING", state_reason="NonZeroExitCode", restarts=1, start_at=soon
    )
    node.run(2)
    assert node.changes[-1] == "start_now"


def test_a_begin_time_set_by_a_person_is_not_changed(node: Node) -> None:
    node.mark("requeue")
    later = datetime.fromtimestamp(1000 + 7200, tz=timezone.utc)
    node.slurm.job_now = replace(
        JOB, state="PENDING", state_reason="BeginTime", restarts=1, start_at=later
    )
    node.run(2)
    assert node.slurm.asked == ["job"]


def test_the_call_is_repeated_if_slurmctld_does_not_answer(node: Node) -> None:
    node.mark("requeue")
    node.slurm.silent = True
    node.run(3)
    assert 2 <= len(node.slurm.asked) <= 4
    node.slurm.silent = False
    node.slurm.requeued()
    node.run(4)
    assert node.changes[-1] == "start_now"


def test_a_marker_of_another_user_is_removed_without_an_action(node: Node) -> None:
    node.mark("running")
    node.slurm.job_now = replace(JOB, user="bob", state="FAILED")
    node.ended()
    node.run(2)
    assert node.slurm.asked == ["job"]
    assert not node.marked
    assert "marker of uid 2001, but the job is bob's" in node.log[-1]


def test_a_marker_of_a_job_unknown_to_slurm_is_removed(node: Node) -> None:
    node.mark("requeue")
    node.slurm.job_now = None
    node.run(1)
    assert not node.marked


def test_an_invalid_marker_is_removed(node: Node) -> None:
    (markers.folder(node.run_dir) / "9.json").write_text("rubbish")
    node.run(1)
    assert not node.marked
    assert node.slurm.asked == []


def test_one_users_markers_do_not_delay_another_users_job(node: Node) -> None:
    (markers.folder(node.run_dir) / "8.json").mkdir()
    (markers.folder(node.run_dir) / "9.json").write_text(
        '{"job": 9, "restarts": 1e999, "state": "requeue", "at": 0}'
    )
    node.mark("requeue")
    node.slurm.requeued()
    node.run(5)
    assert node.changes == ["start_now"]


def test_users_take_turns_however_many_jobs_one_has(node: Node) -> None:
    for job in range(100, 150):
        markers.store(
            node.run_dir, Marker(job=job, restarts=0, state="requeue", at=0.0, owner=3000)
        )
    asked: list[int] = []
    look = node.slurm.job

    def job_of(job_id: int) -> SlurmJob | None:
        asked.append(job_id)
        found = look(job_id)
        return found if job_id == 7 or found is None else replace(found, user="bob")

    node.slurm.job = job_of  # type: ignore[method-assign]
    node.run(1)
    assert 7 not in asked
    node.mark("requeue")
    before = len(asked)
    node.run(0.4)
    assert 7 in asked[before : before + 2], "among the next two"


def test_an_unchanged_marker_sent_again_is_not_queried_more_often(node: Node) -> None:
    """Asked ten times a second for half a minute; who says it again each second gets no more."""
    for second in range(60):
        node.mark("requeue", at=float(second))
        node.run(1)
    assert 300 < len(node.slurm.asked) < 400


def test_a_new_run_on_the_same_node_is_not_disturbed(node: Node) -> None:
    node.mark("requeue")
    node.slurm.job_now = replace(JOB, restarts=1)
    node.run(0.1)
    node.mark("running", restarts=1)
    node.run(1)
    assert node.marked
    assert not any(call.startswith("start_now") for call in node.slurm.asked)


def test_a_finished_job_is_looked_at_once_more(node: Node) -> None:
    node.mark("finished")
    node.slurm.job_now = replace(JOB, state="COMPLETED")
    node.run(10)
    assert (node.marked, node.slurm.asked) == (True, [])
    node.run(10)
    assert (node.marked, node.slurm.asked) == (False, ["job"])


def test_the_end_that_a_killed_slurmctld_has_forgotten_costs_no_requeue_delay(node: Node) -> None:
    """It shows the job as RUNNING until its node registers for the second time, and then requeues it."""
    node.mark("finished")
    node.script_runs = False
    node.run(70)
    assert (node.marked, node.changes) == (True, []), "Slurm requeues it, not the agent"
    node.slurm.requeued()
    node.run(18)
    assert node.changes == ["start_now"]


def test_a_job_that_has_succeeded_is_requeued_if_slurmctld_has_forgotten_its_end(
    node: Node,
) -> None:
    """Its command is not run again, so it completes. Slurm itself may take minutes."""
    node.mark("finished", succeeded=True)
    node.run(14)
    assert node.changes == []
    node.script_runs = False
    node.run(8)
    assert node.changes == ["requeue", "start_now"]
    assert "job 7: slurmctld has forgotten its end, requeued" in node.log


@pytest.mark.parametrize("state", ["COMPLETED+COMPLETING", "FAILED+COMPLETING"])
def test_a_job_that_has_ended_and_whose_epilog_takes_long_is_not_requeued(
    node: Node, state: str
) -> None:
    """slurmctld knows of its end, so it has forgotten nothing."""
    node.mark("finished", succeeded=True)
    node.script_runs = False
    assert node.slurm.job_now is not None
    node.slurm.job_now = replace(node.slurm.job_now, state=state)
    node.run(120)
    assert node.changes == []
    node.slurm.job_now = replace(node.slurm.job_now, state=state.partition("+")[0])
    node.run(20)
    assert (node.marked, node.changes) == (False, [])


def test_only_a_slurmctld_that_was_started_since_can_have_forgotten_the_end(node: Node) -> None:
    """A script that goes on, in a container whose processes the agent does not see."""
    node.mark("finished", succeeded=True, at=1000.0)
    node.script_runs = False
    node.run(60)
    assert (node.marked, node.changes) == (True, [])
    node.slurm.started_at = 1001.0
    node.run(20)
    assert node.changes == ["requeue", "start_now"]


def test_a_script_that_goes_on_after_its_last_holdfast_run_is_not_watched(node: Node) -> None:
    node.mark("finished")
    node.run(20)
    assert (node.marked, node.slurm.asked) == (False, ["job"])


def test_switched_off_it_does_nothing(node: Node, tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "all").touch()
    node.mark("requeue")
    node.slurm.requeued()
    node.run(3)
    assert node.slurm.asked == []


HELD_BY_SLURM = replace(
    JOB,
    expedited=True,
    restarts=1,
    state="PENDING+REQUEUE_HOLD",
    state_reason="JobHeldUser",
    exit_code="137:0",
)
"""As Slurm 26.05 leaves a job with ``--requeue=expedite`` whose launcher was killed."""


def test_an_expedited_job_whose_launcher_was_killed_is_released(node: Node) -> None:
    node.slurm.job_now = HELD_BY_SLURM
    node.mark("running")
    node.ended()
    node.run(2)
    assert node.changes == ["release"]
    assert node.log == ["job 7: its launcher was gone, released"]
    assert not node.marked


def test_an_expedited_job_whose_requeue_a_killed_slurmctld_has_forgotten_is_released(
    node: Node,
) -> None:
    """The requeue's SIGTERM had ended the script, and the new slurmctld took that for a failure."""
    node.slurm.job_now = replace(HELD_BY_SLURM, exit_code="0:15")
    node.slurm.started_at = 900.9  # shown as 900
    node.mark("requeue", at=900.5)
    node.ended()
    node.run(2)
    assert node.changes == ["release"]
    assert node.log == ["job 7: slurmctld has forgotten its requeue, released"]


@pytest.mark.parametrize(
    ("of_job", "of_marker"),
    [
        ({"exit_code": "0:15"}, {}),  # a person's scontrol requeuehold
        ({"exit_code": "1:0"}, {}),
        ({"expedited": False}, {}),
        ({"state": "PENDING", "exit_code": "0:0"}, {}),  # a person's scontrol hold
        ({"state_reason": "JobHeldAdmin"}, {}),
        ({}, {"state": "requeue", "at": 900.0}),  # no new slurmctld since: a person's requeuehold
        ({"state_reason": "JobHeldAdmin"}, {"state": "requeue"}),
        ({}, {"launchers_killed": 2}),
        ({"requeue": False}, {}),
    ],
)
def test_any_other_hold_stays(
    node: Node, of_job: dict[str, object], of_marker: dict[str, object]
) -> None:
    node.slurm.job_now = replace(HELD_BY_SLURM, **of_job)  # type: ignore[arg-type]
    node.mark(**{"state": "running", **of_marker})  # type: ignore[arg-type]
    node.ended()
    node.run(40)
    assert node.changes == []
    assert not node.marked, "Slurm is not queried any more"
