"""Job reports, from the agent's loop: takes the hooks' notes, Xids and passes, and publishes
reports.

Everything that may block (other processes' environments, Slurm) runs in contained workers; the
decisions are in ``runs``, ``attribution``, ``leftovers`` and ``report``, which are pure.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from slurm_hooks.agent.component import Note
from slurm_hooks.agent.job_report import files, leftovers
from slurm_hooks.agent.job_report.ended_runs import EndedRuns, Pass
from slurm_hooks.agent.job_report.leftover_store import LeftoverStore
from slurm_hooks.agent.job_report.report import Remains
from slurm_hooks.agent.job_report.reporter import Reporter
from slurm_hooks.agent.job_runs import hook_notes, run_matching, runs
from slurm_hooks.agent.job_runs.processes import End, Fate, JobProcess, Scan
from slurm_hooks.agent.job_runs.run_store import RunStore
from slurm_hooks.agent.job_runs.runs import JobRun, Key, Runs
from slurm_hooks.facts import NodeFacts, XidEvent
from slurm_hooks.facts.leftovers import LeftoverFacts
from slurm_hooks.node import machine
from slurm_hooks.node.step_sockets import KilledStep
from slurm_hooks.probes import inotify
from slurm_hooks.settings.sections import LeftoverPolicy
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.bounded_write import BoundedWrite
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_CLOSE_WRITE = 0x8
"""inotify(7): a writer closed the file, so the note is complete."""
_LOOK_S = 30.0
"""The folder is read at least this often, because an inotify event may be lost."""
_SCAN_DEADLINE_S = 5.0
_MOST_NAMED = 64
"""Of the processes that are killed, in the log."""
_HURRY_S = 1.0
"""The shortest time between two passes that a job's start or end requires."""
_PATIENCE_S = 15.0
"""How long an ended run waits for GPUs that do not answer before it is reported without them."""
_MAX_PENDING = 1000
_KILLED = 45
_PID = re.compile(r"\bpid='?(\d+)")


@dataclass(slots=True)
class _Asked:
    """The request that the worker for processes handles."""

    events: tuple[XidEvent, ...] = ()
    key: Key | None = None
    ends: bool = False


