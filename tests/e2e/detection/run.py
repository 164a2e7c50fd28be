"""Injects faults into the nodes of a box, several at once, and reads the verdicts of their agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, TypeVar

from testbed.box import Box
from testbed.errors import SandboxError

from tests.e2e import cluster
from tests.e2e.detection.table import Case, Ends
from tests.e2e.verdicts import Verdicts

Findings = list[dict[str, Any]]
T = TypeVar("T")
MARGIN_S, SEEN_S, CLEARED_S = 15.0, 25.0, 60.0
"""Generous limits for a busy machine; scripts/bench measures the speed."""
SCENE_LINES = 40
"""Lines of the agent's log."""
BASELINE_S = 2.5
"""Two passes of a box's agent, which runs one each second."""
UNREPAIRED_S = 5.0
"""Longer than a healthy node needs to return to service: ``agent.wait_s`` and two clean passes."""


@dataclass(kw_only=True)
class Outcome:
    """The result of one fault. ``problem``: what did not happen; empty on success."""

    words: str
    node: str = ""
    finding: dict[str, Any] = field(default_factory=dict)
    detected_s: float = 0.0
    reason: str = ""
    cleared_s: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        found = self.finding
        summary = f"{found.get('code')} {found.get('severity')} {found.get('action')}"
        return (
            f"{self.words:<34} {self.node} {summary:<40} detected {self.detected_s:5.2f} s, "
            f"cleared {self.cleared_s:5.1f} s  {self.reason[:40]}  {self.problem}"
        )


def run(box: Box, cases: Sequence[Case], nodes: Sequence[str]) -> dict[str, Outcome]:
    """Run every case on one of the nodes, one at a time on each. Keys: the cases' words."""
    outcomes: dict[str, Outcome] = {}

    def work(node: str, batch: Sequence[Case]) -> None:
        mine = [Outcome(words=case.words, node=node) for case in batch]
        outcomes.update({outcome.words: outcome for outcome in mine})
        with _record_problem(mine, box, node):
            _try(box, node, batch, mine)

    spread(batches(cases), nodes, work)
    return outcomes


def run_unrepaired(box: Box, faults: Mapping[str, str], nodes: Sequence[str]) -> dict[str, Outcome]:
    """Run each fault (words -> code) on one of the nodes: it drains the node, a power cycle does not
    repair it, and the node returns only after the repair.
    """
    outcomes: dict[str, Outcome] = {}

    def work(node: str, words: str) -> None:
        outcome = outcomes[words] = Outcome(words=words, node=node)
        with _record_problem([outcome], box, node):
            _stays_drained(box, outcome, faults[words])

    spread(list(faults), nodes, work)
    return outcomes


def spread(jobs: Iterable[T], nodes: Sequence[str], work: Callable[[str, T], None]) -> None:
    """Run each job on one of the nodes, one at a time on each."""
    queue: Queue[T] = Queue()
    for job in jobs:
        queue.put(job)

    def turn(node: str) -> None:
        while True:
            try:
                job = queue.get_nowait()
            except Empty:
                return
            work(node, job)

    workers = [threading.Thread(target=turn, args=(node,)) for node in nodes]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


@contextmanager
def _record_problem(outcomes: Sequence[Outcome], box: Box, node: str) -> Iterator[None]:
    """Records an error as the problem of the outcomes."""
    try:
        yield
    except (AssertionError, SandboxError, OSError, ValueError, LookupError) as error:
        scene = _scene(box, node)
        for outcome in outcomes:
            outcome.problem = outcome.problem or f"{type(error).__name__}: {error}\n{scene}"
        _clean(box, node)


def _scene(box: Box, node: str) -> str:
    """The end of the agent's log and the verdict, to debug a rare failure."""
    log = box.path(f"/var/log/holdfast/agent.{node}.log").read_text().splitlines()
    return "\n".join([*log[-SCENE_LINES:], f"verdict: {Verdicts(box, node).read()}"])


def _stays_drained(box: Box, outcome: Outcome, code: str) -> None:
    node = outcome.node
    verdicts = Verdicts(box, node)
    _at_rest(verdicts)
    kind, *words = outcome.words.split()
    box.fault(node, kind, *words)
    _wait(lambda: code in verdicts.codes(), code, SEEN_S, lambda: f"{sorted(verdicts.codes())}")
    _wait(lambda: cluster.drained(box, node), f"{node} drained", SEEN_S)
    outcome.reason = cluster.reason(box, node)
    box.reboot(node)
    _wait(lambda: verdicts.read().get("at", 0.0) > 0.0, "a verdict of the new boot", SEEN_S)
    end = time.monotonic() + UNREPAIRED_S
    while time.monotonic() < end:
        record = cluster.slurm_node(box, node)
        seen = f"{record['state']} {record['reason']!r} {verdicts.codes()}"
        assert "DRAIN" in record["state"], f"returned to service unrepaired: {seen}"
        assert record["reason"].startswith("holdfast:"), seen
        time.sleep(0.3)
    assert code in verdicts.codes(), f"{code} has cleared: {sorted(verdicts.codes())}"
    begin = time.monotonic()
    box.heal(node)
    _wait(
        lambda: verdicts.read().get("findings") == [] and cluster.in_service(box, node),
        f"{node} repaired and in service",
        CLEARED_S,
        lambda: f"{sorted(verdicts.codes())}, reason {cluster.reason(box, node)!r}",
    )
    outcome.cleared_s = time.monotonic() - begin


