"""What slurmd reports: ``scontrol show slurmd``, which contacts only the local slurmd."""

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

_NOT_LISTENING = re.compile(r"connection refused|connect failure|unable to contact", re.IGNORECASE)


def open_probe(timeout_s: float, folder: str = "") -> Callable[[object], Iterator[SlurmdFacts]]:
    """Answers with the facts. Raises ProbeError if scontrol is not installed, CommandError if it fails
    for another reason than slurmd.
    """
    program = shutil.which("scontrol", path=folder or PATH)

    def serve(_request: object) -> Iterator[SlurmdFacts]:
        if program is None:
            raise ProbeError(f"scontrol not found in {folder or PATH} (slurm.bin)")
        yield ask(program, timeout_s)

    return serve


def ask(program: str, timeout_s: float) -> SlurmdFacts:
    """One call of scontrol."""
    try:
        output = run([program, "show", "slurmd"], timeout_s=timeout_s, env=ENV)
    except Unavailable:
        return SlurmdFacts(answers=False, detail=f"no answer in {timeout_s:g} s")
    except CommandError as error:
        if _NOT_LISTENING.search(str(error)):
            return SlurmdFacts(answers=False, detail="not listening on its port")
        raise
    return parse(output, time.time())


def parse(text: str, now: float) -> SlurmdFacts:
    """``Name = value`` lines; times are in UTC or epoch seconds. ``now`` in epoch seconds."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip()] = value.strip()
    heard = _moment(values.get("Last slurmctld msg time", ""))
    return SlurmdFacts(
        answers=True,
        version=values.get("Version", ""),
        heard_s=None if heard is None else max(0.0, now - heard),
    )


def _moment(text: str) -> float | None:
    """None for ``NONE`` and anything else that is no time."""
    try:
        if text.isdigit() and len(text) < 12:
            return float(text)
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
