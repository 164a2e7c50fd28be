"""The page with all figures: a part for each set-up. A partial run replaces only its own parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from measure import figures
from measure.figures import Figure

MAIN = "Benchmarks"
_HEAD = "<!-- Written by scripts/bench; do not edit. -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Figures that were measured together: by ``command``, on the machine that ``about`` describes."""

    title: str
    command: str
    about: tuple[str, ...]
    figures: tuple[Figure, ...]


def updated(text: str, parts: Sequence[Part]) -> str:
    """The page ``text`` with these parts in the place of those with the same titles, the main part first."""
    found = re.split(r"^#+ (.+)\n", text, flags=re.MULTILINE)[1:]
    bodies = dict(zip(found[::2], found[1::2], strict=True))
    bodies |= {part.title: _body(part) for part in parts}
    titles = sorted(bodies, key=lambda title: title != MAIN)
    marks = {title: "#" if title == MAIN else "##" for title in titles}
    return "\n".join(f"{marks[title]} {title}\n\n{bodies[title].strip()}\n" for title in titles)


def _body(part: Part) -> str:
    lines = [
        *([_HEAD, ""] if part.title == MAIN else []),
        f"Measured on {datetime.now(timezone.utc):%Y-%m-%d} with `{part.command}`:",
        "",
        *(f"- {line}" for line in part.about),
        "",
        "Medians, in brackets p99 and the number of measurements. Notes begin with the name of the figure.",
        "",
        *figures.markdown(part.figures),
    ]
    return "\n".join(lines)
