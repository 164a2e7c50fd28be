"""The job's time limit under ``holdfast run --continue``: shortly before it, the program saves a checkpoint
and the job is requeued, so that it continues with a new time limit.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import UsageError
from holdfast.policy.job.facts import JobDecision, Next
from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome.checkpoints_left import Left, is_other
from slurm_hooks.job.step.child import FORWARDED
from slurm_hooks.job.step.run_step import StepEnd

RESERVE_S = 60.0
"""So long before the limit the step ends without a further checkpoint: the launcher may look at the job every 30 s
only, and Slurm needs some seconds for the requeue."""
_LEAST_S = 120
_MOST_S = 24 * 3600
_OPTION = re.compile(r"(?:(?:SIG)?(?P<signal>[A-Z0-9+-]+)@)?(?P<seconds>[0-9]{1,6})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeLimit:
    """``--continue [SIGNAL@]SECONDS``, as in ``sbatch --signal``. ``signal``: None: none is sent."""

    seconds: int
    signal: int | None = None


def parse(text: str) -> BeforeLimit:
    """Raises ``UsageError``."""
    match = _OPTION.fullmatch(text)
    if not match:
        raise UsageError(f"--continue {text}: give [SIGNAL@]SECONDS, for example USR1@300 or 300")
    seconds, name = int(match["seconds"]), match["signal"]
    if not _LEAST_S <= seconds <= _MOST_S:
        raise UsageError(f"--continue {text}: give {_LEAST_S} to {_MOST_S} seconds")
    return BeforeLimit(seconds=seconds, signal=None if name is None else _number(name, text))


def _number(name: str, text: str) -> int:
    return signal_number(name, f"--continue {text}")


def signal_number(name: str, option: str) -> int:
    """The signal that asks for a checkpoint. Raises ``UsageError``; ``option``: as it was given."""
    word = name.upper().removeprefix("SIG")
    number = int(name) if name.isdecimal() else getattr(signal, f"SIG{word}", None)
    if number not in FORWARDED or number in (signal.SIGTERM, signal.SIGINT):
        raise UsageError(
            f"{option}: {name} is not a signal that a program can use for this; USR1 or USR2 "
            "are usual"
        )
    return int(number)


class TimeLimit:
    """The time limit during one attempt.

    ``left``  what the attempt has left in the checkpoint folder until now.
    ``send``  passes a signal on to the command.
    """

    def __init__(
        self, option: BeforeLimit | None, left: Callable[[], Left], send: Callable[[int], None]
    ) -> None:
        self._option, self._left, self._send = option, left, send
        self._reached = self._sent = self._told = False
        self._before: Checkpoint | None = None
        self._why = ""

    def look(self, job: SlurmJob | None, now: float) -> str:
        """Why the step must end now; empty if it goes on. ``now``: epoch seconds."""
        if self._option is None or job is None or job.end_at is None:
            return ""
        left_s = job.end_at.timestamp() - now
        if left_s > self._option.seconds:
            return ""
        found = self._left()
        if not self._reached:
            self._begin(found.newest, left_s, job.requeue)
        # Not only a newer step: a program may write the same step again after the signal.
        elif job.requeue and (is_other(found.newest, self._before) or left_s <= RESERVE_S):
            self._end(found, left_s)
        return self._why

    def _begin(self, newest: Checkpoint | None, left_s: float, can_requeue: bool) -> None:
        self._reached, self._before = True, newest
        if not can_requeue:
            say("--continue has no effect: the job was submitted with --no-requeue")
            return
        limit = f"time limit in {timedelta(seconds=round(left_s))}"
        number = self._option.signal if self._option else None
        if number is None:
            say(f"{limit}: the job is requeued after the next checkpoint")
            return
        say(f"{limit}: sending {signal.Signals(number).name}, then the job is requeued")
        self._send(number)
        self._sent = True

    def _end(self, found: Left, left_s: float) -> None:
        if found.progressed is not False:
            self._why = _text(found.newest, left_s)
        elif not self._told:
            self._told = True
            say("no new checkpoint in this run: the job is not requeued before its time limit")

    def ended(self, end: StepEnd) -> JobDecision | None:
        """What to do after a step that ended for the time limit; None: it ended for another reason.

        A program may save and exit by itself after the signal, with status 0 or by the signal's default
        action.
        """
        if end.terminated:
            return None
        if self._why and end.ended_why == self._why:
            return JobDecision(next=Next.REQUEUE, why=self._why)
        number = self._option.signal if self._option and self._sent else None
        if number is None or end.ended_why:
            return None
        by_signal = end.user_signal == signal.strsignal(number)
        if end.status != 0 and not by_signal:
            return None
        found = self._left()
        if found.progressed is not False:
            return JobDecision(next=Next.REQUEUE, why=_text(found.newest, None))
        if end.status == 0:
            return None
        return JobDecision(
            next=Next.FAIL, why="it ended by the signal of --continue without a new checkpoint"
        )


def _text(newest: Checkpoint | None, left_s: float | None) -> str:
    limit = "time limit" + ("" if left_s is None else f" in {timedelta(seconds=round(left_s))}")
    step = "" if newest is None or newest.step is None else f" from step {newest.step}"
    return f"{limit}; continues{step} after a requeue"
