"""A fake slurmctld with one job, and a node whose agent tracks that job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from holdfast.errors import Refused, Unavailable
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.requeue import Requeuer
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from slurm_hooks.settings.job import JobConfig

ALICE = 2001
_QUESTIONS = ("job", "clock", "slurmctld_at", "nodes")


@dataclass
class FakeSlurm:
    """slurmctld with one job. A requeue takes two questions to become PENDING for BeginTime, and a
    start in the same second as the pending is refused by slurmd as it is in reality: the job ends
    as FAILED."""

    job_now: SlurmJob | None
    now: float = 1000.5
    asked: list[str] = field(default_factory=list)
    silent: bool = False
    pending_second: int | None = None
    skew_s: float = 0.0
    completing: int = 2
    started_at: float = 100.0
    all_nodes: dict[str, SlurmNode] = field(default_factory=dict)

    def _call(self, text: str) -> None:
        self.asked.append(text)
        if self.silent:
            raise Unavailable(["scontrol"], "no answer in 10 s")

    def job(self, job_id: int) -> SlurmJob | None:
        self._call("job")
        if self.job_now and self.job_now.state == "PENDING+COMPLETING":
            self.completing -= 1
            if self.completing <= 0:
                self.job_now = replace(self.job_now, state="PENDING", state_reason="BeginTime")
                self.pending_second = int(self.now)
        return self.job_now

    def requeue(self, job_id: int) -> None:
        self._call("requeue")
        assert self.job_now is not None
        if not self.job_now.requeue:
            raise Refused(
                ["scontrol"], "exit status 1", "Requested operation is presently disabled"
            )
        self.requeued()

    def requeued(self) -> None:
        assert self.job_now is not None
        self.job_now = replace(
            self.job_now, state="PENDING+COMPLETING", restarts=self.job_now.restarts + 1
        )

    def start_now(self, job_id: int, exclude: Sequence[SlurmName] | None = None) -> None:
        self._call("start_now" if exclude is None else f"start_now {','.join(exclude)}")
        assert self.job_now is not None
        if "PENDING" not in self.job_now.state:
            raise Refused(["scontrol"], "exit status 1", "Job is no longer pending execution")
        too_early = self.pending_second is not None and int(self.now) <= self.pending_second
        too_early = too_early and not self.job_now.expedited
        self.job_now = replace(self.job_now, state="FAILED" if too_early else "RUNNING")

    def require(self, job_id: int, names: Sequence[SlurmName]) -> None:
        self._call(f"require {','.join(names)}")
        assert self.job_now is not None
        self.job_now = replace(self.job_now, required=",".join(names))

    def keep_free(self, name: str, nodes: Sequence[SlurmName], comment: str) -> bool:
        self._call(f"keep {name} {','.join(nodes)}")
        return True

    def unreserve(self, name: str) -> bool:
        self._call(f"free {name}")
        return True

    def clock(self) -> datetime:
        self._call("clock")
        return datetime.fromtimestamp(int(self.now), tz=timezone.utc)

    def slurmctld_at(self) -> datetime:
        self._call("slurmctld_at")
        return datetime.fromtimestamp(int(self.started_at), tz=timezone.utc)

    def admin_comment(self, job: SlurmJob, text: str) -> None:
        self._call("admin_comment")
        assert self.job_now is not None
        if self.job_now.state in ("FAILED", "COMPLETED"):
            raise Refused(["scontrol"], "exit status 1", "Job has already finished")
        self.job_now = replace(self.job_now, admin_comment=text)

    def hold(self, job_id: int, why: str) -> None:
        raise AssertionError("the agent holds no job")

    def release(self, job_id: int) -> None:
        self._call("release")
        assert self.job_now is not None
        self.job_now = replace(self.job_now, state="RUNNING", state_reason="None")

    def disable_requeue(self, job_id: int) -> None:
        raise AssertionError("the launcher's, not the agent's")

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        self._call("nodes")
        return [self.all_nodes[name] for name in names]

    def nodes_fast(self) -> list[SlurmNode]:
        raise AssertionError("not the job's business either")

    def drain(self, names: object, reason: str) -> None:
        raise AssertionError("not the job's business")

    def undrain(self, names: object) -> None:
        raise AssertionError("not the job's business")

    def comment(self, names: object, text: str) -> None:
        raise AssertionError("not the job's business")


JOB = SlurmJob(
    job_id=7,
    name="train",
    user="alice",
    state="RUNNING",
    state_reason="None",
    restarts=0,
    requeue=True,
)


class Node:
    """A ``Requeuer`` on one node, with a step every 0.1 s."""

    def __init__(
        self,
        run_dir: Path,
        slurm: FakeSlurm,
        owner: int = ALICE,
        config: JobConfig | None = None,
    ) -> None:
        self.run_dir, self.slurm = run_dir, slurm
        markers.folder(run_dir).mkdir()
        markers.ended_folder(run_dir).mkdir()
        self.log: list[str] = []
        self.owner = owner
        self.work_lost = False
        self.script_runs = True
        self.afterlife = Requeuer(
            slurm,
            run_dir,
            config or JobConfig(),
            log=self.log.append,
            wall=lambda: slurm.now + slurm.skew_s,
            uid_of=lambda user: ALICE if user == "alice" else 3000,
            work_lost=lambda: self.work_lost,
            script_runs=lambda _: self.script_runs,
        )

    def mark(self, state: str, **facts: object) -> None:
        marker = Marker(job=7, restarts=0, state=state, at=0.0, owner=ALICE)
        markers.store(self.run_dir, replace(marker, **facts))  # type: ignore[arg-type]

    def ended(self) -> None:
        (markers.ended_folder(self.run_dir) / "7").touch()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            calls = len(self.slurm.asked)
            self.afterlife.step(self.slurm.now)
            assert len(self.slurm.asked) - calls <= 1, "one bounded call a step"
            self.slurm.now += 0.1

    @property
    def changes(self) -> list[str]:
        """The calls that changed something in Slurm."""
        return [call for call in self.slurm.asked if call not in _QUESTIONS]

    @property
    def marked(self) -> bool:
        return any(markers.folder(self.run_dir).iterdir())
