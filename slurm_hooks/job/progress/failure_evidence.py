"""Keeps what the ranks of an attempt do when one of them has failed or a node is bad, before they are ended.

All of it happens in a thread of its own: on each node, as the job's user, a program reads what its ranks do, copies
dumps of torch's flight recorder and has Python print its stacks (``ranks/on_node``). Five seconds at most, unless a
checkpoint is being written: then the ranks go on until it is complete.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slurm_hooks.job.diagnosis.lines.line import Diagnosis
from slurm_hooks.job.progress import checkpoint_writer
from slurm_hooks.job.progress.folder_state import Abandonable
from slurm_hooks.job.progress.ranks import collection
from slurm_hooks.job.progress.ranks.report import Collected
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import NODE_FAILURE
from slurm_hooks.job.step.termination import KILL_ON_BAD_EXIT, may_take_over

PYTHON_STACKS = "PYTHONFAULTHANDLER"
"""With this variable Python has a handler for SIGABRT that prints the stacks of all threads."""
BAD_NODE = "bad node: "
_SETTLE_S = 0.4
"""Where all ranks fail, srun ends meanwhile. Also the time between two looks at the checkpoints."""
_LIMIT_S = 5.0
_WRITER_S = 60.0
_QUIET_S = 2.0
"""A checkpoint that has not grown for so long is not being written."""
_STORAGE_S = 5.0
_STOP_S = 1.0
_ABORTED = "Fatal Python error: Aborted"

Collect = Callable[..., Collected]


def without_abort(end: StepEnd) -> StepEnd:
    """How a step ended on a bad node: an abort explains nothing, since the node's agent has Python print its
    stacks so. Pure."""
    cause = end.found.cause
    own = cause is not None and _ABORTED in cause.line.text
    return replace(end, found=Diagnosis.none()) if own else end


class FailureEvidence:
    """Of one attempt. See ``termination.Evidence``."""

    def __init__(
        self,
        attempt: AttemptId,
        nodes: Sequence[str],
        checkpoints: Path,
        argv: Sequence[str],
        say: Callable[[str], None],
        collect: Collect = collection.collect_soon,
    ) -> None:
        """``say`` writes a line to the job's log."""
        self._attempt, self._nodes, self._say, self._collect = attempt, nodes, say, collect
        self._writer = Abandonable(lambda: (checkpoint_writer.unfinished(checkpoints),), _STORAGE_S)
        self._takes_over = may_take_over(argv, os.environ)
        self.lost: frozenset[str] = frozenset()
        """Nodes that cannot answer."""
        self._listener: Listener | None = None
        self._tap = collection.Tap()
        self._began = self._due = time.monotonic()
        self._title = ""
        self._before = Diagnosis.none()
        self._collected = Collected()
        self._thread: threading.Thread | None = None
        self._complete, self._stop = threading.Event(), threading.Event()

    @property
    def takes_over(self) -> bool:
        return self._takes_over

    def environment(self) -> dict[str, str]:
        """More variables for the command."""
        stacks = {PYTHON_STACKS: os.environ.get(PYTHON_STACKS, "1")}
        return {**stacks, KILL_ON_BAD_EXIT: "0"} if self._takes_over else stacks

    def listen(self, listener: Listener) -> None:
        """``listener``: hears the attempt's output."""
        self._listener, other = listener, listener.tap

        def both(data: bytes) -> None:
            if other:
                other(data)
            self._tap(data)

        listener.tap = both

    def begin(self, why: str, wake: Callable[[], None], *, by_watch: bool) -> bool:
        """As in ``termination.Evidence``. Once in an attempt: in a script, for the first step that fails."""
        nodes = [name for name in self._nodes if name not in self.lost]
        wanted = why.startswith(BAD_NODE) if by_watch else not why.endswith(NODE_FAILURE)
        if self._thread is not None or self._listener is None or not nodes or not wanted:
            return False
        self._title, self._due = why, time.monotonic() + _LIMIT_S
        self._tap.start()
        # In a script that tolerates the failure, the ranks of another step go on.
        all_end = by_watch or self._takes_over
        work = (self._listener, nodes, wake, all_end)
        self._thread = threading.Thread(target=self._run, args=work, daemon=True, name="evidence")
        self._thread.start()
        return True

    def is_complete(self) -> bool:
        return self._complete.is_set() or time.monotonic() > self._due

    def _run(
        self,
        listener: Listener,
        nodes: Sequence[str],
        wake: Callable[[], None],
        all_end: bool,
    ) -> None:
        before = self._unfinished()
        if not self._stop.wait(_SETTLE_S):
            now = self._unfinished()
            writing = checkpoint_writer.is_writing(before, now)
            if writing:
                self._due += _WRITER_S
                self._say(
                    "a checkpoint is being written: the ranks are not ended before it is complete"
                )
            self._before = listener.so_far()
            age_s = time.monotonic() - self._began
            self._collected = self._collect(
                self._attempt, nodes, self._is_over, age_s, abort=all_end and not writing
            )
            if writing:
                self._wait_for_writer(now)
        self._complete.set()
        wake()

    def _unfinished(self) -> object:
        found = self._writer.result()
        return found[0] if found else None

    def _wait_for_writer(self, before: object) -> None:
        quiet_since = time.monotonic()
        while not self._is_over() and time.monotonic() - quiet_since < _QUIET_S:
            self._stop.wait(_SETTLE_S)
            now = self._unfinished()
            if now is None:
                return
            if now != before:
                before, quiet_since = now, time.monotonic()

    def _is_over(self) -> bool:
        return self._stop.is_set() or time.monotonic() > self._due

    def ended(self, end: StepEnd) -> StepEnd:
        """The step has ended: keeps what was found. How it ended, without what the collection caused."""
        if self._thread is None:
            return end
        self._stop.set()
        self._thread.join(_STOP_S)
        output = self._tap.take()
        if self._collected.ranks:
            self._save(output)
        cause = end.found.cause
        own = cause is not None and _ABORTED in cause.line.text and self._before.cause is None
        return replace(end, found=self._before) if own else end

    def _save(self, output: bytes) -> None:
        path = collection.path_of(self._attempt, "failure")
        collected, title = self._collected, f"step ended: {self._title}"

        def write() -> bool:
            collection.save(path, title, collected, self._nodes, output)
            collection.remove_old_dumps(self._attempt)
            return True

        if Abandonable(write, _STORAGE_S).result():
            count = len(collected.ranks)
            self._say(f"what {count} {'rank' if count == 1 else 'ranks'} did: {path}")
        else:
            self._say(f"{path}: cannot be written")
