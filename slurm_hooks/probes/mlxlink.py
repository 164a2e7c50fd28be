"""Bit error rates of InfiniBand links as the card's physical layer counts them: ``mlxlink``, where
NVIDIA's firmware tools are installed. sysfs has symbol errors only; errors that retransmission below
it repairs (the effective error rate) are told by nobody else.

It reads registers and changes nothing. The JSON's keys are those of mlxlink in MFT 4.2x and later
(NVIDIA MFT documentation, mlxlink utility; ``15E-255`` is its way to write none).
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
from slurm_hooks.probes import files

_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?(?:[Ee][-+]?\d{1,3})?")
_SECTION = "Physical Counters and BER Info"


def open_probe(
    sysfs: Path, timeout_s: float, path: str = PATH
) -> Callable[[object], Iterator[tuple[LinkFacts, ...]]]:
    """Answers with every link that tells, or with nothing where there is no mlxlink. Raises
    ProbeError where none tells.
    """
    program = shutil.which("mlxlink", path=path)

    def serve(_request: object) -> Iterator[tuple[LinkFacts, ...]]:
        devices = files.names(f"{sysfs}/class/infiniband")
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
        said: Any = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        said = None
    for key in ("result", "output", _SECTION):
        said = said.get(key) if isinstance(said, dict) else None
    if not isinstance(said, dict):
        first = next(iter(text.strip().splitlines()), "nothing")
        raise ProbeError(f"mlxlink of {device} said: {first[:200]}")
    return LinkFacts(
        device=device,
        minutes=_number(said.get("Time Since Last Clear [Min]")),
        effective_ber=_number(said.get("Effective Physical BER")),
        symbol_ber=_number(said.get("Symbol BER")),
    )


def _number(said: object) -> float | None:
    """``2E-12`` as 2e-12; None for ``N/A``. ``15E-255`` is as good as 0."""
    text = said.strip() if isinstance(said, str) else ""
    return float(text) if _NUMBER.fullmatch(text) else None
