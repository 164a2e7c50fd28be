"""What the agent's event loop needs of each of its features, and gives to them. No method may block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from slurm_hooks.probes.runner import Prober
from slurm_hooks.worker.worker import Worker

NEVER = float("inf")


class Component(Protocol):
    """One feature of the agent.

    ``workers``  its contained workers that are busy; the loop waits for their answers and deadlines.
    ``next_at``  monotonic time of its next action without an event.
    """

    @property
    def workers(self) -> Sequence[Worker]: ...

    @property
    def next_at(self) -> float: ...

    def fds(self) -> Iterable[tuple[int, int]]:
        """Its file descriptors other than the workers', and the events to wait for, as for
        ``select.poll``."""
        ...

    def turn(self, now: float) -> bool:
        """Handle what is ready and start what is due. True if the node's state in Slurm may have
        changed."""
        ...

    def close(self) -> None: ...


class Note(Protocol):
    """Records an event in the node's history (names: ``holdfast.history.event``)."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class ProberComponent:
    """The probes as a component. The loop itself starts and collects the passes over them."""

    def __init__(self, prober: Prober) -> None:
        self._prober = prober

    @property
    def workers(self) -> Sequence[Worker]:
        return self._prober.workers

    @property
    def next_at(self) -> float:
        return NEVER

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        self._prober.reap(now)
        return False

    def close(self) -> None:
        self._prober.close()
