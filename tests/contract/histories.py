"""Which of many random histories are run on real programs, where few fit into the time: those that bring the bridge
into the most different states, as they show on the fakes.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
from collections.abc import Hashable, Iterator

from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from tests.unit.k8s_bridge.fake_cluster import Violation
from tests.unit.k8s_bridge.strangers import GPU, POLICIES, STEPS, Strangers

SAMPLE = 600
WITHOUT = {"human_drains_without_a_reason"}
"""scontrol refuses a drain without a reason."""
_OWN = sorted(name for name in STEPS if name.startswith("bridge_"))
_OTHERS = sorted(STEPS.keys() - {*_OWN, *WITHOUT})


def steps(chance: random.Random) -> list[str]:
    """The bridge looks, or does something worse, after most steps of others."""
    names = []
    for name in chance.choices(_OTHERS, k=12):
        names.append(name)
        if chance.random() < 0.7:
            names.append("bridge_looks" if chance.random() < 0.6 else chance.choice(_OWN))
    return names


def various(seed: str) -> Iterator[str]:
    """The names of histories, without an end. Of each ``SAMPLE``, the next one is the one that adds the most
    states.
    """
    known: set[Hashable] = set()
    for batch in itertools.count():
        names = [f"{seed}-{batch * SAMPLE + i}" for i in range(SAMPLE)]
        left = {name: _states(name, POLICIES[0]) for name in names}
        while left:
            name = max(left, key=lambda name: len(left[name] - known))
            known |= left.pop(name)
            yield name


def _states(name: str, policy: BridgeConfig) -> set[Hashable]:
    """Those in which a bridge acts. A history ends where a bridge does something wrong."""
    chance = random.Random(name)
    names, found = steps(chance), set[Hashable]()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Violation):
        world = Strangers(policy, chance, operator=chance.random() < 0.5)
        for step in names:
            if step in _OWN:
                found |= set(_looks(world))
            STEPS[step](world)
    return found


def _looks(world: Strangers) -> Iterator[Hashable]:
    """How each worker and its Node look: whose drain, cordon, taint and record, and which cause."""
    for worker, node in world.slurm.by_name.items():
        machine, owner = node.instance_id, world.slurm.drained_by.get(worker)
        if machine not in world.kube.raw:
            yield owner, None
            continue
        view = world.kube.node(KubeName(machine))
        record = view.record and (view.record.origin, view.record.causes)
        cordon = world.kube.cordoned_by.get(machine)
        yield owner, cordon, view.taint, record, view.foreign_status(GPU), bool(node.reason)
