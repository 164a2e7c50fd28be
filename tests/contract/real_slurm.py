"""A real slurmctld for the random histories of ``tests/unit/k8s_bridge/strangers.py``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from measure.bridge.many_nodes import ManySlurmNodes

from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from tests.unit.k8s_bridge.fake_cluster import BRIDGE, Clock, FakeSlurm, Violation

USER = "root"
"""Everybody's user in this Slurm, also the bridge's: the texts alone show who set a drain."""


class RealSlurm(FakeSlurm):
    """What ``FakeSlurm`` offers, on a real slurmctld without slurmd. Others act through scontrol."""

    def __init__(self, many: ManySlurmNodes, clock: Clock):
        self._many, self._cli = many, SlurmCli(30, str(many.bin))
        super().__init__(clock)

    @property
    def by_name(self) -> dict[SlurmName, SlurmNode]:
        """A copy of the present nodes."""
        return {node.name: node for node in self._cli.nodes()}

    @by_name.setter
    def by_name(self, _: object) -> None:
        """They are slurmctld's."""

    def add(self, name: str, instance: str) -> None:
        """The node is in slurm.conf: it is as after the start of slurmctld."""
        node = self.by_name[SlurmName(name)]
        if node.drained_flag:
            self._update(name, "state=undrain")
        self._update(name, "reason=", f"instanceid={instance}")

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        return self._cli.nodes(names)

    def nodes_fast(self) -> list[SlurmNode]:
        return self._cli.nodes_fast()

    def clock(self) -> datetime:
        return self._cli.clock()

    def set_drain(self, name: SlurmName, reason: str, user: str) -> None:
        _next_second()  # Slurm's times have whole seconds, and two drains have two times
        self._update(name, "state=drain", f"reason={reason}")
        self.drained_by[name] = user

    def clear_drain(self, name: SlurmName) -> None:
        if self.by_name[name].drained_flag:
            self._update(name, "state=undrain")
        elif name in self.drained_by:
            raise Violation(f"{name}: its drain is gone")
        self.drained_by.pop(name, None)

    def note(self, name: SlurmName, text: str, user: str) -> None:
        self._update(name, f"reason={text}")

    def lose(self, name: SlurmName, words: str = "Not responding") -> None:
        """As slurmctld writes it, which pings no node here."""
        reason = self.by_name[name].reason
        if not reason.endswith(words):
            _next_second()
            self._update(name, f"reason={reason} : {words}" if reason else f"reason={words}")

    def move(self, name: SlurmName, instance: str) -> None:
        self._update(name, f"instanceid={instance}")

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        def act() -> None:
            for node in self._cli.nodes(names):
                if node.drained_flag:
                    raise Violation(f"{node.name}: drained on top of {node.reason!r}")
                if node.reason not in ("", "Not responding"):
                    raise Violation(f"{node.name}: overwrote {node.reason!r}")
            self._cli.drain(names, reason)
            self.drained_by |= dict.fromkeys(names, BRIDGE)

        self._clock.write(act)

    def undrain(self, names: Sequence[SlurmName]) -> None:
        def act() -> None:
            for name in names:
                if self.drained_by.get(name) != BRIDGE:
                    raise Violation(f"{name}: undid the drain of {self.drained_by.get(name)}")
            self._cli.undrain(names)
            for name in names:
                del self.drained_by[name]

        self._clock.write(act)

    def _update(self, name: str, *changes: str) -> None:
        self._many.scontrol("update", f"nodename={name}", *changes)


def _next_second() -> None:
    now = time.time()
    time.sleep(1.02 - now % 1)
