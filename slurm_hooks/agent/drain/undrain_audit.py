"""Asks accounting, after an undrain, whether it ended the drain that was meant (decisions 019 and 025).

What is to be asked was kept before the undrain (``record.Records``), so an agent that is killed in
between is followed by one that asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from holdfast.adapters.log import Log
from holdfast.errors import CommandError
from holdfast.policy.ownership import PastDrain, Undrained, overtaken
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.bounded_write import BoundedWrite
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_NEVER = float("inf")
_AFTER_S = (2.0, 3.0, 15.0, 40.0)
"""Before each question. slurmctld sends its events to slurmdbd within a second, or once that one is back."""
_MOST_S = 600.0
"""The longest time between two questions while accounting is away."""
GIVE_UP_S = 7 * 86400.0
"""After this nobody asks any more: slurmctld's own queue for slurmdbd does not last longer either."""
_NO_ACCOUNTING = re.compile(r"not running a supported accounting_storage", re.IGNORECASE)


class UndrainAudit:
    """One undrain at a time; a later one takes its place. ``why``: the return is not confirmed yet, and
    nobody knows that it ended no drain of somebody else's; empty: all is confirmed.
    """

    def __init__(self, node: SlurmName, config: Settings, undrained: Undrained | None) -> None:
        self._node, self._config = node, config
        self._worker = Worker("return-audit", self._open, keep=False)
        self._undrained: Undrained | None = None
        self._due, self._tries = _NEVER, 0
        self.why = ""
        if undrained is not None:
            self.watch(undrained, time.monotonic())

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        """Monotonic time at which a question is due."""
        return _NEVER if self._worker.busy else self._due

    def watch(self, undrained: Undrained, now: float) -> None:
        self._undrained, self._tries, self.why = undrained, 0, ""
        self._due = now + _AFTER_S[0]

    def still_drained(self, since: datetime | None) -> None:
        """The drain that began at ``since`` stands; if it is the one of the question, it was not undone."""
        if self._undrained is not None and self._undrained.since == since:
            self._undrained, self._due, self.why = None, _NEVER, ""

    def turn(self, now: float) -> PastDrain | None:
        """The drain that has to be set again, once it is known."""
        found = None
        answer = self._worker.take()
        if answer is not None and self._undrained is not None:
            if answer.complete and answer.items:
                found = answer.items[0]
                if self.why:
                    log.info("accounting confirmed the return", node=self._node)
                self._undrained, self._due, self.why = None, _NEVER, ""
            else:
                self._missed(self._undrained, answer.error or "no answer", now)
        if self._undrained is not None and not self._worker.busy and now >= self._due:
            self._due = _NEVER
            timeout_s = self._config.cluster.slurm.timeout_s
            self._worker.ask(self._undrained, deadline_s=timeout_s + 3)
        return found

    def close(self) -> None:
        self._worker.close()

    def _missed(self, undrained: Undrained, why: str, now: float) -> None:
        self._tries += 1
        at = min(self._tries, len(_AFTER_S) - 1)
        again_s = min(_MOST_S, _AFTER_S[at] * 2 ** max(0, self._tries - len(_AFTER_S) + 1))
        self._due = now + again_s
        if undrained.alone:
            return  # nobody's drain can have been ended, whatever accounting says
        if self._tries < len(_AFTER_S):
            return
        if not self.why:
            log.warning(
                "accounting does not tell what the undrain ended; asked again until it does",
                why=why,
                node=self._node,
            )
        self.why = f"accounting does not tell what the return ended ({why})"

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        slurm = SlurmCli(self._config.cluster.slurm.timeout_s, self._config.cluster.slurm.bin)
        paths = self._config.cluster.paths
        records = Records(paths, BoundedWrite(paths.run / "stuck" / "return.json"))

        def serve(undrained: Undrained) -> Iterator[PastDrain | None]:
            ended = self._ended(slurm, undrained)
            if ended is None:  # else it is kept until that drain stands again
                records.save_return(None)
            yield ended

        return serve

    def _ended(self, slurm: SlurmCli, undrained: Undrained) -> PastDrain | None:
        """Raises CommandError while the answer is not known."""
        try:
            return overtaken(slurm.past_drains(self._node, undrained.since), undrained)
        except LookupError as error:
            problem = CommandError(["sacctmgr"], str(error))
        except CommandError as error:
            problem = error
        without = _NO_ACCOUNTING.search(problem.output)
        over = time.time() - undrained.until.timestamp() > GIVE_UP_S
        if (without and undrained.alone) or over:
            return None
        raise problem
