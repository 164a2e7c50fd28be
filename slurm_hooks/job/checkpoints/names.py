"""Reads a checkpoint's name: its step, or that it is a temporary name."""

from __future__ import annotations

import re

# A unit, then the number: checkpoint_epoch_5, step-1000, iter_0000100, global_step200,
# checkpoint-7.
_COUNTED = re.compile(
    r"(?:^|[^a-z])(?P<word>global[_-]?step|step|iteration|iter|epoch|ep|checkpoint|ckpt)s?[._=-]?(?P<number>\d+)(?!\d)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_TEMPORARY = re.compile(
    r"(?:^|[._-])(?:tmp|temp|part|partial|incomplete|unfinished|inprogress|writing)(?:$|[._-])|~$|^\.",
    re.IGNORECASE,
)
_UNIT = {"epoch": "epoch", "ep": "epoch", "checkpoint": "number", "ckpt": "number"}


def step_in(stem: str) -> tuple[int | None, str]:
    """The step in a name without its suffix, and its unit: step, epoch or number.

    >>> step_in("checkpoint_epoch_5"), step_in("llama-7b-step-1200"), step_in("final")
    ((5, 'epoch'), (1200, 'step'), (None, ''))
    """
    counted = list(_COUNTED.finditer(stem))
    # epoch=3-step=1200: the finer unit counts.
    for unit in ("step", "epoch", "number"):
        for match in reversed(counted):
            if _UNIT.get(match["word"].lower(), "step") == unit:
                return int(match["number"]), unit
    numbers = _NUMBER.findall(stem)
    return (int(numbers[-1]), "number") if numbers else (None, "")


def is_temporary(name: str) -> bool:
    """True for names that writers use before the final rename (``x.pt.tmp``, ``.x.pt``,
    ``tmp_step_5``).
    """
    return bool(_TEMPORARY.search(name))
