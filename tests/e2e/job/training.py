"""A training job for the end-to-end tests: fast to start, real in everything that Holdfast reads.

Each rank runs a fixed number of steps; rank 0 writes a complete ``.pt`` archive every few steps
(temporary name, then rename) and one JSON line per step. No torch: importing it would take most of
the test's time, and the demo uses it.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.box import Box

from tests.e2e import cluster

_PROGRAM = """
import json, os, pickle, sys, time, zipfile
folder, steps = sys.argv[1], int(sys.argv[2])
rank = int(os.environ["SLURM_PROCID"])
attempt = os.environ.get("HOLDFAST_ATTEMPT", "")
begin = 0
if os.environ.get("HOLDFAST_RESUME_FROM"):
    with zipfile.ZipFile(os.environ["HOLDFAST_RESUME_FROM"]) as archive:
        begin = pickle.loads(archive.read("archive/data.pkl"))["step"]
for step in range(begin + 1, steps + 1):
    time.sleep(0.2)
    if rank:
        continue
    with open(folder + "/steps.jsonl", "a") as out:
        line = {"t": time.time(), "step": step, "attempt": attempt, "begin": begin}
        out.write(json.dumps(line) + "\\n")
    if step % 5 == 0:
        name = f"{folder}/step_{step}.pt"
        with zipfile.ZipFile(name + ".tmp", "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"step": step}))
            archive.writestr("archive/version", "3")
        os.replace(name + ".tmp", name)
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""

_SCRIPT = """#!/bin/bash
#SBATCH --nodes={nodes} --ntasks-per-node=2 --gres=gpu:8 --exclusive {requeue} --open-mode=append
#SBATCH --output={folder}/log
{before}
holdfast run --checkpoints {folder} {run} -- \\
  srun {command}
"""


@dataclass(frozen=True, slots=True)
class Training:
    """One submitted job."""

    box: Box
    job_id: int
    folder: str

    def job(self) -> dict[str, Any]:
        """Slurm's record of the job."""
        text = self.box.run(["scontrol", "show", "job", str(self.job_id), "--json"]).stdout
        record: dict[str, Any] = json.loads(text)["jobs"][0]
        return record

    @property
    def state(self) -> str:
        return "+".join(self.job()["job_state"])

    @property
    def restarts(self) -> int:
        return int(self.job()["restart_cnt"])

    def nodes(self) -> list[str]:
        names = self.job()["nodes"]
        return (
            self.box.run(["scontrol", "show", "hostnames", names]).stdout.split() if names else []
        )

    def steps(self) -> list[dict[str, Any]]:
        """Every step that rank 0 finished, oldest first."""
        try:
            lines = self.box.path(f"{self.folder}/steps.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def log(self) -> str:
        try:
            return self.box.path(f"{self.folder}/log").read_text()
        except FileNotFoundError:
            return "(no log)"

    def wait_step(self, step: int, timeout_s: float = 60) -> None:
        self.wait(lambda: any(s["step"] >= step for s in self.steps()), f"step {step}", timeout_s)

    def wait_state(self, state: str, timeout_s: float = 60) -> None:
        self.wait(lambda: self.state == state, f"state {state}", timeout_s)

    def wait(self, reached: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        look = time.monotonic()
        while not reached():
            now = time.monotonic()
            if now > end:
                job = self.job()
                seen = f"{self.state} {job['state_reason']} on {job['nodes']}"
                raise AssertionError(
                    f"job {self.job_id} has not reached {what} within {timeout_s:g} s: {seen}, "
                    f"restarts {self.restarts}\n{self.log()}"
                )
            time.sleep(max(0.2, cluster.pause_s(now - look)))
            look = time.monotonic()


def submit(
    box: Box,
    *,
    steps: int = 60,
    nodes: int = 2,
    requeue: bool = True,
    options: tuple[str, ...] = (),
    code: int = 0,
    rank: str = "",
    before: str = "",
    run: str = "",
) -> Training:
    """Submit the job as alice; ``code`` is the exit code of its ranks. ``rank``: bash code that
    each task runs instead of the training. ``before``: a line of the script before it, in which
    ``FOLDER`` becomes the checkpoint folder. ``run``: more options of ``holdfast run``."""
    folder = f"/mnt/training/e2e-{time.monotonic_ns()}"
    box.run(["install", "-d", "-o", "alice", folder])
    _put(box.path("/mnt/training/e2e_small.py"), _PROGRAM)
    command = f"python3 /mnt/training/e2e_small.py {folder} {steps} {code}"
    script = _SCRIPT.format(
        nodes=nodes,
        folder=folder,
        command=f"bash -c {shlex.quote(rank)}" if rank else command,
        requeue="--requeue" if requeue else "--no-requeue",
        before=before.replace("FOLDER", folder),
        run=run,
    )
    done = box.run(["sbatch", "--parsable", *options], user="alice", stdin=script)
    return Training(box, int(done.stdout.split(";")[0]), folder)


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)
