"""Numbers and suggestions in messages. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def counted(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 node``, ``2 nodes``. ``plural``: where it is not formed by an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'NAME'?`` where ``word`` is similar to a known name, else empty."""
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.6)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def suggest(word: str, known: Iterable[str]) -> str:
    """As ``did_you_mean``; all known names where none is similar."""
    names = sorted(known)
    if not names:
        return "; there are none"
    return did_you_mean(word, names) or f"; known are {', '.join(names)}"
