"""Looks, while a step runs, whether a newer attempt of the job has begun elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.policy.job.fence import POLL_S
from slurm_hooks.job.fence.newer import JournalReader, why_ended


class JournalWatch:
    """Looks in a thread of its own: neither a storage nor a slurmctld that does not answer delays it, or
    what it finds.

    ``why``: why the step must end at once; empty: no newer attempt is known.
    """

    def __init__(
        self, reader: JournalReader, wake: Callable[[], None], poll_s: float = POLL_S
    ) -> None:
        self.why = ""
        self._reader, self._wake, self._poll_s = reader, wake, poll_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="fence")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            try:
                newer = self._reader.look()
            except OSError:
                continue  # this node's agent stops the tasks if it cannot look either
            if newer is not None:
                self.why = why_ended(newer)
                self._wake()
                return

    def stop(self) -> None:
        self._stop.set()
