"""The table of ``holdfast check``. Pure.

Problems come first, each with what to do. A check without a problem takes one line, however many
GPUs have the same value. A consequence comes below its cause and is not counted.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from holdfast.text.printable import line as one_line
from holdfast.text.remedy import NEEDS
from holdfast.vocabulary import Action
from slurm_hooks.cli.check.layout import lines
from slurm_hooks.cli.check.row import BAD, BLIND, FATAL, OK, ORDER, UNSEEN, Row, Style

_NUMBER = re.compile(r"(?<![\w.:/-])-?\d+(?:\.\d+)?(?![\w:/]|\.\d)")


def is_bad(rows: Iterable[Row]) -> bool:
    """True when a row requires an action."""
    return any(row.verdict in BAD for row in rows)


def page(node: str, rows: Sequence[Row], style: Style, notes: Sequence[str] = ()) -> str:
    """The table, and below it a summary, required actions, effects and ``notes``."""
    shown = list(rows) if style.all_rows else list(condensed(rows))
    # Most checks have nothing to look at on most machines; their names are in one line below.
    shown = [row for row in shown if row.verdict != UNSEEN or style.all_rows]
    shown = _in_order(shown)
    below = [*_below(node, rows, style)]
    for note in notes:
        below += textwrap.wrap(note, style.width)
    return "\n".join((*lines(shown, style), *map(one_line, below)))


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """The worst first, rows of one subject together (a lost GPU shows in many checks), causes before
    their consequences.
    """
    places: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: (not row.cause, ORDER.index(row.verdict))):
        places.setdefault(row.name, len(places))

    def key(row: Row) -> tuple[int, int, bool]:
        rank = ORDER.index(row.verdict)
        return (rank, places[row.name] if row.verdict in BAD else 0, not row.cause)

    return sorted(rows, key=key)


def summary(node: str, rows: Sequence[Row]) -> str:
    """One line: the number of faults by severity, with their codes, and of checks that are ok."""
    parts = []
    for verdict in ORDER[:-2]:
        matching = [row for row in rows if row.verdict == verdict and not row.consequence_of]
        if matching:
            names = list(dict.fromkeys(row.code or row.name for row in matching))
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            parts.append(f"{len(names)} {verdict} ({', '.join(names[:4])}{more})")
    passed = {row.check for row in rows if row.verdict == OK} - {
        row.check for row in rows if row.verdict in BAD
    }
    parts.append(f"{len(passed)} check{'s' if len(passed) != 1 else ''} ok")
    return f"{node}: {', '.join(parts)}"


def _below(node: str, rows: Sequence[Row], style: Style) -> Iterator[str]:
    width = style.width
    unseen = sorted(set(_unseen(rows)))
    if unseen and not style.all_rows:
        yield from textwrap.wrap(f"not present, not checked: {', '.join(unseen)}", width)
    yield from textwrap.wrap(summary(node, rows), width)
    for action, what in _needed(rows).items():
        yield from textwrap.wrap(f"needs {NEEDS[action]}: {names(what, whole=True)}", width)
    effects: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.effect and not row.consequence_of:
            effects.setdefault(row.effect, {})[row.code] = None
    for effect, codes in effects.items():
        yield from textwrap.wrap(f"{effect}: {', '.join(codes)}", width)


def _unseen(rows: Sequence[Row]) -> Iterator[str]:
    """Checks that found nothing to check; of other checks, the subjects that are not present.
    ``probe_blind`` is left out: it has no subject of its own.
    """
    present = {row.check for row in rows if row.verdict != UNSEEN}
    for row in rows:
        if row.verdict == UNSEEN and row.check != "probe_blind":
            yield f"{row.check} {row.name}" if row.check in present else row.check


_STRENGTH = {action: rank for rank, action in enumerate(Action)}


def _needed(rows: Sequence[Row]) -> dict[Action, list[str]]:
    """The required actions: for each subject with a fatal fault the strongest one that a fault
    requires.
    """
    needed: dict[str, Action] = {}
    for row in rows:
        if row.verdict == FATAL and row.required_action is not Action.NONE:
            needed[row.name] = max(
                row.required_action,
                needed.get(row.name, row.required_action),
                key=_STRENGTH.__getitem__,
            )
    return {
        action: [name for name in needed if needed[name] is action]
        for action in Action
        if action in needed.values()
    }


# --- fewer rows -----------------------------------------------------------------------------------


def condensed(rows: Iterable[Row]) -> Iterator[Row]:
    """Merges rows of one check that differ only in subject and numbers; numbers become ranges.

    Blind rows are merged for each probe, since the reason is the same for all its checks.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        check = row.check if row.verdict not in (BLIND, OK) else ""
        if row.verdict == OK:
            check = f"{row.name} {row.value}" if row.name == "node" else row.check
        value = "" if row.verdict == UNSEEN else _NUMBER.sub("#", row.value)
        mode = row.mode if check else ""
        key = (check, mode, row.verdict, row.code, row.consequence_of, row.limit, value)
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        yield _joined(group) if len(group) > 1 else group[0]


def _joined(group: Sequence[Row]) -> Row:
    first = group[0]
    checks = list(dict.fromkeys(row.check for row in group))
    remedy = first.remedy
    if first.verdict == BLIND and len(checks) > 1:
        remedy = f"{remedy} Affected checks: {', '.join(checks)}."
    return Row(
        check=_together(checks),
        mode=first.mode,
        subject=first.subject,
        name=names(list(dict.fromkeys(row.name for row in group)), whole=first.verdict in BAD),
        value=ranged([row.value for row in group]),
        limit=first.limit,
        verdict=first.verdict,
        code=first.code,
        remedy=remedy,
        effect=first.effect,
        required_action=first.required_action,
        cause=first.cause,
        consequence_of=first.consequence_of,
    )


def _together(checks: Sequence[str]) -> str:
    """`kernel_* (8)` for checks of one family, else the first and how many more."""
    if len(checks) == 1:
        return checks[0]
    # The whole list would be wider than the column.
    family = {check.partition("_")[0] for check in checks}
    return (
        f"{family.pop()}_* ({len(checks)})"
        if len(family) == 1
        else f"{checks[0]} +{len(checks) - 1}"
    )


def names(of: Sequence[str], *, whole: bool = False) -> str:
    """`GPU 0-2, 5` for GPUs; of others the first one and the number of the rest (``whole``: all)."""
    indexes = sorted(int(name[4:]) for name in of if re.fullmatch(r"GPU \d+", name))
    others = [name for name in of if not re.fullmatch(r"GPU \d+", name)]
    gpus = [f"GPU {_spans(indexes)}"] if indexes else []
    if len(others) <= 2 or whole:
        return ", ".join((*gpus, *others))
    return f"{', '.join((*gpus, others[0]))} and {len(others) - 1} more"


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)


def ranged(values: Sequence[str]) -> str:
    """One text for values that differ only in numbers: `margin 56 to 60 C`."""
    columns = [_NUMBER.findall(value) for value in values]

    def span(place: int) -> str:
        numbers = sorted((column[place] for column in columns), key=float)
        low, high = numbers[0], numbers[-1]
        return low if float(low) == float(high) else f"{low} to {high}"

    filled = iter([span(place) for place in range(len(columns[0]))])
    return _NUMBER.sub(lambda _: next(filled), values[0])
