"""Records events in the history without waiting for its filesystem.

The folder may be on a network filesystem, so a contained worker writes to it. Events not written
yet are kept in memory, and after a failed write also on this node's own disk, for the next agent.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.adapters import jsonl
from holdfast.adapters.log import Log
from holdfast.adapters.state_file import forget, write_atomic
from holdfast.history import store
from holdfast.history.event import LOST, Event
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

MAX_PENDING = 1000
"""The most events kept for writing. Beyond it the oldest are dropped, and an event records how
many."""
_BATCH_BYTES = 32 << 10
"""Size of one write: a request must fit into the worker's pipe (64 KiB)."""
_MAX_LINE_BYTES = 8 << 10
_MAX_DETAIL = 500
_DEADLINE_S = 10.0
_RETRY_S = (5.0, 300.0)
"""Seconds until the next try after the first failure, and at most."""
_SPREAD_S = 1.0
"""Writes are spread over this time, so that the nodes of a cluster do not all write at once."""


class Recorder:
    """``note`` may be called from anywhere in the agent's process at any time; it takes
    microseconds.

    ``folder``: the history's folder; ``spool``: a file on a local disk; ``max_bytes``: the most
    that this node may use in the folder.
    """

    def __init__(
        self,
        folder: Path,
        node: str,
        boot_id: str,
        *,
        spool: Path,
        max_bytes: int,
        stuck: Path | None = None,
    ) -> None:
        """``stuck``: the folder for the token of a worker that cannot be killed; default: beside
        the spool."""
        self.node, self.boot_id = node, boot_id
        self.failures = 0
        """Failed writes in a row."""
        self.noted: Counter[str] = Counter()
        """Events since this agent's start, by name."""
        self._folder, self._spool, self._max_bytes = folder, spool, max_bytes
        token = (stuck or spool.parent / "stuck") / "history.json"
        self._worker = Worker("history", self._open, token=token, keep=False)
        self._pending: list[bytes] = []
        self._sent = 0
        self._lost = 0
        self._spooled = self._hung = False
        self._next = float("inf")
        self._adopt()

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        """Monotonic time at which a write is due."""
        return float("inf") if self._worker.busy else self._next

    @property
    def pending(self) -> int:
        """Events that are not on disk yet."""
        return len(self._pending)

    def note(self, event: str, *, t: float | None = None, **facts: Any) -> None:
        """Record that ``event`` happened (names: ``holdfast.history.event``). Never raises.

        ``t`` in epoch seconds, default: now. ``facts`` may hold ``gpu``, ``gpu_uuid``, ``serial``,
        ``code``, ``detail`` and any other JSON value; node and boot id are added.
        """
        self.noted[event] += 1
        self._keep(self._line(event, t, facts))

    def turn(self, now: float) -> None:
        """Take an answer, start a write that is due. Never waits."""
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        if self._pending and not self._worker.busy and now >= self._next:
            self._write()

    def close(self, *, wait_s: float = 1.0) -> None:
        """Write the last events, or save them to the spool if that takes longer than ``wait_s``."""
        until = time.monotonic() + wait_s
        while (self._pending or self._worker.busy) and time.monotonic() < until:
            self._next = min(self._next, 0.0) if not self.failures else self._next
            self.turn(time.monotonic())
            if not self._worker.busy and self._next > time.monotonic():
                break
            time.sleep(0.005)
        self._worker.close()
        self._put_aside()

    # --- waiting events ------------------------------------------------------------------------

    def _line(self, event: str, t: float | None, facts: dict[str, Any]) -> bytes:
        values = {"node": self.node, "boot_id": self.boot_id, **facts}
        named = {name: values.pop(name) for name in _FIELDS if values.get(name) is not None}
        if "detail" in named:
            named["detail"] = " ".join(str(named["detail"]).split())[:_MAX_DETAIL]
        kept = {name: value for name, value in values.items() if value is not None}
        noted = Event(t=time.time() if t is None else t, event=event, facts=kept, **named)
        line = jsonl.encode(noted.record())
        if len(line) > _MAX_LINE_BYTES:
            line = jsonl.encode(replace(noted, facts={"too_long": len(line)}).record())
        return line

    def _keep(self, line: bytes) -> None:
        if len(self._pending) >= MAX_PENDING:
            del self._pending[self._sent]  # the oldest one that is not being written
            self._lost += 1
        self._pending.append(line)
        if not self.failures:
            self._next = min(self._next, time.monotonic() + random.uniform(0, _SPREAD_S))

    def _adopt(self) -> None:
        """Take over the events that an earlier agent could not write."""
        try:
            lines = self._spool.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        self._spooled = True
        for line in lines:
            if line.endswith(b"\n") and jsonl.parse([line]).whole:
                self._keep(line)

    def _put_aside(self) -> None:
        """Save the unwritten events to this node's own disk; remove that file once all are written."""
        if self._hung and self._folder.parent == self._spool.parent:
            return  # the same disk: this write would hang too
        try:
            if self._pending:
                text = b"".join(self._pending).decode()
                self._spool.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self._spool, text, mode=0o600)
                self._spooled = True
            elif self._spooled:
                forget(self._spool)
                self._spooled = False
        except OSError as error:
            log.error("history spool not written", why=error)

    # --- writing -------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            self.noted[LOST] += 1
            self._pending.insert(0, self._line(LOST, None, {"count": lost}))
        batch: list[bytes] = []
        size = 0
        for line in self._pending:
            if batch and size + len(line) > _BATCH_BYTES:
                break
            batch.append(line)
            size += len(line)
        self._sent, self._next = len(batch), float("inf")
        self._worker.ask(b"".join(batch), deadline_s=_DEADLINE_S)

    def _take(self, answer: Answer, now: float) -> None:
        sent, self._sent = self._sent, 0
        if not answer.complete:
            self._failed(answer, now)
            return
        del self._pending[:sent]
        if self.failures:
            log.info("history written again", after=self.failures)
        self.failures = 0
        if self._pending:
            self._next = now
        elif self._spooled:
            self._put_aside()

    def _failed(self, answer: Answer, now: float) -> None:
        self._hung = answer.hung
        if not self.failures:
            log.error("history not written", why=answer.error, evidence=answer.evidence or None)
            self._put_aside()
        self.failures += 1
        first, most = _RETRY_S
        self._next = now + min(most, first * 2 ** min(self.failures - 1, 10))

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        def serve(lines: Any) -> Iterator[Any]:
            store.append(self._folder, self.node, lines, max_bytes=self._max_bytes)
            yield from ()

        return serve


_FIELDS = ("node", "boot_id", "gpu", "gpu_uuid", "serial", "code", "detail")
