"""What is read for the page only: topology, queue, accounting, histories. In a thread of its own.

It is read while somebody looks at the page, and at most as often as ``EVERY_S`` says. A source that cannot
be read names its problem; the others are shown.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

from holdfast.adapters.command import complete
from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import CommandError, HoldfastError
from holdfast.history.lemon import WINDOW_S
from holdfast.own_program import own_program
from holdfast.slurm.accounting import Failures, Restarts
from holdfast.slurm.client import QueuedJob
from holdfast.slurm.topology import Group

log = LimitedLog(Log("bridge"))

WATCHED_S = 60.0
"""The sources are read for this long after the last request."""
EVERY_S: Mapping[str, float] = {"jobs": 10.0, "topology": 300.0, "lemons": 120.0}
MOST_JOBS = 100
MOST_LEMONS = 50
LEMON_FAILURES = 2
_HISTORY_S = 20.0


class PageSlurm(Protocol):
    """The calls to Slurm for the page (implemented by ``holdfast.slurm.cli.SlurmCli``)."""

    def queue(self) -> list[QueuedJob]: ...
    def topology(self) -> list[Group]: ...
    def restarts(self, jobs: Sequence[str]) -> Mapping[str, Restarts]: ...
    def failures(self, since: datetime) -> Mapping[str, Failures]: ...


class Sources:
    """Thread-safe. ``version`` grows with each change of a result."""

    def __init__(
        self, slurm: PageSlurm, history: Callable[[], Sequence[dict[str, Any]]] | None = None
    ):
        self._slurm = slurm
        self._history = history or read_history
        self.version = 0
        self.topology: Sequence[Group] = ()
        self.jobs: dict[str, Any] = {"states": {}, "held": 0, "rows": [], "problem": "not read yet"}
        self.lemons: dict[str, Any] = {"rows": [], "source": "", "problem": "not read yet"}
        self._asked_at = 0.0
        self._lock = threading.Lock()
        self._running = False

    def asked(self) -> None:
        """Somebody looks at the page."""
        self._asked_at = time.monotonic()
        with self._lock:
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="page", daemon=True).start()

    def _run(self) -> None:
        due = dict.fromkeys(EVERY_S, 0.0)
        while True:
            for name, read in (
                ("topology", self.read_topology),
                ("jobs", self.read_jobs),
                ("lemons", self.read_lemons),
            ):
                if time.monotonic() >= due[name]:
                    self._try(name, read)
                    due[name] = time.monotonic() + EVERY_S[name]
            with self._lock:
                if time.monotonic() - self._asked_at > WATCHED_S:
                    self._running = False
                    return
            time.sleep(1.0)

    def _try(self, name: str, read: Callable[[], None]) -> None:
        try:
            read()
        except Exception as error:
            log.exception("status page section failed", error, section=name)

    def read_topology(self) -> None:
        try:
            found = self._slurm.topology()
        except HoldfastError:  # there is none, or it does not answer: the last one stays
            return
        if found != self.topology:
            self.topology = found
            self.version += 1

    def read_jobs(self) -> None:
        """The queue, and of jobs that were requeued how long they waited for nodes."""
        try:
            queue = self._slurm.queue()
        except HoldfastError as error:
            self._change("jobs", {**self.jobs, "problem": str(error)})
            return
        states: dict[str, int] = {}
        for job in queue:
            states[job.state.lower()] = states.get(job.state.lower(), 0) + 1
        again = sorted((job for job in queue if job.restarts), key=lambda job: -job.restarts)
        rows, problem = self._rows(again[:MOST_JOBS])
        held = sum(job.state_reason.startswith("JobHeld") for job in queue)
        found = {"states": states, "held": held, "requeued": len(again), "rows": rows}
        self._change("jobs", {**found, "problem": problem})

    def _rows(self, jobs: Sequence[QueuedJob]) -> tuple[list[dict[str, Any]], str]:
        numbers = [job.job for job in jobs if job.job.isdigit()]
        runs: Mapping[str, Restarts] = {}
        problem = ""
        if numbers:
            try:
                runs = self._slurm.restarts(numbers)
            except HoldfastError as error:
                problem = f"accounting: {error}"
        rows = []
        for job in jobs:
            known = runs.get(job.job)
            waiting = known is not None and job.state.upper().startswith("PENDING")
            rows.append(
                {
                    **asdict(job),
                    "waited_s": round(known.waited_s) if known else None,
                    "waiting_since": known.ended_at if known and waiting else None,
                    "code": known.code if known else "",
                }
            )
        return rows, problem

    def read_lemons(self) -> None:
        """From the nodes' histories; where they are not shared with the bridge, from accounting."""
        try:
            rows = [row for row in self._history() if row.get("rating") in ("lemon", "watch")]
            found = [
                {
                    "name": str(row["name"]),
                    "rating": row["rating"],
                    "score": float(row["score"]),
                    "text": str(row.get("rating_description") or row.get("counted") or ""),
                }
                for row in rows
            ]
            self._change(
                "lemons", {"rows": found[:MOST_LEMONS], "source": "history", "problem": ""}
            )
            return
        except (CommandError, LookupError, ValueError, TypeError) as error:
            why = str(error)
        try:
            past = self._slurm.failures(datetime.now(timezone.utc) - timedelta(seconds=WINDOW_S))
        except HoldfastError as error:
            self._change("lemons", {**self.lemons, "problem": f"{why}; accounting: {error}"})
            return
        often = sorted(
            ((name, row) for name, row in past.items() if row.count >= LEMON_FAILURES),
            key=lambda pair: (-pair[1].count, -pair[1].at),
        )
        found = [
            {
                "name": name,
                "rating": "watch",
                "count": row.count,
                "text": row.reason,
                "at": row.at,
            }
            for name, row in often[:MOST_LEMONS]
        ]
        self._change("lemons", {"rows": found, "source": "accounting", "problem": ""})

    def _change(self, name: str, value: dict[str, Any]) -> None:
        if value != getattr(self, name):
            setattr(self, name, value)
            self.version += 1


def read_history() -> Sequence[dict[str, Any]]:
    """The rows of ``holdfast history --json``, read in a process that may take its time.

    Raises ``CommandError``, or ValueError where there is no history.
    """
    argv = own_program("holdfast", "history", "--json")
    done = complete(argv, timeout_s=_HISTORY_S)
    if not done.out:
        raise ValueError(" ".join(done.err.split())[:200] or "no output")
    rows: list[dict[str, Any]] = json.loads(done.out)
    if not rows:
        raise ValueError("no history is shared with the bridge (paths.history)")
    return rows
