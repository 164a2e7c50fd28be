"""Submits the demo's training job and follows it through its files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.box import Box
from testbed.errors import SandboxError

from demonstration.observe import Cluster, JobView, NotSeenError, json_lines, until

T = TypeVar("T")

CODE = "/mnt/training/code"
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
REQUEUED_S = 45.0
"""A job whose launcher was killed is FAILED until its node's agent, which may restart first, requeues it."""
SOURCE = Path(__file__).resolve().parent.parent / "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A training to submit. ``script`` is train_plain or train_holdfast; ``name`` its folder under runs/."""

    name: str
    script: str
    ranks_per_node: int
    steps: int
    every: int = 5
    step_s: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A submitted training. ``kept``: its progress, for a job whose box has ended."""

    cluster: Cluster
    order: Order
    job_id: int
    submitted_s: float
    kept: tuple[dict[str, Any], ...] = ()

    @property
    def folder(self) -> Path:
        """Host path of the job's files."""
        return self.cluster.box.path(f"/mnt/training/runs/{self.order.name}")

    @property
    def weights(self) -> str:
        return f"/mnt/training/runs/{self.order.name}/trained_model.pt"

    def progress(self) -> list[dict[str, Any]]:
        return list(self.kept) or json_lines(self.folder / "progress.jsonl")

    def journal(self) -> list[dict[str, Any]]:
        """The launcher's journal; empty for a job without Holdfast."""
        return json_lines(self.folder / f"checkpoints/.holdfast/job-{self.job_id}.jsonl")

    def log(self) -> str:
        path = self.cluster.box.path(f"/mnt/training/logs/train-{self.job_id}.out")
        try:
            return path.read_text(errors="replace")
        except OSError:
            return ""

    def view(self) -> JobView:
        return self.cluster.job(self.job_id)

    def latest_step(self) -> int:
        steps = [line["step"] for line in self.progress() if line["event"] == "step"]
        return int(steps[-1]) if steps else 0

    def wait_step(self, step: int, timeout_s: float = 150) -> None:
        """Wait for a training step. Raises ``NotSeenError`` with the scene."""
        what = f"step {step} of {self.order.name}"
        self._wait(lambda: self.latest_step() >= step, what, timeout_s, 0.05)

    def wait_state(self, *states: str, timeout_s: float = 150) -> JobView:
        """The job's view once it is in one of ``states``.

        Raises ``NotSeenError`` with the scene: after ``timeout_s``, or when the job has ended otherwise and
        was not requeued within ``REQUEUED_S``.
        """
        what = f"job {self.job_id} ({self.order.name}) in state {' or '.join(states)}"
        alive_s = time.monotonic()

        def reached() -> JobView | None:
            nonlocal alive_s
            view, now_s = self.view(), time.monotonic()
            if view.state in states:
                return view
            if view.state not in ENDED:
                alive_s = now_s
            elif now_s - alive_s > REQUEUED_S:
                raise NotSeenError(f"{what}: it ended as {view.state}")
            return None

        return self._wait(reached, what, timeout_s, 0.3)

    def _wait(self, read: Callable[[], T | None], what: str, timeout_s: float, every_s: float) -> T:
        try:
            return until(read, what, timeout_s, every_s)
        except NotSeenError as error:
            raise NotSeenError(str(error), scene(self)) from None


def install(box: Box) -> None:
    """Copy the training code to the shared mount, as a user does."""
    for folder in (SOURCE, SOURCE / "batch"):
        target = box.path(CODE) / folder.relative_to(SOURCE)
        target.mkdir(exist_ok=True)
        for source in sorted(folder.iterdir()):
            if source.is_file():
                shutil.copyfile(source, target / source.name)
                (target / source.name).chmod(0o644)
        target.chmod(0o755)


def submit(cluster: Cluster, order: Order) -> Job:
    """Run sbatch as alice."""
    argv = ["sbatch", "--parsable", f"{CODE}/batch/{order.script}.sbatch"]
    argv += ["--steps", str(order.steps), "--every", str(order.every)]
    argv += ["--step-seconds", str(order.step_s)]
    env = {"RUN": f"/mnt/training/runs/{order.name}", "RANKS_PER_NODE": str(order.ranks_per_node)}
    submitted_s = time.time()
    done = cluster.box.run(argv, user="alice", env=env)
    job_id = int(done.stdout.split(";")[0])
    return Job(cluster=cluster, order=order, job_id=job_id, submitted_s=submitted_s)


def weights_digest(job: Job) -> str:
    """SHA-256 of the final model's tensors, computed in the box from the job's output file."""
    argv = ["python3", f"{CODE}/weights.py", job.weights]
    return job.cluster.box.run(argv, user="alice", timeout_s=60).stdout.split()[0]


def scene(job: Job) -> str:
    """Slurm's records of job and nodes, and the ends of the job's log, its journal and the agents' logs."""
    box = job.cluster.box
    parts = [
        box.run(["scontrol", "show", "job", str(job.job_id)], check=False).stdout,
        box.run(["sinfo", "-N", "-o", "%N %T %E"], check=False).stdout,
        "\n".join(line for line in job.log().splitlines() if not line.startswith("step "))[-3000:],
        *(str(event) for event in job.journal()[-8:]),
    ]
    return "\n".join([*parts, *_agent_logs(box)])


def _agent_logs(box: Box) -> list[str]:
    if box.shape.pods:
        words = ("logs", "--namespace=holdfast", "--selector=app.kubernetes.io/name=holdfast-agent")
        try:
            return box.kubectl(*words, "--prefix", "--tail=12").splitlines()
        except SandboxError as error:
            return [str(error)]
    lines = []
    for node in box.nodes:
        path = box.path(f"/var/log/holdfast/agent.{node.name}.log")
        lines += [node.name, *path.read_text(errors="replace").splitlines()[-12:]]
    return lines


def attempts(job: Job) -> list[tuple[str, float, float]]:
    """(node, begin, end) of every attempt's nodes, oldest first, from the launcher's journal."""
    events = job.journal()
    begins = [event for event in events if event["event"] == "attempt"]
    ends = {event["attempt"]: float(event["t"]) for event in events if event["event"] == "step_end"}
    found: list[tuple[str, float, float]] = []
    for begin in begins:
        end = ends.get(begin["attempt"], time.time())
        nodes = job.cluster.hosts(begin["nodes"])
        found.extend((node, float(begin["t"]), end) for node in nodes)
    return found
