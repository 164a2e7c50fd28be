"""The job of one death: how it is submitted, and what Slurm and its journal say about it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demonstration.observe import NotSeenError, json_lines, until
from testbed.box import Box

from measure.deaths.death import Death, Where

FOLDER = "/mnt/training/deaths"
GOOD = f"{FOLDER}/good.pt"

_RANK = """\
F={folder} R=$SLURM_PROCID A=${{HOLDFAST_ATTEMPT:-1}}
say() {{ echo "$*" >&2; }}
save() {{ [ "$R" != 0 ] || {{ cp {good} "$F/part.$1" && mv "$F/part.$1" "$F/step_$1.pt"; }}; }}
until_told() {{ while [ ! -e "$F/go" ]; do sleep 0.2; done; }}
: >"$F.up.$A.$R"
{again}
{code}
"""
_AGAIN = '[ "$A" = 1 ] || exit 0'

_SCRIPT = """#!/bin/bash
#SBATCH --job-name={name} --nodes={nodes} --ntasks-per-node=2 --cpus-per-task=1 --mem=100M
#SBATCH --open-mode=append --output={folder}.log --chdir=/tmp
echo $EPOCHREALTIME >>{folder}.started
{before}
holdfast run --checkpoints {folder} {run} -- srun sh {folder}.rank
"""
_FIELDS = re.compile(
    r"(?<!\S)(JobId|JobState|Reason|Restarts|NodeList|ExcNodeList|BatchHost)=(\S*)"
)
_HELD = ("JobHeld", "job_requeued_in_held_state", "launch_failed")


class Queue:
    """All jobs as slurmctld shows them, read twice a second for all who wait."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._jobs: Mapping[int, Mapping[str, str]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue", daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def job(self, job_id: int) -> Mapping[str, str]:
        return self._jobs.get(job_id, {})

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            done = self._box.run(["scontrol", "show", "job", "-o"], check=False)
            rows = [dict(_FIELDS.findall(line)) for line in done.stdout.splitlines()]
            found = {int(row["JobId"]): row for row in rows if row.get("JobId", "").isdigit()}
            if found:
                self._jobs = found


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """One submitted job. ``folder``: its checkpoint folder, as the box sees it."""

    box: Box
    queue: Queue
    death: Death
    user: str
    job_id: int
    folder: str
    options: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Slurm's state; HELD for a job that waits for a person."""
        job = self.queue.job(self.job_id)
        state = job.get("JobState", "")
        held = state == "PENDING" and job.get("Reason", "").startswith(_HELD)
        return "HELD" if held else state

    @property
    def restarts(self) -> int:
        return int(self.queue.job(self.job_id).get("Restarts", "0"))

    @property
    def excluded(self) -> tuple[str, ...]:
        return self._hosts(self.queue.job(self.job_id).get("ExcNodeList", ""))

    def _hosts(self, names: str) -> tuple[str, ...]:
        if names in ("", "(null)"):
            return ()
        return tuple(self.box.run(["scontrol", "show", "hostnames", names]).stdout.split())

    @property
    def asked(self) -> tuple[str, ...]:
        """The nodes that its owner excluded."""
        words = [word.partition("=") for word in self.options]
        return tuple(value for key, _, value in words if key == "--exclude")

    @property
    def victim(self) -> str:
        """The node that dies: of the first run."""
        nodes = self.runs()[0]
        return nodes[0] if self.death.on_first else nodes[-1]

    def runs(self) -> list[tuple[str, ...]]:
        """The nodes of each run, oldest first, as the launchers recorded them."""
        return [
            self._hosts(event["nodes"]) for event in self.events() if event["event"] == "attempt"
        ]

    def events(self) -> list[dict[str, Any]]:
        """The journal."""
        return json_lines(self.box.path(f"{self.folder}/.holdfast/job-{self.job_id}.jsonl"))

    def starts(self) -> list[float]:
        """When the batch script began, epoch seconds, oldest first."""
        return times(self.box.path(f"{self.folder}.started"))

    def log(self) -> str:
        path = self.box.path(f"{self.folder}.log")
        return path.read_text(errors="replace") if path.exists() else ""

    def tell(self) -> None:
        """Lets tasks that wait for it go on."""
        self.box.path(f"{self.folder}/go").touch()

    def wait_up(self) -> None:
        """Until all tasks of the first attempt run."""
        ranks = range(2 * self.death.nodes)
        up = [self.box.path(f"{self.folder}.up.1.{rank}") for rank in ranks]
        self.wait(lambda: all(path.exists() for path in up), "its tasks")

    def wait(self, reached: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Raises ``NotSeenError`` with the job's state."""
        try:
            until(reached, what, timeout_s, 0.1)
        except NotSeenError as error:
            raise NotSeenError(f"{error}; job {self.job_id} is {self.state}") from None


def times(path: Path) -> list[float]:
    """Bash's EPOCHREALTIME, one a line; none while there is no such file."""
    try:
        return [float(line) for line in path.read_text().splitlines()]
    except OSError:
        return []


def install(box: Box) -> None:
    """What all jobs need: a checkpoint that is complete."""
    box.run(["install", "-d", "-m", "0777", FOLDER])
    code = (
        "import pickle, sys, zipfile\n"
        "with zipfile.ZipFile(sys.argv[1], 'w') as archive:\n"
        "    archive.writestr('archive/data.pkl', pickle.dumps({'step': 5}))\n"
        "    archive.writestr('archive/version', '3')\n"
    )
    box.run(["python3", "-c", code, GOOD])
    box.run(["chmod", "0644", GOOD])


def submit(box: Box, queue: Queue, death: Death, options: tuple[str, ...], user: str) -> RunningJob:
    """``options``: of sbatch. Raises SandboxError."""
    folder = f"{FOLDER}/{death.name}-{time.monotonic_ns()}"
    box.run(["install", "-d", "-o", user, folder])
    again = "" if death.every else _AGAIN
    code = _RANK.format(folder=folder, good=GOOD, again=again, code=death.rank)
    _put(box.path(f"{folder}.rank"), code)
    script = _SCRIPT.format(
        name=death.name,
        nodes=death.nodes,
        folder=folder,
        before=death.before.replace("FOLDER", folder),
        run=death.run,
    )
    done = box.run(["sbatch", "--parsable", *options], user=user, stdin=script)
    return RunningJob(
        box=box,
        queue=queue,
        death=death,
        user=user,
        job_id=int(done.stdout.split(";")[0]),
        folder=folder,
        options=options,
    )


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def is_expedited(death: Death, release: tuple[int, ...]) -> bool:
    """Whether the job is submitted with expedited requeue, where the release has it. Such a job cannot
    exclude a node that only its output names."""
    of_node = death.where is not Where.SHARED and death.act is not None
    return release >= (25, 11) and of_node and "--requeue" in death.options
