"""The launcher's side of notices: hands them to this node's agent, which tells the owner and the site.

A notice is sent from a thread, so that neither a restart nor a requeue waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

from slurm_hooks.job.agent_socket import deliver_packet
from slurm_hooks.job.notice import Notice, encoded
from slurm_hooks.settings.notify import JobEvent

_BEFORE_EXIT_S = 1.0


class Notices:
    """``lost_s``: what the present attempt has lost, for the next notice. ``gpus``: of all nodes.
    ``told``: the events of which the site tells somebody; the agent is not bothered with others.
    """

    def __init__(
        self, job: int, gpus: int, run_dir: Path, told: Collection[JobEvent] = tuple(JobEvent)
    ) -> None:
        self._job, self._gpus, self._run_dir, self._told = job, gpus, run_dir, told
        self._threads: list[threading.Thread] = []
        self.lost_s = 0.0

    def tell(self, event: JobEvent, why: str, attempt: int) -> None:
        """Starts to send it. An agent that does not answer is not tried again."""
        if event not in self._told:
            return
        notice = Notice(
            event=event,
            job=self._job,
            attempt=attempt,
            why=why,
            lost_s=round(self.lost_s, 3),
            gpus=self._gpus,
        )
        self.lost_s = 0.0
        packet = encoded(notice)
        thread = threading.Thread(
            target=deliver_packet, args=(self._run_dir, packet), name="notice", daemon=True
        )
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def finish(self) -> None:
        """Before the launcher exits: waits for what is being sent, a second at most."""
        for thread in self._threads:
            thread.join(_BEFORE_EXIT_S)
