"""What can go wrong in the sandbox, always one line that names the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SandboxError(Exception):
    """Something that a person can put right; the text is what they read (exit status 2)."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` or the list of what there is, ready to append to an error's text."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f" (there is: {', '.join(names)})" if names else ""
