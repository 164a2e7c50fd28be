"""Deaths that a person or Slurm causes on purpose."""

from __future__ import annotations

from collections.abc import Callable

from measure.deaths import acts
from measure.deaths.death import Death, Expect, Where
from measure.deaths.job import RunningJob

_WAITS = "exec sleep 120"
_STAYS = "the job ends, and counts against nothing"


def _scancel(name: str, *words: str, state: str = "FAILED") -> Death:
    return Death(
        name=name,
        how=f"`scancel {' '.join(words)}` by its owner",
        then=_STAYS,
        rank=_WAITS,
        act=_cancelled(words),
        expect=Expect(ends=("others",), state=state),
    )


def _cancelled(words: tuple[str, ...]) -> Callable[[RunningJob], None]:
    def act(job: RunningJob) -> None:
        argv = ["scancel", *(word.replace("JOB", str(job.job_id)) for word in words)]
        job.box.run(argv, user=job.user)

    return act


_KILLS = (
    _scancel("int-step", "-s", "INT", "JOB.0"),
    _scancel("usr1-job", "-s", "USR1", "JOB"),
    _scancel("usr2-batch", "--batch", "-s", "USR2", "JOB"),
    _scancel("cancel-full", "--full", "JOB", state="CANCELLED"),
    _scancel("kill-job", "-s", "KILL", "JOB", state="CANCELLED"),
    _scancel("kill-full", "--full", "-s", "KILL", "JOB", state="CANCELLED"),
)

DEATHS = (
    _scancel("cancel-job", "JOB", state="CANCELLED"),
    _scancel("cancel-step", "JOB.0"),
    _scancel("term-job", "-s", "TERM", "JOB"),
    _scancel("term-step", "-s", "TERM", "JOB.0"),
    _scancel("hup-step", "-s", "HUP", "JOB.0"),
    _scancel("term-batch", "--batch", "-s", "TERM", "JOB"),
    _scancel("hup-batch", "--batch", "-s", "HUP", "JOB"),
    _scancel("term-all", "--full", "-s", "TERM", "JOB"),
    Death(
        name="kill-batch",
        how="`scancel --batch -s KILL JOB` by its owner",
        then="the node's agent requeues it: SIGKILL may also be the kernel's",
        rank=_WAITS,
        act=_cancelled(("--batch", "-s", "KILL", "JOB")),
        expect=Expect(ends=("lost", "done"), or_slurm=True),
    ),
    Death(
        name="kill-step",
        how="`scancel -s KILL JOB.0` by its owner",
        then="restarted at once: SIGKILL may also be the kernel's",
        rank=_WAITS,
        act=_cancelled(("-s", "KILL", "JOB.0")),
        expect=Expect(ends=("restart", "done"), charged=1),
    ),
    _scancel("kill-step-ctld", "--ctld", "-s", "KILL", "JOB.0"),
    *_KILLS,
    Death(
        name="cancel-requeued",
        how="`scancel JOB` by its owner, right after a requeue by an administrator",
        then=_STAYS,
        rank=_WAITS,
        act=acts.requeue_and_cancel,
        expect=Expect(ends=("others",), state="CANCELLED"),
    ),
    Death(
        name="time-limit",
        how="the time limit of a minute is over",
        then=_STAYS,
        rank=_WAITS,
        options=("--requeue", "--time=1"),
        expect=Expect(ends=("others",), state="TIMEOUT"),
        within_s=150,
    ),
    Death(
        name="time-limit-continue",
        how="`holdfast run --continue 120`, and the time limit is near",
        then="requeued after its next checkpoint, and counts against nothing",
        every=True,
        rank="[ $A -gt 1 ] && exit 0\nsleep 2\nsave 5\n" + _WAITS,
        run="--continue 120",
        options=("--requeue", "--time=2"),
        expect=Expect(ends=("requeue", "done"), resumes=5, because="time limit"),
    ),
    Death(
        name="admin-requeue",
        how="`scontrol requeue` by an administrator",
        then="it runs again without Slurm's delay, and counts against nothing",
        rank=_WAITS,
        act=acts.scontrol("requeue"),
        expect=Expect(ends=("others", "done")),
    ),
    Death(
        name="admin-requeuehold",
        how="`scontrol requeuehold` by an administrator",
        then="it stays held: that was asked for",
        rank=_WAITS,
        act=acts.scontrol("requeuehold"),
        expect=Expect(ends=("others",), state="HELD"),
    ),
    Death(
        name="admin-suspend",
        how="`scontrol suspend` for 4 s, then `scontrol resume`",
        then="the same attempt goes on",
        rank="sleep 6\nexit 0",
        act=acts.suspend_and_resume,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="preempted",
        how="a job of a partition with a higher priority takes the node",
        nodes=1,
        then="it runs again elsewhere, and counts against nothing",
        rank=_WAITS,
        act=acts.preempt,
        where=Where.ALONE,
        on_first=True,
        expect=Expect(ends=("others", "done"), avoids=True),
    ),
    Death(
        name="maintenance",
        how="a maintenance reservation of the node, and `scontrol requeue`",
        then="it runs again elsewhere, and counts against nothing",
        rank=_WAITS,
        act=acts.maintain,
        where=Where.ALONE,
        on_first=True,
        expect=Expect(ends=("others", "done"), avoids=True),
    ),
)
