"""Every kind of fault on real nodes: the agent reports it, drains the node where required, and clears
the finding after the repair. A check that is switched off reports nothing.
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
from tests.conftest import Boxes
from tests.e2e import agents, cluster
from tests.e2e.detection import run
from tests.e2e.detection.run import Outcome
from tests.e2e.detection.switches import OF_THE_MACHINE, SWITCHED, TOGETHER
from tests.e2e.detection.table import CASES, Case, How
from tests.e2e.verdicts import Verdicts

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(900)]
INTERVAL_S = 1.0
"""A box's agents run a pass each second."""
OFF = "/etc/holdfast/off"


@pytest.fixture(scope="module")
def whole_box(boxes: Boxes, release: str) -> Iterator[Box]:
    """The box, with a budget for all its nodes and no grace time for the fabric manager."""
    box = boxes.get(release)
    before = agents.configure(box, _without_grace)
    yield box
    agents.configure(box, lambda _text: before)
    cluster.repair(box)


def _without_grace(text: str) -> str:
    text = re.sub(r"max_nodes: \d+", "max_nodes: 4, incident_share: 1", text)
    for name in OF_THE_MACHINE:
        text = text.replace(f"\n  {name}: {{mode: drain}}", f"\n  {name}: {{mode: off}}")
    return text.replace(
        "gpu_fabric: {mode: drain}", "gpu_fabric: {mode: drain, limits: {grace_s: 1}}"
    )


@pytest.fixture(scope="module")
def outcomes(whole_box: Box) -> dict[str, Outcome]:
    """All cases, on four nodes in parallel; those with long observations first."""
    cases = sorted(CASES, key=lambda case: -case.watched_s)
    found = run.run(whole_box, cases, [node.name for node in whole_box.nodes])
    sys.stdout.write("\n".join(map(str, found.values())) + "\n")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_a_fault_is_detected_reported_and_cleared(
    outcomes: dict[str, Outcome], whole_box: Box, case: Case, request: pytest.FixtureRequest
) -> None:
    if outcomes[case.words].problem and getattr(request.node, "execution_count", 1) > 1:
        # All cases ran at once before the first of these tests: a retry has to run this one again.
        nodes = [node.name for node in whole_box.nodes]
        outcomes.update(run.run(whole_box, [case], nodes))
    outcome = outcomes[case.words]
    assert outcome.problem == ""
    found = outcome.finding
    fields = (found["severity"], found["action"], found["cause"], found["check"])
    assert fields == (case.severity, case.action, case.cause, case.check)
    if case.drains:
        # A finding that opens too may require more: then the reason names it.
        prefixes = tuple(f"holdfast:{code}: " for code in (case.code, *case.also))
        assert outcome.reason.startswith(prefixes)
    passes_s = 0.0 if case.how is How.EVENT else (case.passes + 1) * INTERVAL_S
    # scripts/bench measures the speed; this limit allows for a busy machine.
    assert outcome.detected_s <= case.watched_s + passes_s + 0.5 + run.MARGIN_S


# --- an invalid configuration: before the faults that last until the end of this file -------------


@contextlib.contextmanager
def _configured(box: Box, node: str, text: str) -> Iterator[Callable[[str], list[str]]]:
    """With another configuration; yields a function for the agent's new log lines that contain a text."""
    log, path = box.path(f"/var/log/holdfast/agent.{node}.log"), box.path(agents.CONFIG)
    cluster.wait_for(lambda: cluster.all_in_service(box), "every node in service", 60)
    before, size = path.read_text(), log.stat().st_size
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
    try:
        yield lambda word: [line for line in log.read_text()[size:].splitlines() if word in line]
    finally:
        agents.configure(box, lambda _text: before)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("checks: {gpu_xidd: {mode: drain}}", "did you mean 'gpu_xid'?"),
        ("checks: {gpu_xid: {mode: drian}}", "did you mean 'drain'?"),
        ("checks: {mounts: {limits: {min_free_share: 7}}}", "min_free_share"),
        ("agent: {interval_s: 0}", "agent.interval_s: must be between"),
        ("checks: {gpu_xid: {mode", "not valid YAML"),
    ],
)
def test_an_invalid_configuration_is_logged_once_and_changes_nothing(
    whole_box: Box, wrong: str, message: str
) -> None:
    node = whole_box.nodes[0].name
    verdicts = Verdicts(whole_box, node)
    agent = verdicts.read()["agent_pid"]
    with _configured(whole_box, node, wrong + "\n") as lines:
        cluster.wait_for(lambda: bool(lines(message)), f"{message!r} in the agent's log", 15)
        cluster.stays(lambda: cluster.in_service(whole_box, node), "in service", 2 * INTERVAL_S)
        (line,) = lines(message)
        assert re.search(rf"{re.escape(agents.CONFIG)}:[12]: ", line)
        verdict = verdicts.read()
        assert verdict["agent_pid"] == agent, "the agent keeps running with the old one"
        assert verdict["at"] > time.time() - 5


