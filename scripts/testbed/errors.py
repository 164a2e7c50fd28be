"""The sandbox's errors: one line each that names the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SandboxError(Exception):
    """A problem that the user can fix; the text is shown to them (exit status 2)."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` or the list of known names, to append to an error message."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f" (there is: {', '.join(names)})" if names else ""
