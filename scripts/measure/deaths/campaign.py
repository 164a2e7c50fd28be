"""Runs all deaths in one box: those that disturb no other at once, those of nodes in two lanes, the others
one after the other.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from demonstration.observe import NotSeenError, until
from testbed.box import Box
from testbed.errors import SandboxError

from measure.deaths import acts
from measure.deaths.death import Death, Where
from measure.deaths.job import FOLDER, Queue, RunningJob, is_expedited, submit, times
from measure.deaths.verdict import Seen, problems

Say = Callable[[str], None]

_AT_ONCE = 10
"""Jobs of deaths that disturb no other. They have worker-0 and worker-1 with 16 processors each."""
_LANES = ("2", "3")
"""A lane's job has its victim, worker-2 or worker-3, for itself. The heavier weight of these two keeps
the other jobs away, and those that are requeued."""
_SETTLES_S = 2.5
"""How long a job must stay in a state from which an agent could still requeue it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One death. ``problems``: what was not right; ``seen`` None: it was not caused."""

    death: Death
    problems: tuple[str, ...]
    seen: Seen | None = None
    took_s: float = 0.0
    log: str = ""


_USERS = ("alice", "bob")
"""An agent takes about one message a second of each user (``slurm_hooks.agent.jobs.sockets``)."""
_SHARED = "shared"


def run(
    box: Box, deaths: Sequence[Death], say: Say, keep: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """All deaths, in the order of ``deaths``. ``keep`` gets each result as soon as it is there."""
    users, queue, results = itertools.cycle(_USERS), Queue(box), dict[str, Result]()

    def one(death: Death, options: tuple[str, ...]) -> None:
        results[death.name] = found = _one(box, queue, death, options, next(users))
        keep(found)
        verdict = "; ".join(found.problems) or "right"
        say(
            f"deaths: {len(results)} of {len(deaths)}, {death.name}, {found.took_s:.0f} s: {verdict}"
        )

    def lane(name: str, own: Sequence[Death]) -> None:
        other = next(f"worker-{each}" for each in _LANES if each != name)
        for death in own:
            if death.where is Where.ALONE:
                _features(box)  # slurmctld forgets them when it restarts
            feature = f"--prefer={'only' if death.on_first else 'pair'}{name}"
            # A job that excludes one of the nodes that it prefers would never start (seen on 26.05), nor one
            # that prefers a feature that slurmctld has forgotten in a restart (seen on 24.11).
            prefers = death.act is not None and death.where is Where.NODE
            preferred = (feature,) if prefers else ()
            asked = tuple(option.replace("OTHER", other) for option in death.options)
            one(death, (*asked, *preferred, "--gres=gpu:4"))

    shared = sorted(_of(deaths, Where.SHARED), key=lambda death: -death.within_s)
    of_nodes = _of(deaths, Where.NODE)
    with _prepared(box), queue.running():
        with ThreadPoolExecutor(_AT_ONCE + len(_LANES)) as pool:
            waiting: list[Future[None]] = [
                pool.submit(lane, name, of_nodes[index :: len(_LANES)])
                for index, name in enumerate(_LANES)
            ]
            waiting += [
                pool.submit(one, death, (*death.options, f"--partition={_SHARED}"))
                for death in shared
            ]
        for future in waiting:
            future.result()
        lane(_LANES[0], _of(deaths, Where.ALONE))
    return [results[death.name] for death in deaths]


def _of(deaths: Sequence[Death], where: Where) -> list[Death]:
    return [death for death in deaths if death.where is where]


@contextmanager
def _prepared(box: Box) -> Iterator[None]:
    """With a partition for jobs that no fault of a lane may reach, and the lanes' features."""
    words = [f"PartitionName={_SHARED}", "Nodes=worker-[0-1]", "PriorityTier=10", "State=UP"]
    box.run(["scontrol", "create", *words], check=False)  # it may be there from a killed run
    _features(box)
    try:
        yield
    finally:
        box.run(["scontrol", "delete", f"PartitionName={_SHARED}"], check=False)
        for node in box.nodes:
            _update(box, node.name, "", weight=1)


