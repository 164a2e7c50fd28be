"""Deaths while slurmctld or slurmdbd restarts or does not answer."""

from __future__ import annotations

from dataclasses import replace

from measure.deaths import acts
from measure.deaths.catalogue.common import ELSEWHERE, MOVED, WAITS
from measure.deaths.death import Death, Expect, Where

_LONG_S = 25.0
"""Longer than a command of Slurm's waits for an answer."""

DEATHS = (
    Death(
        name="slurmctld-restart",
        how="Xid 79, and slurmctld is killed while the job is requeued",
        nodes=2,
        then=ELSEWHERE + ", once slurmctld answers; a second time if it has forgotten that run",
        every=True,
        rank="[ ! -e $F/go ] || exit 0\n[ $A = 1 ] && exec sleep 120\nuntil_told\nexit 0",
        act=acts.fault_then_kill_slurmctld,
        where=Where.ALONE,
        within_s=150,
        expect=replace(MOVED, or_ends=("requeue", "others", "done")),
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
        then=ELSEWHERE + ", once slurmctld answers",
        rank=WAITS,
        act=acts.go_while_slurmctld_is_silent(_LONG_S, "xid", "79", "--gpu", "1"),
        where=Where.ALONE,
        expect=MOVED,
    ),
    Death(
        name="slurmctld-killed-done",
        how="the program succeeds, and slurmctld is killed in the same second",
        then="the job ends; where slurmctld runs it again, the command is not run again",
        every=True,
        rank="until_told\nexit 0",
        act=acts.done_then_kill_slurmctld,
        where=Where.ALONE,
        within_s=200,
        expect=Expect(ends=("done",)),
    ),
    Death(
        name="slurmdbd-down",
        how="Xid 79 while accounting is down",
        nodes=2,
        then=ELSEWHERE,
        rank=WAITS,
        act=acts.fault_without_accounting,
        where=Where.ALONE,
        expect=MOVED,
    ),
)
