"""One kind of fault: a row of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.faults.arguments import Args, Argument
from testbed.faults.effects.effects import Effects, State
from testbed.faults.machine import Act
from testbed.h100.board import GPU_BUSES

GPU = Argument(name="--gpu", high=len(GPU_BUSES) - 1, default=0)

BY_DRIVER = "as the driver requires: a GPU reset or a power cycle"
BY_RESET = "GPU reset"
BY_POWER = "power cycle, repaired while off"
BY_REPLACEMENT = "another GPU (new UUID), power cycle"
AT_ONCE = "at once"
BY_ITSELF = "nothing to heal"
"""How a fault is healed, as `sandbox heal` prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault: either ``effects`` on the simulated hardware, or ``begin`` and ``end`` on the running node.

    ``passing``: ends at once, nothing to heal. ``until_boot``: a power cycle ends it.
    ``of_controller``: a fault of the cluster, not of a node. ``exclusive``: name of an argument; two
    kinds with the same name here cannot be active with the same value of it.
    """

    name: str
    meaning: str
    heals: str
    arguments: tuple[Argument, ...] = ()
    effects: Callable[[Args, State], Effects] | None = None
    begin: Act | None = None
    end: Act | None = None
    passing: bool = False
    until_boot: bool = False
    of_controller: bool = False
    exclusive: str = ""

    @property
    def usage(self) -> str:
        return " ".join([self.name, *(argument.usage for argument in self.arguments)])
