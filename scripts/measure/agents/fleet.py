"""The part of many agents that talks to Slurm, in one process: each node has its own ``DrainController``, which
decides when a step is due, and the step itself with its real commands.

Two things are not as on a node: a step runs in a thread instead of a child process, and the records of all
nodes are in one memory file system.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from holdfast.config.schema import ClusterConfig, PathsConfig, SlurmConfig
from holdfast.errors import CommandError
from holdfast.findings import Finding, Verdict
from holdfast.policy.budget import Count
from holdfast.policy.node_inputs import DrainInputs
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import Action, Mode, Severity, SlurmName
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.agent.drain.slurm_update import Step
from slurm_hooks.agent.node_death import step as node_death
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker

AT_ONCE = 16
"""Commands at once in one process."""
_TICK_S = 0.02
_JITTER = 0.1
"""As in ``slurm_hooks.agent.loop``."""
_BOOT = "a-boot"
_CHECK = "gpu_xid"
_MODES = {_CHECK: Mode.DRAIN}

Serve = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process does. Times are monotonic.

    ``names``  its nodes. Each gets a fatal fault within ``burst_s`` from ``begin``, which stays.
    ``until``  when it ends. ``counted``: False for agents that do not know how many nodes are out.
    """

    names: tuple[SlurmName, ...]
    bin: str
    folder: str
    begin: float
    burst_s: float
    until: float
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of one node: the action that its agent last had, and the time at which it got it.

    ``failed``  how many steps failed. ``problem``: of the last one, if no step has succeeded since.
    """

    name: SlurmName
    fault_at: float
    settled_at: float
    action: str
    failed: int
    problem: str


def run(share: Share) -> list[Seen]:
    """All agents of the share, until its end."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        count = _count(share)
        members = [_Member(name, share, threads, count) for name in share.names]
        stop = stop_file(share.folder)
        while (now := time.monotonic()) < share.until and not stop.exists():
            for member in members:
                member.turn(now)
            time.sleep(_TICK_S)
        for member in members:
            member.close()
    return [member.seen for member in members]


def stop_file(folder: str) -> Path:
    """Ends all agents before their time."""
    return Path(folder) / "stop"


def _settings(share: Share, name: SlurmName) -> Settings:
    folder = Path(share.folder) / name
    return Settings(
        path=folder / "holdfast.yaml",
        cluster=ClusterConfig(
            slurm=SlurmConfig(bin=share.bin),
            paths=PathsConfig(run=folder / "run", state=folder / "state"),
        ),
    )


def _count(share: Share) -> Count | None:
    """What each agent knows from its search for neighbours, which reads the node table every few hours. Here
    one search is for all agents of the share."""
    name = share.names[0]
    return node_death.Step(name, _settings(share, name), b"", act=False).table().count


class _Member:
    """One node's agent. Its first step, at its start, is before the fault."""

    def __init__(
        self, name: SlurmName, share: Share, threads: ThreadPoolExecutor, count: Count | None
    ) -> None:
        settings = _settings(share, name)
        self._count = count if share.counted else None
        self._interval_s = settings.agent.interval_s
        self._controller = DrainController(name, _BOOT, settings)
        slurm = settings.cluster.slurm
        step = Step(
            SlurmMaintenance(slurm.timeout_s, slurm.bin),
            name,
            _BOOT,
            settings,
            Records(settings.cluster.paths),
        )
        self._worker = _Thread(threads, lambda request: _step(step, request))
        audit = self._controller._audit
        self._controller._worker = cast("Worker", self._worker)
        audit._worker = cast("Worker", _Thread(threads, audit._open()))
        self._passes = 0
        self._faulty = False
        self._next_pass = time.monotonic() + random.uniform(0, self._interval_s)
        fault_at = share.begin + random.uniform(0, share.burst_s)
        self.seen = Seen(
            name=name, fault_at=fault_at, settled_at=0.0, action="", failed=0, problem=""
        )

    def turn(self, now: float) -> None:
        if not self._faulty and now >= self.seen.fault_at:
            self._faulty = True  # a line of the kernel log: it waits for no pass
            self._controller.consider(self._inputs(), now)
        elif now >= self._next_pass:
            self._passes += 1
            self._next_pass = now + self._interval_s * random.uniform(1 - _JITTER, 1)
            self._controller.consider(self._inputs(), now)
        if self._worker.done or (not self._worker.busy and now >= self._controller.next_at):
            self._controller.turn(now)
            self._look(now)

    def close(self) -> None:
        self._controller.close()

    def _look(self, now: float) -> None:
        status = self._controller.slurm_status
        if self._faulty and status.action != self.seen.action and not status.problem:
            self.seen = replace(self.seen, action=status.action, settled_at=now)
        failed = self.seen.failed + bool(self._worker.take_failure())
        self.seen = replace(self.seen, failed=failed, problem=status.problem)

    def _inputs(self) -> DrainInputs:
        found = (_fault(self.seen.name),) if self._faulty else ()
        return DrainInputs(
            verdict=Verdict(findings=found),
            modes=_MODES,
            passes=self._passes,
            count=self._count,
        )


def _fault(name: SlurmName) -> Finding:
    """The details differ from node to node, and so do the reasons in Slurm."""
    return Finding(
        code="XID79",
        severity=Severity.FATAL,
        subject=f"GPU-{name}",
        detail=f"GPU 3 of {name} fell off the bus",
        action=Action.REBOOT,
        gpu=3,
        check=_CHECK,
    )


def _step(step: Step, request: Sequence[Any]) -> Iterator[Any]:
    *rest, step.known, step.looked, step.domain, reload = request
    yield step.run(*rest, reload=reload)


class _Thread:
    """A ``Worker`` whose request is served by a thread of this process."""

    def __init__(self, threads: ThreadPoolExecutor, serve: Serve) -> None:
        self._threads, self._serve = threads, serve
        self._running: Future[tuple[Any, ...]] | None = None
        self._failure = ""
        self.fd, self.deadline = -1, None

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def done(self) -> bool:
        """There is an answer to take."""
        return self._running is not None and self._running.done()

    def ask(self, request: object, *, deadline_s: float) -> None:  # noqa: ARG002 - each command has its own
        self._running = self._threads.submit(lambda: tuple(self._serve(request)))

    def take(self) -> Answer | None:
        if self._running is None or not self._running.done():
            return None
        running, self._running = self._running, None
        try:
            return Answer(items=running.result())
        except CommandError as error:
            self._failure = str(error)
            return Answer(error=self._failure)

    def take_failure(self) -> str:
        """Why the last step failed, once; empty if it did not."""
        failure, self._failure = self._failure, ""
        return failure

    def reap(self, now: float) -> None:
        """There is no child."""

    def close(self) -> None:
        """The thread ends by itself."""
