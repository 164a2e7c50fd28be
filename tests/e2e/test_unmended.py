"""A node that is switched off and on with its fault still in it stays out of service until it is mended."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import cluster, detection_run
from tests.e2e.detection_run import Outcome
from tests.e2e.detection_switches import OF_THE_MACHINE
from tests.e2e.detection_table import NOT_MENDED

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def _roomy(text: str) -> str:
    """Budget for all nodes, and no check that judges the machine that this runs on."""
    text = re.sub(r"max_nodes: \d+", "max_nodes: 4", text)
    for name in OF_THE_MACHINE:
        text = text.replace(f"\n  {name}: {{mode: drain}}", f"\n  {name}: {{mode: off}}")
    return text


@pytest.fixture(scope="module")
def outcomes(box: Box) -> Iterator[dict[str, Outcome]]:
    """All of them, four nodes at once."""
    before = detection_run.configure(box, _roomy)
    found = detection_run.run_unmended(box, NOT_MENDED, [node.name for node in box.nodes])
    sys.stdout.write("\n".join(map(str, found.values())) + "\n")
    yield found
    detection_run.configure(box, lambda _text: before)
    cluster.repair(box)


@pytest.mark.parametrize("words", NOT_MENDED)
def test_a_power_cycle_alone_brings_no_node_back(outcomes: dict[str, Outcome], words: str) -> None:
    outcome = outcomes[words]
    assert outcome.problem == ""
    assert outcome.reason.startswith("holdfast:")
