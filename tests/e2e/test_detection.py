"""Every kind of fault on real nodes: the agent says what it is, drains for it where it should, and
takes it back once it is mended. And a check that is switched off says nothing.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from testbed.box import Box

from slurm_hooks.checks import CATALOGUE
from tests.e2e import cluster, detection_run
from tests.e2e.detection_run import Outcome, Verdicts
from tests.e2e.detection_switches import OF_THE_MACHINE, SWITCHED, TOGETHER
from tests.e2e.detection_table import CASES, Case, How

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
INTERVAL_S = 1.0
"""A box's agents look each second."""
OFF = "/etc/holdfast/off"


@pytest.fixture(scope="module")
def whole_box(box: Box) -> Iterator[Box]:
    """The box, with room in the budget for all its nodes and no patience with the fabric manager."""
    before = detection_run.configure(box, _impatient)
    yield box
    detection_run.configure(box, lambda _text: before)
    cluster.repair(box)


def _impatient(text: str) -> str:
    text = re.sub(r"max_nodes: \d+", "max_nodes: 4", text)
    for name in OF_THE_MACHINE:
        text = text.replace(f"\n  {name}: {{mode: drain}}", f"\n  {name}: {{mode: off}}")
    return text.replace(
        "gpu_fabric: {mode: drain}", "gpu_fabric: {mode: drain, limits: {grace_s: 1}}"
    )


@pytest.fixture(scope="module")
def outcomes(whole_box: Box) -> dict[str, Outcome]:
    """All cases, four nodes at once; those that must be watched for long go first."""
    cases = sorted(CASES, key=lambda case: -case.watched_s)
    found = detection_run.run(whole_box, cases, [node.name for node in whole_box.nodes])
    sys.stdout.write("\n".join(map(str, found.values())) + "\n")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_it_is_seen_told_and_taken_back(
    outcomes: dict[str, Outcome], whole_box: Box, case: Case, request: pytest.FixtureRequest
) -> None:
    if outcomes[case.words].problem and getattr(request.node, "execution_count", 1) > 1:
        # All cases ran at once before the first of these tests: a retry has to run this one again.
        nodes = [node.name for node in whole_box.nodes]
        outcomes.update(detection_run.run(whole_box, [case], nodes))
    outcome = outcomes[case.words]
    assert outcome.problem == ""
    found = outcome.finding
    said = (found["severity"], found["action"], found["cause"], found["check"])
    assert said == (case.severity, case.action, case.cause, case.check)
    if case.drains:
        # What comes with it may ask for more: then the reason says so.
        told = tuple(f"holdfast:{code}: " for code in (case.code, *case.also))
        assert outcome.reason.startswith(told)
    looks_s = 0.0 if case.how is How.EVENT else (case.passes + 1) * INTERVAL_S
    # How fast it is, is measured by scripts/bench; here it must not be lost on a busy machine either.
    assert outcome.detected_s <= case.watched_s + looks_s + 0.5 + detection_run.MARGIN_S


# --- a wrong configuration: before the faults that stay until the end of this file ---------------


@contextlib.contextmanager
def _configured(box: Box, node: str, text: str) -> Iterator[Callable[[str], list[str]]]:
    """With another file; yields how to ask for the lines with a word in what the node's agent has logged since."""
    log, path = box.path(f"/var/log/holdfast/agent.{node}.log"), box.path(detection_run.CONFIG)
    cluster.wait_for(lambda: cluster.all_in_service(box), "every node in service", 60)
    before, size = path.read_text(), log.stat().st_size
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
    try:
        yield lambda word: [line for line in log.read_text()[size:].splitlines() if word in line]
    finally:
        detection_run.configure(box, lambda _text: before)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("checks: {gpu_xidd: {mode: drain}}", "did you mean 'gpu_xid'?"),
        ("checks: {gpu_xid: {mode: drian}}", "did you mean 'drain'?"),
        ("checks: {mounts: {limits: {min_free_share: 7}}}", "min_free_share"),
        ("agent: {interval_s: 0}", "agent.interval_s: must be between"),
        ("checks: {gpu_xid: {mode", "not valid YAML"),
    ],
)
def test_a_wrong_configuration_is_told_once_and_changes_nothing(
    whole_box: Box, wrong: str, told: str
) -> None:
    node = whole_box.nodes[0].name
    verdicts = Verdicts(whole_box, node)
    agent = verdicts.read()["agent_pid"]
    with _configured(whole_box, node, wrong + "\n") as lines:
        cluster.wait_for(lambda: bool(lines(told)), f"{told!r} in the agent's log", 15)
        cluster.stays(lambda: cluster.in_service(whole_box, node), "in service", 2 * INTERVAL_S)
        (line,) = lines(told)
        assert re.search(rf"{re.escape(detection_run.CONFIG)}:[12]: ", line)
        said = verdicts.read()
        assert said["agent_pid"] == agent, "the agent that has the good one goes on"
        assert said["at"] > time.time() - 5


