"""Recognises an attempt that hangs: it prints nothing and writes no checkpoint. Only on request it is ended.

The checkpoint folder is looked at once half of the time limit has passed in silence, so a healthy job costs two
comparisons for each look at its nodes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.diagnosis.lines.launcher_lines import HANG
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis, LogLine
from slurm_hooks.job.progress.folder_state import Abandonable, folder_state
from slurm_hooks.job.progress.ranks import collection
from slurm_hooks.job.progress.ranks.report import Collected
from slurm_hooks.job.progress.ranks.suspects import Suspected, suspected
from slurm_hooks.job.progress.ranks.threads import thread
from slurm_hooks.job.progress.silence import HangLimits, Silence
from slurm_hooks.job.signatures import Kind, Weight
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.run_step import StepEnd

_STORAGE_S = 10.0
_LOOK_AGAIN = 0.1
"""Between two looks at the checkpoint folder: this part of the silence before the first one."""
_PRINTED_S = 1.5
"""After SIGABRT, until srun has passed on the stacks."""
_COLLECTION_S = 90.0
_IDLE_SAMPLE_S = 60.0
_IDLE = 0.02
"""Of a core, of all processes of the attempt on this node together."""
_AGAIN_S = 600.0
_EXPLAINS = frozenset({Kind.GPU, Kind.NETWORK, Kind.HOST, Kind.STORAGE})

Collect = Callable[[AttemptId, Sequence[str], Callable[[], bool], float], Collected | None]


class HangWatch:
    """Of one attempt."""

    def __init__(
        self,
        attempt: AttemptId,
        nodes: Sequence[str],
        checkpoints: Path,
        limits: HangLimits,
        say: Callable[[str], None],
        collect: Collect = collection.collect,
    ) -> None:
        """``say`` writes a line to the job's log."""
        self._attempt, self._nodes, self._limits = attempt, nodes, limits
        self._say, self._collect = say, collect
        self._began = time.monotonic()
        self._silence = Silence(self._began)
        self._folder = Abandonable(lambda: folder_state(checkpoints), _STORAGE_S)
        self._idle = _Idleness(attempt)
        self._listener: Listener | None = None
        self._tap = collection.Tap()
        self._reported = False
        self._folder_at = float("-inf")
        self._why = ""
        self._found = Diagnosis.none()
        self._collecting, self._done = threading.Event(), threading.Event()

    def listen(self, listener: Listener) -> None:
        """``listener``: hears the attempt's output."""
        self._listener = listener
        listener.tap = self._tap
        if not self._limits.timeout_s or listener.hears_stdout:
            return
        if self._limits.of_site:
            self._limits = replace(self._limits, timeout_s=0.0)
        else:
            self._say(
                "--hang-timeout: standard output is no file, so it does not count as progress"
            )

    def look(self, job: SlurmJob | None, now: float) -> str:
        """Why the attempt must end now; empty if it goes on. ``now``: ``time.monotonic``."""
        if self._listener is None or self._limits.first_look_s is None:
            return ""
        silent_s = self._silence.look(now, self._listener.heard_at)
        if silent_s < self._limits.first_look_s or self._reported:
            return ""
        limit_s = self._limits.timeout_s or self._limits.report_s
        interval_s = self._limits.first_look_s * _LOOK_AGAIN
        if now - self._folder_at >= interval_s or silent_s >= self._limits.timeout_s > 0:
            self._folder_at = now
            silent_s = self._silence.look_at_folder(now, self._folder.result())
        if silent_s < limit_s or job is None or job.state != "RUNNING":
            return ""
        if self._limits.timeout_s:
            return self._end(self._listener, silent_s)
        self._report(silent_s, now)
        return ""

    def ended(self, end: StepEnd) -> StepEnd:
        """How the step ended, if the ranks may have ended because their stacks were collected."""
        if end.status == 0 or end.terminated or not self._collecting.is_set():
            return end
        self._done.wait(_COLLECTION_S)
        return replace(end, ended_why=self._why, found=self._found) if self._why else end

    def _end(self, listener: Listener, silent_s: float) -> str:
        # Nothing is said meanwhile: the launcher's own lines are in the job's output too.
        title = f"hang: nothing printed and no checkpoint written for {silent_s:.0f} s"
        before, heard_at = listener.so_far(), listener.heard_at
        self._tap.start()
        self._done.clear()
        self._collecting.set()
        try:
            collected = self._collect(
                self._attempt,
                self._nodes,
                lambda: listener.heard_at != heard_at,
                time.monotonic() - self._began,
            )
            if collected is None:
                self._collecting.clear()
                return ""
            time.sleep(_PRINTED_S)
            who = suspected(collected, self._nodes)
            why = text(title, who)
            self._found, self._why = diagnosis(before, why, who), why
            self._save(title, collected, self._tap.take())
        finally:
            self._tap.take()
            self._done.set()
        return self._why

    def _report(self, silent_s: float, now: float) -> None:
        """Once in an attempt."""
        if not self._idle.proved(now):
            return
        self._reported = True
        self._say(
            f"nothing printed, no checkpoint written and no CPU used on this node for {silent_s:.0f} s: "
            "does the command hang? holdfast run --hang-timeout SECONDS restarts it then"
        )

    def _save(self, title: str, collected: Collected, output: bytes) -> None:
        path = collection.path_of(self._attempt, "hang")

        def write() -> bool:
            collection.save(path, title, collected, self._nodes, output)
            collection.remove_old_dumps(self._attempt)
            return True

        if Abandonable(write, _STORAGE_S).result():
            self._say(f"what {len(collected.ranks)} ranks did: {path}")
        else:
            self._say(f"{path}: cannot be written")


def text(title: str, who: Suspected) -> str:
    """Why the attempt ends, in one line, as ``launcher_lines`` reads it."""
    return f"{title}; suspected: {', '.join(who.nodes)}: {who.why}" if who.nodes else title


def diagnosis(before: Diagnosis, why: str, who: Suspected) -> Diagnosis:
    """The cause: what the job printed ``before`` it hung if that explains it, else the hang itself."""
    row = before.cause.signature if before.cause else None
    if row and (
        row.weight is Weight.FATAL or (row.weight is Weight.POSSIBLE and row.kind in _EXPLAINS)
    ):
        return before
    line = LogLine(file="", number=0, text=why)
    cause = Cause(signature=HANG, line=line, host=None, rank=None)
    return Diagnosis(cause=cause, suspects=who.nodes, others=before.others)


class _Idleness:
    """Whether the attempt's processes on this node use no CPU. A rank that waits in NCCL uses a whole core,
    so this shows only some hangs: it is for a report, not for a decision."""

    def __init__(self, attempt: AttemptId, procfs: Path = Path("/proc")) -> None:
        self._attempt, self._procfs = attempt, procfs
        self._sampled_at: float | None = None
        self._not_before = float("-inf")
        self._cpu_s = 0.0

    def proved(self, now: float) -> bool:
        """Compares with the sample of a minute ago; after a busy minute, ten minutes later again."""
        if now < self._not_before:
            return False
        if self._sampled_at is None:
            self._sampled_at, self._cpu_s = now, self._used_s()
            return False
        span_s = now - self._sampled_at
        if span_s < _IDLE_SAMPLE_S:
            return False
        used_s = self._used_s() - self._cpu_s
        self._sampled_at, self._not_before = None, now + _AGAIN_S
        return 0 <= used_s < _IDLE * span_s

    def _used_s(self) -> float:
        found = (
            thread(self._procfs / str(process.pid))
            for process in kill_tasks.processes(self._procfs, self._attempt)
        )
        return sum(process.cpu_s for process in found if process)