def test_an_agent_restarted_with_an_invalid_configuration_uses_the_last_valid_one(
    whole_box: Box,
) -> None:
    node, message = whole_box.nodes[1].name, "given twice"
    verdicts = Verdicts(whole_box, node)
    agent = verdicts.read()["agent_pid"]
    twice = whole_box.path(agents.CONFIG).read_text() + "node: {}\n"
    try:
        with _configured(whole_box, node, twice) as lines:
            cluster.wait_for(lambda: len(lines(message)) == 1, "the problem in the agent's log", 15)
            whole_box.fault(node, "agent-killed")
            cluster.wait_for(
                lambda: verdicts.read().get("agent_pid") not in (agent, None), "another agent", 60
            )
            _, why = lines(message)
            assert "using the last accepted one" in why, "the reason for using the last one"
            assert re.match(r"20\d\d-\S+Z error agent: ", why)
            whole_box.fault(node, "xid", "79", "--gpu", "3")
            cluster.wait_for(lambda: cluster.drained(whole_box, node), f"{node} drained", 30)
            assert cluster.reason(whole_box, node).startswith("holdfast:XID79: ")
            whole_box.heal(node)
            cluster.wait_for(lambda: cluster.in_service(whole_box, node), f"{node} back", 60)
            assert len(lines(message)) == 3, "again after the reboot, which repairs this fault"
    finally:
        whole_box.heal(node)


# --- switched off ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken_box(whole_box: Box, outcomes: dict[str, Outcome]) -> Iterator[Box]:
    """The box with faults on its nodes that all checks of ``SWITCHED`` detect."""
    for node, faults in TOGETHER.items():
        for words in faults:
            kind, *args = words.split()
            whole_box.fault(node, kind, *args)
    whole_box.fault("worker-2", "agent-killed")  # an agent reads the VBIOS only once
    yield whole_box
    for node in TOGETHER:
        whole_box.heal(node)
        whole_box.reboot(node)


def reporting(box: Box) -> AbstractSet[str]:
    """The checks with a finding on any node."""
    found = {finding["check"] for node in TOGETHER for finding in Verdicts(box, node).findings()}
    return found & SWITCHED


def only(box: Box, wanted: AbstractSet[str], what: str) -> None:
    """Wait until exactly these checks report findings, and verify this for some passes."""
    try:
        cluster.wait_for(lambda: reporting(box) == wanted, what, 60)
    except AssertionError as error:
        missing, extra = wanted - reporting(box), reporting(box) - wanted
        raise AssertionError(f"{error}: missing {sorted(missing)}, extra {sorted(extra)}") from None
    cluster.stays(lambda: reporting(box) <= wanted, what, 3 * INTERVAL_S)


def halves() -> tuple[set[str], set[str]]:
    """Two halves of the checks: one reports while the other is switched off."""
    names = [name for name in CATALOGUE if name in SWITCHED]
    return set(names[::2]), set(names[1::2])


def test_all_checks_report_findings(broken_box: Box) -> None:
    only(broken_box, set(SWITCHED), "every check reports a finding")


@pytest.mark.parametrize("half", [0, 1])
def test_a_check_in_mode_off_reports_nothing(broken_box: Box, half: int) -> None:
    off = halves()[half]

    def switch(text: str) -> str:
        for name in off:
            text = re.sub(rf"(\n  {name}: {{mode: )drain", r"\1off", text)
        return text

    before = agents.configure(broken_box, switch)
    try:
        only(
            broken_box,
            SWITCHED - off,
            f"only checks that are not off report: {sorted(off)} are off",
        )
    finally:
        agents.configure(broken_box, lambda _text: before)


@pytest.mark.parametrize("half", [0, 1])
def test_a_check_with_a_kill_switch_reports_nothing(broken_box: Box, half: int) -> None:
    """A kill switch is a file for each check; it works without a readable configuration."""
    off = halves()[half]
    only(broken_box, set(SWITCHED), "every check reports a finding")
    folder = broken_box.path(OFF)
    folder.mkdir(exist_ok=True)
    try:
        for name in off:
            (folder / name).touch()
        only(
            broken_box,
            SWITCHED - off,
            f"only checks that are not off report: {sorted(off)} are off",
        )
    finally:
        _empty(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