def _features(box: Box) -> None:
    """Features by which a lane's job gets its nodes at first, and any others later."""
    for name, near in zip(_LANES, ("worker-0", "worker-1"), strict=True):
        _update(box, f"worker-{name}", f"pair{name},only{name}", weight=100)
        _update(box, near, f"pair{name}", weight=1)


def _update(box: Box, node: str, features: str, *, weight: int) -> None:
    words = [f"availablefeatures={features}", f"activefeatures={features}", f"weight={weight}"]
    box.run(["scontrol", "update", f"nodename={node}", *words])


def _one(box: Box, queue: Queue, death: Death, options: tuple[str, ...], user: str) -> Result:
    began = time.monotonic()
    release = tuple(map(int, box.shape.slurm.split(".")))
    if is_expedited(death, release):
        options = (*options, "--requeue=expedite")
    try:
        job = submit(box, queue, death, options, user)
    except SandboxError as error:
        return Result(death=death, problems=(str(error),))
    wrong: list[str] = []
    try:
        if death.act is not None:
            job.wait_up()
            death.act(job)
        _wait_for_the_end(job)
    except (NotSeenError, SandboxError, OSError) as error:
        wrong.append(str(error))
    seen = _seen(job)
    wrong += problems(seen, death.expect)
    log = job.log()
    try:
        acts.clean_up(job)
    except (NotSeenError, SandboxError) as error:
        wrong.append(f"afterwards: {error}")
    took_s = time.monotonic() - began
    return Result(death=death, problems=tuple(wrong), seen=seen, took_s=took_s, log=log)


def _wait_for_the_end(job: RunningJob) -> None:
    """Until the job is in the expected state and stays in it, and its journal has all attempts."""
    expect = job.death.expect

    def reached() -> bool:
        return job.state == expect.state and len(job.runs()) >= len(expect.ends)

    end = time.monotonic() + job.death.within_s
    while True:
        job.wait(reached, f"state {expect.state}", max(1.0, end - time.monotonic()))
        time.sleep(_SETTLES_S if expect.state != "COMPLETED" else 0.0)
        if reached():
            return


def _seen(job: RunningJob) -> Seen:
    events, runs = job.events(), job.runs()
    return Seen(
        events=events,
        state=job.state,
        victim=job.victim if runs else "",
        last_nodes=runs[-1] if runs else (),
        excluded=job.excluded,
        asked=job.asked,
        first_nodes=runs[0] if runs else (),
        restarting_s=tuple(_until_started(job)),
        here_s=tuple(_until_next_step(events)),
    )


def _until_started(job: RunningJob) -> list[float]:
    """From each decision to requeue until the batch script runs again."""
    decided = [
        float(event["t"])
        for event in job.events()
        if event["event"] == "decision" and event["action"] == "requeue"
    ]
    after = [[at for at in job.starts() if at > begin] for begin in decided]
    return [found[0] - begin for begin, found in zip(decided, after, strict=True) if found]


def _until_next_step(events: Sequence[dict[str, object]]) -> list[float]:
    """From each decision to restart without a wait until the next attempt's step."""
    took = []
    for index, event in enumerate(events):
        if event["event"] == "decision" and event["action"] == "restart":
            later = [each for each in events[index:] if each["event"] == "step_start"]
            took += [float(str(later[0]["t"])) - float(str(event["t"]))] if later else []
    return took


def plain_requeue(box: Box) -> Callable[[], float]:
    """Requeues a job that does not use Holdfast. Returns a function that waits until it runs again, and
    returns the seconds."""
    started = box.path(f"{FOLDER}/plain")
    argv = ["sbatch", "--parsable", "--requeue", "--nodelist=worker-0", "--chdir=/tmp"]
    argv += ["--output=/dev/null"]
    script = f"#!/bin/bash\necho $EPOCHREALTIME >>{FOLDER}/plain\nexec sleep 900\n"
    job_id = box.run(argv, user="alice", stdin=script).stdout.split(";")[0].strip()
    until(lambda: times(started) or None, "the plain job's start", 60, 0.3)
    asked = time.time()
    box.run(["scontrol", "requeue", job_id])

    def again() -> float | None:
        return next((at for at in times(started) if at > asked), None)

    def wait() -> float:
        took = until(again, "the plain job's second start", 200, 1.0) - asked
        box.run(["scancel", job_id])
        return took

    return wait
