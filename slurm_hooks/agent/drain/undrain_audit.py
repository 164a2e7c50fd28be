"""Asks accounting, after an undrain, which drain the undrain ended (decisions 019 and 025).

Slurm's undrain cannot name the drain that it ends, so it may end one that another user set a moment
before. The question is saved before the undrain (``record.Records``): if the agent is killed in
between, the next agent asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from holdfast.adapters.log import Log
from holdfast.errors import CommandError
from holdfast.policy.ownership import PastDrain, Undrained, overtaken, to_ask_about
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.bounded_write import BoundedWrite
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_NEVER = float("inf")
_AFTER_S = (2.0, 3.0, 15.0, 40.0)
"""Seconds before each query. slurmctld sends its events to slurmdbd within a second, or once
slurmdbd is reachable again."""
_MOST_S = 600.0
"""The longest time between two queries while accounting does not answer."""
GIVE_UP_S = 7 * 86400.0
"""The audit is given up after this time: slurmctld's own queue for slurmdbd does not last longer
either."""
_NO_ACCOUNTING = re.compile(r"not running a supported accounting_storage", re.IGNORECASE)


class UndrainAudit:
    """Audits one undrain at a time: while accounting does not answer, the one that may have ended another
    drain (``to_ask_about``). ``why``: why the return is not confirmed yet, so it may have ended another
    user's drain; empty: nothing is unconfirmed.
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
        """Monotonic time at which a query is due."""
        return _NEVER if self._worker.busy else self._due

    @property
    def undrained(self) -> Undrained | None:
        """The undrain that accounting has not reported on yet."""
        return self._undrained

    def watch(self, undrained: Undrained, now: float) -> None:
        if to_ask_about(self._undrained, undrained) is not undrained:
            return
        self._undrained, self._tries, self.why = undrained, 0, ""
        self._due = now + _AFTER_S[0]

    def still_drained(self, since: datetime | None) -> None:
        """The drain that began at ``since`` is still set. If it is the audited one, it was not
        ended."""
        if self._undrained is not None and self._undrained.since == since:
            self._undrained, self._due, self.why = None, _NEVER, ""

    def turn(self, now: float) -> PastDrain | None:
        """The other user's drain that has to be set again, once accounting reports it."""
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
            return  # no other change was made, so no other drain can have been ended
        if self._tries < len(_AFTER_S):
            return
        if not self.why:
            log.warning(
                "accounting does not report which drain the undrain ended; will retry",
                why=why,
                node=self._node,
            )
        self.why = f"accounting does not report which drain the return ended ({why})"

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        slurm = SlurmCli(self._config.cluster.slurm.timeout_s, self._config.cluster.slurm.bin)
        paths = self._config.cluster.paths
        records = Records(paths, BoundedWrite(paths.run / "stuck" / "return.json"))

        def serve(undrained: Undrained) -> Iterator[PastDrain | None]:
            ended = self._ended(slurm, undrained)
            if ended is None:  # otherwise it is kept until that drain is set again
                records.save_return(None)
            yield ended

        return serve

    def _ended(self, slurm: SlurmCli, undrained: Undrained) -> PastDrain | None:
        """The other user's drain that the undrain ended, or None. Raises CommandError while it is
        unknown."""
        try:
            return overtaken(slurm.past_drains(self._node, undrained.since), undrained)
        except LookupError as error:
            problem = CommandError(["sacctmgr"], str(error))
        except CommandError as error:
            problem = error
        without = _NO_ACCOUNTING.search(problem.output)
        too_old = time.time() - undrained.until.timestamp() > GIVE_UP_S
        if (without and undrained.alone) or too_old:
            return None
        raise problem