def batches(cases: Sequence[Case]) -> list[tuple[Case, ...]]:
    """Groups of cases for one node each: those that drain nothing and last until a reboot form one
    group.
    """
    lasting = tuple(case for case in cases if case.ends is Ends.REBOOT and not case.drains)
    return [*((case,) for case in cases if case not in lasting), *((lasting,) if lasting else ())]


def _try(box: Box, node: str, batch: Sequence[Case], outcomes: Sequence[Outcome]) -> None:
    verdicts = Verdicts(box, node)
    _at_rest(verdicts)
    for case, outcome in zip(batch, outcomes, strict=True):
        _detect(box, node, case, outcome)
    begin = time.monotonic()
    _repair(box, node, batch)
    _wait(
        lambda: verdicts.read().get("findings") == [] and cluster.in_service(box, node),
        f"no finding on {node}, and it is in service",
        CLEARED_S,
        lambda: f"{sorted(verdicts.codes())}, reason {cluster.reason(box, node)!r}",
    )
    for outcome in outcomes:
        outcome.cleared_s = time.monotonic() - begin


def _at_rest(verdicts: Verdicts) -> None:
    node = verdicts.node
    _wait(lambda: verdicts.read().get("findings") == [], f"no finding on {node}", CLEARED_S)
    # The first values of a boot are the baseline of the counters, not findings.
    seen_s = verdicts.read()["at"]
    _wait(lambda: verdicts.read().get("at", 0.0) > seen_s + BASELINE_S, "a baseline", CLEARED_S)


def _detect(box: Box, node: str, case: Case, outcome: Outcome) -> None:
    verdicts = Verdicts(box, node)
    kind, *words = case.words.split()
    begin = time.monotonic()
    box.fault(node, kind, *words)
    if case.restart_agent:
        box.fault(node, "agent-killed")
    _appears(verdicts, case, outcome)
    outcome.detected_s = time.monotonic() - begin
    for code in case.also:
        _wait(lambda: code in verdicts.codes(), f"{code} as well", SEEN_S)  # noqa: B023
    if case.drains:
        _wait(lambda: cluster.drained(box, node), f"{node} drained", SEEN_S)
        # A resume before the agent has seen its own drain counts as a drain that was lost.
        _wait(lambda: bool(verdicts.read().get("drained")), "the agent knows its drain", SEEN_S)
        outcome.reason = cluster.reason(box, node)
    elif cluster.drained(box, node) and case.ends is not Ends.PERSON:
        raise AssertionError(f"{case.words} drained: {cluster.reason(box, node)}")


def _appears(verdicts: Verdicts, case: Case, outcome: Outcome) -> None:
    def reported() -> bool:
        for finding in verdicts.findings():
            if finding["code"] == case.code:
                outcome.finding = finding
                return True
        return False

    limit_s = SEEN_S + case.watched_s
    _wait(reported, f"finding {case.code}", limit_s, lambda: f"{sorted(verdicts.codes())}")


def _repair(box: Box, node: str, batch: Sequence[Case]) -> None:
    box.heal(node)
    if any(case.restart_agent for case in batch):
        box.fault(node, "agent-killed")
    if any(case.ends is Ends.REBOOT for case in batch):
        box.reboot(node)
    if any(case.ends is Ends.PERSON for case in batch):
        _acknowledge(box, node)


def _acknowledge(box: Box, node: str) -> None:
    if not cluster.drained(box, node):
        box.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=looking at it"])
    box.run(["scontrol", "update", f"nodename={node}", "state=undrain"])


def _clean(box: Box, node: str) -> None:
    """Clean up, so that a failed case does not affect the next one."""
    try:
        box.heal(node)
        if cluster.drained(box, node):
            box.run(["scontrol", "update", f"nodename={node}", "state=undrain"])
    except SandboxError:
        pass


def _wait(
    reached: Callable[[], bool],
    what: str,
    timeout_s: float,
    instead: Callable[[], str] = lambda: "",
) -> None:
    look = time.monotonic()
    end = look + timeout_s
    while not reached():
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; instead: {instead()}")
        time.sleep(max(0.05, min(3 * (now - look), 1.0)))
        look = time.monotonic()


# --- the configuration of a box -------------------------------------------------------------------