class JobMonitor:
    """The runs of jobs on one node. ``leftovers`` lists the processes that ended jobs left here."""

    def __init__(
        self, node: str, boot_id: str, config: Settings, history: Note | None = None
    ) -> None:
        """``history``: records an event in the node's history; None: no history."""
        self._boot_id, self._config = boot_id, config
        paths = config.cluster.paths
        self._run_dir, self._procfs = paths.run, paths.procfs
        files.prepare(self._run_dir, allow_skip=config.node.allow_skip)
        stuck = paths.run / "stuck"
        self._watch = inotify.Inotify()
        self._watch.add(hook_notes.folder(self._run_dir), _CLOSE_WRITE)
        self._store = RunStore(paths.state, boot_id, BoundedWrite(stuck / "jobs.json"))
        self._runs, self._lost = self._store.load()
        if self._lost:
            log.error(
                "list of running jobs lost: their counters will not be evaluated", why=self._lost
            )
        self._begin_s = machine.uptime_s(self._procfs)
        token = stuck / "job_processes.json"
        self._worker = Worker("job_processes", self._open, token=token, keep=False)
        self._asked = _Asked()
        self._reporter = Reporter(node, boot_id, config, history)
        self._events: list[XidEvent] = []
        self._ended = EndedRuns(config.node.leftover_grace_s)
        self._seen = Pass()
        self._leftovers = LeftoverStore(
            self._procfs, paths.state, boot_id, BoundedWrite(stuck / "leftovers.json")
        )
        self._next_look = self._last_wanted = 0.0
        for run in (run for run in self._runs.runs.values() if run.xids):
            self._reporter.publish(run)  # the previous agent may have exited before it did

    # --- for the loop ------------------------------------------------------------------------------

    def fds(self) -> Iterator[tuple[int, int]]:
        """Readable when a hook left a note."""
        yield int(self._watch.fd), select.POLLIN

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker in (self._worker, self._reporter.worker) if worker.busy]

    @property
    def next_at(self) -> float:
        """Monotonic time of the next action without an event."""
        times = [self._next_look, self._reporter.next_at]
        if not self._worker.busy:
            times.append(self._ended.next_at)
        return min(times)

    @property
    def runs(self) -> Runs:
        """The runs on this node, as the prologs reported them. A new object whenever they change."""
        return self._runs

    @property
    def leftovers(self) -> tuple[LeftoverFacts, ...]:
        return self._leftovers.facts

    def wants_pass(self, now: float) -> bool:
        """True if a run waits for a pass, for its baseline or after its end. At most once a second."""
        waits = self._ended.wait_for_pass or runs.waiting(self._runs, self._seen.began_s)
        if not waits or now - self._last_wanted < _HURRY_S:
            return False
        self._last_wanted = now
        return True

    def add_xids(self, events: Sequence[XidEvent]) -> None:
        """New Xids, with the index of their GPU if it is known."""
        if self._runs.runs:
            self._events = [*self._events, *events][-_MAX_PENDING:]

    def add_killed(self, killed: KilledStep) -> None:
        """A slurmstepd of a job was killed."""
        at_s = machine.uptime_s(self._procfs)
        run = runs.lost_step(self._runs, killed.job, killed.step, at_s)
        if run is not None:
            self._runs = self._runs.with_run(run)
            self._store.save(self._runs)
            self._reporter.publish(run)

    def add_pass(self, facts: NodeFacts, began_s: float) -> None:
        """A whole pass over the probes, which began ``began_s`` seconds after boot."""
        before = self._runs
        answered = facts.nvml is not None or not self._config.node.expected_gpus
        if answered:
            self._seen = Pass(facts, began_s)
        self._runs = runs.saw(before, facts, began_s, time.time())
        self._leftovers.update(facts)
        for run in runs.due(self._runs, began_s if answered else began_s - _PATIENCE_S):
            self._ended.add(run.key, time.monotonic())
        for key, run in self._runs.runs.items():
            if run.ended_s is None and before.runs.get(key) != run:
                self._reporter.publish(run)
        self._store.save(self._runs)

    def turn(self, now: float) -> bool:
        """Read new notes, take an answer, start what is due. Never blocks."""
        if self._watch.read() or now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._read_notes()
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        self._worker.reap(now)
        if not self._worker.busy:
            self._start(now)
        self._reporter.turn(now)
        return False

    def close(self) -> None:
        self._store.save(self._runs)
        self._worker.close()
        self._reporter.close()
        self._watch.close()

    # --- notes -------------------------------------------------------------------------------------

    def _read_notes(self) -> None:
        over: list[Path] = []
        for path, note in hook_notes.read_all(hook_notes.folder(self._run_dir)):
            if isinstance(note, str):
                log.error("invalid job note ignored", why=note)
                over.append(path)
            elif note.boot_id != self._boot_id:
                over.append(path)
            elif note.kind == hook_notes.END:
                run = runs.ending_run(self._runs, note)
                self._runs = runs.ended(self._runs, note)
                over.append(path)
                if run is not None:
                    over.append(hook_notes.start_of(self._run_dir, *run.key))
            else:
                self._begin(note)
                if (note.job, note.restarts) not in self._runs.runs:
                    over.append(path)  # dropped as one too many: it would displace others each time
        self._store.save(self._runs)  # before the notes are removed, so that nothing is lost
        files.remove(over)

    def _begin(self, note: hook_notes.HookNote) -> None:
        known = (note.job, note.restarts) in self._runs.runs
        lost = self._lost if note.at_s < self._begin_s else ""
        self._runs = runs.started(self._runs, note, lost and "its baseline was lost")
        run = self._runs.runs.get((note.job, note.restarts))
        seen = self._seen
        if run is None:
            return
        if not known and not lost and seen.facts is not None and seen.began_s <= note.at_s:
            others = self._runs.others(run)
            run = runs.take_baseline(run, others, seen.facts, seen.began_s, time.time())
            self._runs = self._runs.with_run(run)

    # --- processes ---------------------------------------------------------------------------------

    def _open(self) -> Callable[[Any], Any]:
        from slurm_hooks.agent.job_runs import processes  # noqa: PLC0415 - only in the worker

        return processes.open_processes(self._procfs)

    def _start(self, now: float) -> None:
        """Xids first: the process that caused one may exit at any moment."""
        if self._events:
            events, self._events = tuple(self._events), []
            if all(event.xid == _KILLED for event in events):
                self._attribute(events, ())  # may be thousands, and their processes no longer exist
                return
            self._ask(Scan(), _Asked(events=events), _SCAN_DEADLINE_S)
            return
        key = self._ended.due(now)
        if key is not None:
            self._ask(Scan(), _Asked(key=key), _SCAN_DEADLINE_S)

    def _ask(self, request: object, asked: _Asked, deadline_s: float) -> None:
        self._asked = asked
        self._worker.ask(request, deadline_s=deadline_s)

    def _take(self, answer: Answer, now: float) -> None:
        asked, self._asked = self._asked, _Asked()
        if not answer.complete:
            log.error("processes of jobs not read", why=answer.error, evidence=answer.evidence)
        if asked.events:
            self._attribute(asked.events, [x for x in answer.items if isinstance(x, JobProcess)])
        run = self._runs.runs.get(asked.key) if asked.key else None
        if run is None:
            self._ended.forget(asked.key)
        elif asked.ends:
            fates = [item for item in answer.items if isinstance(item, Fate)]
            remains = self._ended.remains(run.key)
            left = leftovers.with_fates(remains.left, fates)
            self._finish(run, replace(remains, left=left))
        else:
            table = [item for item in answer.items if isinstance(item, JobProcess)]
            self._looked(run, table, answer.error, now)

    def _attribute(self, events: Sequence[XidEvent], table: Sequence[JobProcess]) -> None:
        hit: dict[Key, None] = {}
        for event in events:
            named = _PID.search(event.text)
            pid = int(named[1]) if named else None
            self._runs, keys = run_matching.attribute(self._runs, event, pid, table)
            hit |= dict.fromkeys(keys)
        for key in hit:
            run = self._runs.runs[key]
            last = run.xids[-1]
            what = {"job": run.job, "run": run.restarts, "xid": last.xid, "gpu": last.gpu}
            log.warning("Xid attributed to a job", **what, step=last.step or "-", how=last.how)
            self._reporter.publish(run)
        self._store.save(self._runs)

    def _looked(self, run: JobRun, table: Sequence[JobProcess], blind: str, now: float) -> None:
        """Handle a scan after a run's end."""
        remains = self._ended.looked(run, self._runs, table, self._seen, blind, now)
        if remains is None:
            return
        grace_s = self._config.node.leftover_grace_s
        targets = leftovers.to_end(run, remains.left, table) if self._may_end(run) else ()
        if not targets:
            self._finish(run, remains)
            return
        pids = [process.pid for process in targets[:_MOST_NAMED]]
        count = len(targets)
        log.warning("killing processes left by a job", job=run.job, processes=count, pids=pids)
        request = End(processes=targets, grace_s=grace_s)
        self._ask(request, _Asked(key=run.key, ends=True), 2 * grace_s + _SCAN_DEADLINE_S)

    def _may_end(self, run: JobRun) -> bool:
        wanted = self._config.node.leftovers is LeftoverPolicy.KILL
        return wanted and not run.skip and self._config.may_act()

    def _finish(self, run: JobRun, remains: Remains) -> None:
        self._ended.forget(run.key)
        if not run.skip:
            self._leftovers.add(run, remains.left)
        self._reporter.publish(run, remains)
        self._reporter.note_incidents(run, remains.left)
        self._runs = self._runs.without(run.key)
        self._store.save(self._runs)
