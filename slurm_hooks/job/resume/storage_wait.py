"""Waits while the storage of the checkpoints does not answer: EIO, ESTALE and the like pass.

A start without the checkpoints would begin from the beginning, or from an older one, and lose work. A
start without the journal would lose the counts of earlier attempts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.checkpoints.storage_errors import is_transient, names_transient
from slurm_hooks.job.log import say

DELAYS_S = (2.0, 8.0, 20.0, 60.0, 300.0, 600.0, 1200.0)
"""Waits between two tries, 36 minutes together."""
_MAX_TRIES_FOR_NEWER = 3
"""Waits for a newer checkpoint that cannot be read while an older one can: half a minute."""

Pause = Callable[[float], bool]
"""Sleeps; False if the job is ending."""


def wait_until_readable(folder: Path, journal: Path, pause: Pause) -> str:
    """Waits until folder and journal can be read. Returns the error that remains, else empty.

    A missing folder and a missing permission are no outage: they are reported later.
    """
    for delay_s in (*DELAYS_S, None):
        error = _error(folder, journal)
        if not error or delay_s is None:
            return error
        say(f"{folder}: {error}; next try in {delay_s:g} s")
        if not pause(delay_s):
            return error
    return ""


def choose_when_readable(choose: Callable[[], Choice], pause: Pause) -> Choice:
    """The choice, repeated while a transient error hides a checkpoint that it would prefer."""
    for count, delay_s in enumerate(DELAYS_S):
        choice = choose()
        hidden = [one for one in choice.rejected if one.unreadable and names_transient(one.reason)]
        waits = len(DELAYS_S) if choice.chosen is None else _MAX_TRIES_FOR_NEWER
        if not hidden or count >= waits:
            return choice
        say(f"{hidden[0].path.name}: {hidden[0].reason}; next try in {delay_s:g} s")
        if not pause(delay_s):
            return choice
    return choose()


def _error(folder: Path, journal: Path) -> str:
    try:
        next(safe_file.scan(folder, most=2), None)
        with safe_file.open_regular(journal).file as file:
            file.read(1)
    except OSError as error:
        return (error.strerror or str(error)) if is_transient(error) else ""
    return ""
