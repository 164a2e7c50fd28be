"""What the bridge does beside its loop. Each feature has a thread of its own: no write to a Node waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import HoldfastError
from holdfast.slurm.client import SlurmNode
from k8s_bridge.model.snapshot import KubeNode

log = LimitedLog(Log("bridge"))


class Feature(Protocol):
    """It gets what each look of the loop found; ``None``: unknown."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def see(self, slurm: list[SlurmNode] | None, kube: list[KubeNode] | None, /) -> None: ...


class RepeatedStep:
    """A thread that calls ``step`` every ``pause_s``. No error ends it. ``problem``: what an error means."""

    def __init__(self, name: str, step: Callable[[], object], pause_s: float, problem: str):
        self._name, self._step, self._pause_s, self._problem = name, step, pause_s, problem
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """``stop`` was called: the present step should end."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Until ``stop``."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def stop(self) -> None:
        """The thread ends after its present call; this method does not wait for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            try:
                self._step()
            except HoldfastError as error:
                log.warning(f"{self._problem}; retrying", why=error)
            except Exception as error:
                log.exception(f"{self._problem}; retrying", error)
