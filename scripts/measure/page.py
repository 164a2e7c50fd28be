"""The page with all figures: a part for each set-up. A run replaces only its own parts, and a run of some
figures only those. Pure.
"""

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


def with_some(text: str, part: Part) -> str:
    """The page ``text`` with the figures of ``part`` in the place of those with the same names, new ones at the
    end. Their notes say when they were measured.
    """
    names = {figure.name for figure in part.figures}
    when = f"measured on {datetime.now(timezone.utc):%Y-%m-%d} with `{part.command}`"
    new = {figure.name: figures.row(figure) for figure in part.figures}
    lines: list[str] = []
    dropped = False  # a note of one of these figures, which may go on for several lines
    for line in text.splitlines():
        name = line.split("|")[1].strip() if line.startswith("| ") else ""
        dropped = line.startswith(tuple(f"- {one}:" for one in names)) or (
            dropped and line.startswith("  ")
        )
        if name in new:
            lines.append(new.pop(name))
        elif not dropped:
            lines.append(line)
    if new:
        rows = [at for at, line in enumerate(lines) if line.startswith("| ")]
        main = [at for at in rows if not any(line.startswith("## ") for line in lines[:at])]
        if not main:
            raise ValueError("the page has no table; run scripts/bench without names")
        lines[main[-1] + 1 : main[-1] + 1] = new.values()
    end = next((at for at, line in enumerate(lines) if line.startswith("## ")), len(lines))
    while not lines[end - 1]:
        end -= 1
    notes = [
        f"- {figure.name}: {note}" for figure in part.figures for note in (when, *figure.notes)
    ]
    return "\n".join([*lines[:end], *notes, *lines[end:]]) + "\n"


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
