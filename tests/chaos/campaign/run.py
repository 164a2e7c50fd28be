"""A campaign: random faults on every node, beside people's actions and dying daemons, and four rules that hold.

1. A person's drain is never undone, and its reason never overwritten.
2. A node whose faults are healed returns to service, unless a person drained it.
3. No job stays RUNNING without progress.
4. Holdfast has no more nodes out of service than its budget allows, but for the seconds that a withdrawal takes.

Each node has a thread that draws its faults from the seed; one more thread kills daemons, one runs jobs, one watches
the rules. Threads race one another, so a seed repeats what is done, and nearly when.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from tests.chaos.campaign.daemons import Daemons
from tests.chaos.campaign.jobs import Jobs
from tests.chaos.campaign.node_faults import NodeFaults
from tests.chaos.campaign.shared import Campaign, Violation
from tests.chaos.campaign.watch import Watch


def run(campaign: Campaign) -> list[Violation]:
    """Runs it to its end. Returns what broke a rule."""
    watch = threading.Thread(
        target=_guarded,
        args=(
            campaign,
            Watch(campaign).run,
        ),
    )
    others = [
        threading.Thread(
            target=_guarded,
            args=(
                campaign,
                work,
            ),
        )
        for work in (Daemons(campaign).run, Jobs(campaign).run)
    ]
    per_node = [
        threading.Thread(
            target=_guarded,
            args=(
                campaign,
                NodeFaults(campaign, node.name).run,
            ),
        )
        for node in campaign.box.nodes
    ]
    for thread in (watch, *others, *per_node):
        thread.start()
    for thread in per_node:
        thread.join()
    campaign.nodes_done.set()
    for thread in others:
        thread.join()
    campaign.over.set()
    watch.join()
    return campaign.violations


def _guarded(campaign: Campaign, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - a thread's failure must fail the campaign
        where = "".join(traceback.format_exception(error))
        campaign.broken("the campaign itself", f"{type(error).__name__}: {error}\n{where}")
