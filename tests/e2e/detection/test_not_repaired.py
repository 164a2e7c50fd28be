"""A node that is power cycled with its fault stays drained until it is repaired."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import Boxes
from tests.e2e import agents, cluster
from tests.e2e.detection import run
from tests.e2e.detection.run import Outcome
from tests.e2e.detection.switches import OF_THE_MACHINE
from tests.e2e.detection.table import NOT_REPAIRED

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(300)]


def _roomy(text: str) -> str:
    """Budget for all nodes, and no check of the host under the sandbox."""
    text = re.sub(r"max_nodes: \d+", "max_nodes: 4", text)
    for name in OF_THE_MACHINE:
        text = text.replace(f"\n  {name}: {{mode: drain}}", f"\n  {name}: {{mode: off}}")
    return text


@pytest.fixture(scope="module")
def outcomes(boxes: Boxes, release: str) -> Iterator[dict[str, Outcome]]:
    """All faults, on four nodes in parallel."""
    box = boxes.get(release)
    before = agents.configure(box, _roomy)
    found = run.run_unrepaired(box, NOT_REPAIRED, [node.name for node in box.nodes])
    sys.stdout.write("\n".join(map(str, found.values())) + "\n")
    yield found
    agents.configure(box, lambda _text: before)
    cluster.repair(box)


@pytest.mark.parametrize("words", NOT_REPAIRED)
def test_a_power_cycle_alone_does_not_return_a_node(
    outcomes: dict[str, Outcome], words: str
) -> None:
    outcome = outcomes[words]
    assert outcome.problem == ""
    assert outcome.reason.startswith("holdfast:")