def test_killed_on_a_broken_configuration_the_agent_goes_on_with_the_one_before(
    whole_box: Box,
) -> None:
    node, told = whole_box.nodes[1].name, "given twice"
    verdicts = Verdicts(whole_box, node)
    agent = verdicts.read()["agent_pid"]
    twice = whole_box.path(detection_run.CONFIG).read_text() + "node: {}\n"
    try:
        with _configured(whole_box, node, twice) as lines:
            cluster.wait_for(lambda: len(lines(told)) == 1, "the problem in the agent's log", 15)
            whole_box.fault(node, "agent-killed")
            cluster.wait_for(
                lambda: verdicts.read().get("agent_pid") not in (agent, None), "another agent", 60
            )
            _, why = lines(told)
            assert "using the last accepted one" in why, "why it goes on with the one before"
            assert re.match(r"20\d\d-\S+Z error agent: ", why)
            whole_box.fault(node, "xid", "79", "--gpu", "3")
            cluster.wait_for(lambda: cluster.drained(whole_box, node), f"{node} drained", 30)
            assert cluster.reason(whole_box, node).startswith("holdfast:XID79: ")
            whole_box.heal(node)
            cluster.wait_for(lambda: cluster.in_service(whole_box, node), f"{node} back", 60)
            assert len(lines(told)) == 3, "as after the reboot, which is what mends this fault"
    finally:
        whole_box.heal(node)


# --- switched off ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken_box(whole_box: Box, outcomes: dict[str, Outcome]) -> Iterator[Box]:
    """The box with faults on every node that every check of ``SWITCHED`` finds."""
    for node, faults in TOGETHER.items():
        for words in faults:
            kind, *args = words.split()
            whole_box.fault(node, kind, *args)
    whole_box.fault("worker-2", "agent-killed")  # a VBIOS is read once in an agent's life
    yield whole_box
    for node in TOGETHER:
        whole_box.heal(node)
        whole_box.reboot(node)


def speaking(box: Box) -> AbstractSet[str]:
    """The checks that have something against any node."""
    found = {one["check"] for node in TOGETHER for one in Verdicts(box, node).findings()}
    return found & SWITCHED


def only(box: Box, wanted: AbstractSet[str], what: str) -> None:
    """Waits until exactly these speak, and sees that it stays so for some passes."""
    try:
        cluster.wait_for(lambda: speaking(box) == wanted, what, 60)
    except AssertionError as error:
        silent, loud = wanted - speaking(box), speaking(box) - wanted
        raise AssertionError(f"{error}: silent {sorted(silent)}, loud {sorted(loud)}") from None
    cluster.stays(lambda: speaking(box) <= wanted, what, 3 * INTERVAL_S)


def halves() -> tuple[set[str], set[str]]:
    """Two halves of the checks, so that one is seen to speak while the other is switched off."""
    names = [name for name in CATALOGUE if name in SWITCHED]
    return set(names[::2]), set(names[1::2])


def test_all_of_them_speak(broken_box: Box) -> None:
    only(broken_box, set(SWITCHED), "every check has something to say")


@pytest.mark.parametrize("half", [0, 1])
def test_mode_off_is_silence(broken_box: Box, half: int) -> None:
    off = halves()[half]

    def switch(text: str) -> str:
        for name in off:
            text = re.sub(rf"(\n  {name}: {{mode: )drain", r"\1off", text)
        return text

    before = detection_run.configure(broken_box, switch)
    try:
        only(broken_box, SWITCHED - off, f"only those speak that are not off: {sorted(off)}")
    finally:
        detection_run.configure(broken_box, lambda _text: before)


@pytest.mark.parametrize("half", [0, 1])
def test_the_kill_switch_is_silence(broken_box: Box, half: int) -> None:
    """A file for each check, which works without any configuration that can be read."""
    off = halves()[half]
    only(broken_box, set(SWITCHED), "every check has something to say")
    folder = broken_box.path(OFF)
    folder.mkdir(exist_ok=True)
    try:
        for name in off:
            (folder / name).touch()
        only(broken_box, SWITCHED - off, f"only those speak that are not off: {sorted(off)}")
    finally:
        _empty(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
