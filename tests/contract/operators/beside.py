"""A random history (``tests/unit/k8s_bridge/strangers.py``) in which the operator of another project really runs
beside two bridges, persons and agents, on a real slurmctld and a real API server.

The bridge must not undo or overwrite what is not its own, and all together must come to rest. What the operator
itself takes from a person is counted: the bridge cannot prevent it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from measure.bridge.many_nodes import ManySlurmNodes

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from tests.contract.real_nodes import RealCluster
from tests.contract.real_slurm import RealSlurm
from tests.unit.k8s_bridge.fake_cluster import BRIDGE, HUMAN, Clock, Violation
from tests.unit.k8s_bridge.strangers import OPERATOR, STEPS, Strangers

WITHOUT = {"human_drains_without_a_reason", "quarantine_begins", "quarantine_ends"}
"""scontrol refuses a drain without a reason; and who cordons plays no role for an operator."""


class Operator(Protocol):
    """Another project's program, which runs."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The starts of its reasons."""

    @property
    def steps(self) -> Mapping[str, Callable[[Strangers], None]]:
        """What others do that only this operator reacts to."""

    def look(self) -> None:
        """Lets it look at everything, and waits until it has nothing to do."""

    def place(self, worker: SlurmName, machine: str) -> None:
        """The worker's pod runs on that machine."""


class BesideSlurm(RealSlurm):
    """A real slurmctld that others than this test change too."""

    def __init__(self, many: ManySlurmNodes, reasons: tuple[str, ...], clock: Clock):
        self._reasons = reasons
        self.seen: Counter[str] = Counter()
        super().__init__(many, clock)

    def theirs(self, node: SlurmNode) -> bool:
        return node.drained_flag and node.reason.startswith(self._reasons)

    def look(self) -> list[SlurmName]:
        """Takes over who has drained by now. Returns the nodes that the operator has drained since."""
        drained = []
        for name, node in self.by_name.items():
            known = self.drained_by.get(name)
            if self.theirs(node) and known != OPERATOR:
                self.drained_by[name] = OPERATOR
                self.seen[f"drains over {known}" if known else "drains"] += 1
                drained.append(name)
            elif not node.drained_flag and known is not None:
                del self.drained_by[name]
                self.seen[f"undrains of {known}"] += 1
        return drained

    def clear_drain(self, name: SlurmName) -> None:
        if self.by_name[name].drained_flag:
            self._update(name, "state=undrain")
        self.drained_by.pop(name, None)

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        def act() -> None:
            for node in self._cli.nodes(names):
                if self.theirs(node):
                    self.seen["drains under the bridge's"] += 1
                elif node.drained_flag:
                    raise Violation(f"{node.name}: drained on top of {node.reason!r}")
                elif not node.reason.startswith(self._reasons) and node.reason not in (
                    "",
                    "Not responding",
                ):
                    raise Violation(f"{node.name}: overwrote {node.reason!r}")
            self._cli.drain(names, reason)
            self.drained_by |= dict.fromkeys(names, BRIDGE)

        self._clock.write(act)

    def undrain(self, names: Sequence[SlurmName]) -> None:
        def act() -> None:
            self.look()
            for node in self._cli.nodes(names):
                owner = self.drained_by.get(node.name, BRIDGE)
                # The bridge ends a drain of the operator only where that one only waits for its cordon.
                if owner != BRIDGE:
                    raise Violation(f"{node.name}: undid the drain of {owner}")
            self._cli.undrain(names)
            for name in names:
                self.drained_by.pop(name, None)

        self._clock.write(act)


class Beside(Strangers):
    """One history with a real operator."""

    slurm: BesideSlurm

    def __init__(self, cluster: RealCluster, operator: Operator, chance: random.Random):
        self._theirs = operator
        super().__init__(cluster.policy, chance, operator=False, cluster=cluster)
        for worker, node in self.slurm.by_name.items():
            operator.place(worker, node.instance_id)
        operator.look()
        self.taken: list[str] = []
        """Of persons by the operator."""

    def run(self, names: Sequence[str]) -> None:
        """Raises ``Violation`` with its steps."""
        done = []
        try:
            for name in [*names, "settle", "settle again"]:
                done.append(name)
                if name in ("settle", "settle again"):
                    if self.settle() and name == "settle again":
                        raise Violation("a fixed point that writes")
                    continue
                step = self._theirs.steps.get(name) or STEPS[name]
                step(self)
                self.check()
        except Violation as error:
            raise Violation(f"{error}: {' → '.join(done)}") from error

    def check(self) -> None:
        for worker in self.slurm.look():
            self.lifted.pop(worker, None)
        for worker, words in list(self.words.items()):
            node = self._node(worker)
            if node.drained_flag and node.reason == words:
                continue
            # A write of the bridge would have raised.
            taken = not node.drained_flag or self.slurm.theirs(node)
            if taken and self.slurm.drained_by.get(worker) != HUMAN:
                self.taken.append(f"{words!r} became {node.reason!r} ({','.join(_states(node))})")
                del self.words[worker]
        super().check()

    def operator_looks(self) -> None:
        self._theirs.look()

    def _operator(self, worker: SlurmName, machine: str) -> bool:
        """Once a round it looks at all of them. Did it change one?"""
        before = self.slurm.by_name
        if worker != min(before):
            return False
        self._theirs.look()
        self.check()
        after = self.slurm.by_name
        return any(
            (node.drained_flag, node.reason) != (after[name].drained_flag, after[name].reason)
            for name, node in before.items()
        )

    def _move(self, worker: SlurmName, machine: str, to: str) -> None:
        super()._move(worker, machine, to)
        self._theirs.place(worker, to)


def names_of(operator: Operator, chance: random.Random) -> list[str]:
    """The bridge looks, or does something worse, after most steps of others, and the operator after some: it
    runs all the time, but of changes in Slurm nobody tells it.
    """
    own = sorted(name for name in STEPS if name.startswith("bridge_"))
    others = sorted(STEPS.keys() - {*own, *WITHOUT}) + sorted(operator.steps) * 3
    names = []
    for name in chance.choices(others, k=12):
        names.append(name)
        if chance.random() < 0.7:
            names.append("bridge_looks" if chance.random() < 0.6 else chance.choice(own))
        if chance.random() < 0.4:
            names.append("operator_looks")
    return names


def _states(node: SlurmNode) -> Iterable[str]:
    return sorted(state.value for state in node.states)
