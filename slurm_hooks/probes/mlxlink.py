"""Bit error rates of InfiniBand links from the card's physical layer: ``mlxlink``, where NVIDIA's
firmware tools are installed. sysfs has only symbol errors; no other source has the errors that
retransmission repairs (the effective bit error rate).

It reads registers and changes nothing. The JSON keys are those of mlxlink in MFT 4.2x and later
(NVIDIA MFT documentation, mlxlink utility; it writes ``15E-255`` for zero).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.adapters.command import PATH, complete
from holdfast.errors import CommandError, ProbeError
from slurm_hooks.facts import LinkFacts
from slurm_hooks.node import kernel_files

_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?(?:[Ee][-+]?\d{1,3})?")
_SECTION = "Physical Counters and BER Info"


def open_probe(
    sysfs: Path, timeout_s: float, path: str = PATH
) -> Callable[[object], Iterator[tuple[LinkFacts, ...]]]:
    """Answers with every link that could be read, or with nothing if mlxlink is not installed.
    Raises ProbeError if no link could be read.
    """
    program = shutil.which("mlxlink", path=path)

    def serve(_request: object) -> Iterator[tuple[LinkFacts, ...]]:
        devices = kernel_files.names(f"{sysfs}/class/infiniband")
        if program is None or not devices:
            return
        found, why = [], ""
        for device in devices:
            try:
                done = complete([program, "-d", device, "-c", "--json"], timeout_s=timeout_s)
                found.append(parse(device, done.out))
            except (CommandError, ProbeError) as problem:
                why = str(problem)
        if not found:
            raise ProbeError(why)
        yield tuple(found)

    return serve


def parse(device: str, text: str) -> LinkFacts:
    """One link's report. Raises ProbeError for anything else."""
    start = text.find("{")
    try:
        values: Any = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        values = None
    for key in ("result", "output", _SECTION):
        values = values.get(key) if isinstance(values, dict) else None
    if not isinstance(values, dict):
        first = next(iter(text.strip().splitlines()), "no output")
        raise ProbeError(f"mlxlink of {device}: {first[:200]}")
    return LinkFacts(
        device=device,
        minutes=_number(values.get("Time Since Last Clear [Min]")),
        effective_ber=_number(values.get("Effective Physical BER")),
        symbol_ber=_number(values.get("Symbol BER")),
    )


def _number(value: object) -> float | None:
    """``2E-12`` as 2e-12; None for ``N/A``. ``15E-255`` is close enough to 0."""
    text = value.strip() if isinstance(value, str) else ""
    return float(text) if _NUMBER.fullmatch(text) else None
