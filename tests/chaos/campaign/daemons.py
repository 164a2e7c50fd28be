"""Kills and stops daemons during a campaign."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext

from testbed.errors import SandboxError
from testbed.shape import CONTROLLER

from tests.chaos.campaign.shared import Campaign
from tests.chaos.kills import kill_bridge, kill_launcher


class Daemons:
    """Daemons die, hang and come back."""

    def __init__(self, campaign: Campaign) -> None:
        self._all, self._box = campaign, campaign.box
        self._chance = random.Random(f"{campaign.seed} daemons")

    def run(self) -> None:
        while self._all.going():
            time.sleep(self._chance.uniform(1, 8))
            what = self._chance.choice(
                (
                    "bridge",
                    "launcher",
                    "slurmctld",
                    "hang",
                    "slurmdbd",
                    "older state",
                    "kube-apiserver",
                )
            )
            if what == "bridge":
                done = kill_bridge(self._box)
            elif what == "launcher":
                done = self._launcher()
            elif what == "older state":
                done = self._older_state()
            else:
                done = self._away(what)
            if done:
                self._all.count.add(f"daemons: {what}")

    def _launcher(self) -> bool:
        """The launcher of some job. False where none runs that is old enough."""
        nodes = [node.name for node in self._box.nodes]
        self._chance.shuffle(nodes)
        return any(kill_launcher(self._box, node) for node in nodes)

    def _older_state(self) -> bool:
        """slurmctld comes back with the box's first node states. Only while no person's drain would be lost."""
        with self._all.drains.writing:
            if len(self._all.drains) or not self._all.drains.saved():
                return False
            try:
                self._box.fault(CONTROLLER, "slurmctld-restored")
            except SandboxError as error:
                self._all.broken("the sandbox", f"slurmctld-restored: {error}")
                return False
        return True

    def _away(self, what: str) -> bool:
        """A daemon of the controller is gone, or silent, for a few seconds."""
        kinds = {
            "hang": "slurmctld-stopped", "slurmctld": "slurmctld-killed", "slurmdbd": "slurmdbd-down",
            "kube-apiserver": "api-server-down",
        }  # fmt: skip
        kind = kinds[what]
        with self._all.drains.writing if what == "slurmctld" else nullcontext():
            while what == "slurmctld" and not self._all.drains.saved():
                time.sleep(0.5)
            try:
                self._box.fault(CONTROLLER, kind)
            except SandboxError:
                return False  # it is still starting
            try:
                time.sleep(self._chance.choice((0.2, 1.0, 3.0)))
                self._box.heal(CONTROLLER, kind)
            except SandboxError as error:
                self._all.broken("the sandbox", f"{kind}: {error}")
                return False
        return True
