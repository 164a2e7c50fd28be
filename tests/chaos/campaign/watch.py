"""Watches the drains of people and the budget during a campaign."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from holdfast.reason import Reason
from tests.chaos.campaign.shared import Campaign

OVER_BUDGET_S = 15.0
OVERWRITTEN_S = 1.5
"""A person's reason may be missing from one look, not from two: nobody sets it again."""
UNDONE_S = 25.0
"""The agent sets a person's drain again that its undrain ended, once accounting reports it: it asks after
2, 5 and 20 s (decision 19), and slurmdbd may be away for some seconds. The longest time is printed."""


class Watch:
    """Rules 1 and 4, looked at twice a second."""

    def __init__(self, campaign: Campaign) -> None:
        self._all = campaign
        nodes = len(campaign.box.nodes)
        self._allowed = max(2, nodes // 4)
        self._undone: dict[str, float] = {}
        self._over_since: float | None = None

    def run(self) -> None:
        while self._all.watching():
            rows = self._all.nodes()
            if rows is not None:
                now = time.monotonic()
                self._persons_drains(rows, now)
                self._budget(list(rows.values()), now)
            time.sleep(0.5)

    def _persons_drains(self, rows: dict[str, dict[str, Any]], now: float) -> None:
        wrong = {what: node for node, what in self._all.drains.broken_on(rows)}
        for what, node in wrong.items():
            since = self._undone.setdefault(what, now)
            limit_s = UNDONE_S if "is in service" in what else OVERWRITTEN_S
            if since >= 0 and now - since > limit_s:
                self._undone[what] = float("-inf")  # said once
                if self._all.drained_at_once(node):
                    self._all.count.add("a person's drain at the moment of the agent's own")
                    continue
                self._all.broken("a person's drain stays", f"{what}\n{self._all.scene(node)}")
        for what in set(self._undone) - set(wrong):
            since = self._undone.pop(what)
            if since >= 0:
                self._all.count.add("person's drain undone, and set again or taken back")
                if now - since > 1.5:
                    self._all.say(f"{self._all.now_s:7.1f} s  {now - since:.1f} s: {what}")

    def _budget(self, rows: Sequence[dict[str, Any]], now: float) -> None:
        charged = [
            row["name"]
            for row in rows
            if "DRAIN" in row["state"] and Reason.parse(str(row["reason"])) is not None
        ]
        if len(charged) <= self._allowed:
            self._over_since = None
            return
        if self._over_since is None:
            self._over_since = now
        elif now - self._over_since > OVER_BUDGET_S:
            self._over_since = float("inf")  # said once
            self._all.broken(
                "the budget", f"{len(charged)} nodes are out, {self._allowed} may be: {charged}"
            )
