"""slurmd's own view of this node: ``scontrol show slurmd``, which asks the local slurmd alone."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

from holdfast.adapters.command import PATH, run
from holdfast.errors import CommandError, ProbeError, Unavailable
from holdfast.slurm.cli import ENV
from slurm_hooks.facts import SlurmdFacts

_NOBODY = re.compile(r"connection refused|connect failure|unable to contact", re.IGNORECASE)


def open_probe(timeout_s: float, folder: str = "") -> Callable[[object], Iterator[SlurmdFacts]]:
    """Answers with the facts. Raises ProbeError where there is no scontrol to ask with, CommandError
    where it fails for a reason of its own.
    """
    program = shutil.which("scontrol", path=folder or PATH)

    def serve(_request: object) -> Iterator[SlurmdFacts]:
        if program is None:
            raise ProbeError(f"there is no scontrol in {folder or PATH} (slurm.bin)")
        yield ask(program, timeout_s)

    return serve


def ask(program: str, timeout_s: float) -> SlurmdFacts:
    """One question."""
    try:
        said = run([program, "show", "slurmd"], timeout_s=timeout_s, env=ENV)
    except Unavailable:
        return SlurmdFacts(answers=False, detail=f"no answer in {timeout_s:g} s")
    except CommandError as error:
        if _NOBODY.search(str(error)):
            return SlurmdFacts(answers=False, detail="nobody listens where slurmd should")
        raise
    return parse(said, time.time())


def parse(text: str, now: float) -> SlurmdFacts:
    """``Name = value`` lines, with times as in UTC or epoch seconds. ``now`` in epoch seconds."""
    said = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            said[name.strip()] = value.strip()
    heard = _moment(said.get("Last slurmctld msg time", ""))
    return SlurmdFacts(
        answers=True,
        version=said.get("Version", ""),
        heard_s=None if heard is None else max(0.0, now - heard),
    )


def _moment(text: str) -> float | None:
    """None for ``NONE`` and whatever else is no time."""
    try:
        if text.isdigit() and len(text) < 12:
            return float(text)
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
