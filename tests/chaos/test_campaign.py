"""Random faults with manual changes and killed daemons: four rules always hold (campaign/run.py).

A few faults in the suite; more by HOLDFAST_CHAOS_FAULTS, on HOLDFAST_CHAOS_NODES nodes. The seed is new each
time and is printed; HOLDFAST_CHAOS_SEED repeats it. HOLDFAST_CHAOS_KINDS="network-cut power-off" draws from those
kinds alone, HOLDFAST_CHAOS_JOBS jobs run at a time:

    HOLDFAST_CHAOS_FAULTS=1000 HOLDFAST_CHAOS_NODES=8 scripts/test chaos -k campaign
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.chaos.campaign.run import run
from tests.chaos.campaign.shared import Campaign

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

SEED = os.environ.get("HOLDFAST_CHAOS_SEED") or str(random.SystemRandom().randrange(10**6))
FAULTS = int(os.environ.get("HOLDFAST_CHAOS_FAULTS", "12"))
NODES = int(os.environ.get("HOLDFAST_CHAOS_NODES", "4"))
KINDS = os.environ.get("HOLDFAST_CHAOS_KINDS", "").split()
JOBS = int(os.environ.get("HOLDFAST_CHAOS_JOBS", "0")) or NODES // 4 or 1


@pytest.fixture
def own_box(release: str) -> Iterator[Box]:
    """A separate box, because a campaign leaves jobs, logs and histories behind."""
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: run them with sudo", pytrace=False)
    running = Box.up(
        f"chaos-{release}-{os.getpid()}", nodes=NODES, slurm=release, owner_pid=os.getpid()
    )
    yield running
    running.down()


@pytest.mark.timeout(600 + 30 * FAULTS)
def test_four_rules_hold_under_random_faults(own_box: Box) -> None:
    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    say(f"seed {SEED}: repeat with HOLDFAST_CHAOS_SEED={SEED} HOLDFAST_CHAOS_FAULTS={FAULTS}")
    campaign = Campaign(own_box, seed=SEED, faults=FAULTS, jobs=JOBS, say=say, kinds=KINDS)
    violations = run(campaign)
    for what, times in sorted(campaign.count.done.items()):
        say(f"{times:5d}  {what}")
    assert violations == [], f"seed {SEED}\n" + "\n".join(map(str, violations))
