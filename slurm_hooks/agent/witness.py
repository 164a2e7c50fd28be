"""Asks accounting, after an undrain, whether it ended the drain that was meant (decision 019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.adapters.log import Log
from holdfast.adapters.slurm_cli import SlurmCli
from holdfast.errors import CommandError
from holdfast.policy.ownership import PastDrain, Undrained, overtaken
from holdfast.vocabulary import SlurmName
from slurm_hooks.contain import Worker
from slurm_hooks.settings import Settings

log = Log("agent")

_NEVER = float("inf")
_AFTER_S = (2.0, 5.0, 20.0, 60.0)
"""slurmctld sends its events to slurmdbd within a second, or once that one is back."""


class Witness:
    """One undrain at a time; a later one takes its place."""

    def __init__(self, node: SlurmName, config: Settings) -> None:
        self._node, self._slurm = node, config.cluster.slurm
        self._worker = Worker("witness", self._open, keep=False)
        self._undrained: Undrained | None = None
        self._due: list[float] = []

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        """Monotonic time at which a question is due."""
        return self._due[0] if self._due and not self._worker.busy else _NEVER

    def watch(self, undrained: Undrained, now: float) -> None:
        self._undrained, self._due = undrained, [now + after_s for after_s in _AFTER_S]

    def turn(self, now: float) -> PastDrain | None:
        """The drain that has to be set again, once it is known."""
        found = None
        answer = self._worker.take()
        if answer is not None and answer.complete and answer.items:
            self._due, found = [], answer.items[0]
        elif answer is not None and not self._due:
            why = answer.error or "no answer"
            log.info("accounting does not tell what the undrain ended", why=why)
        if self._undrained is not None and now >= self.next_at:
            self._due.pop(0)
            self._worker.ask(self._undrained, deadline_s=self._slurm.timeout_s + 1)
        return found

    def close(self) -> None:
        self._worker.close()

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        slurm = SlurmCli(self._slurm.timeout_s, self._slurm.bin)

        def serve(undrained: Undrained) -> Iterator[PastDrain | None]:
            try:
                yield overtaken(slurm.past_drains(self._node, undrained.since), undrained)
            except LookupError as error:
                raise CommandError(["sacctmgr"], str(error)) from None

        return serve
