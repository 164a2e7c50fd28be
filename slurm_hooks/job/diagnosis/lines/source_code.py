"""Tells the source code in a traceback from what the program printed.

A traceback shows a ``File`` line and below it, indented further, the source code, in which any word of an
error may stand. Ranks that print at the same time are told apart by their prefix (``[rank3]:``, ``3:``).
"""

from __future__ import annotations

import re

_PREFIX = r"(?P<prefix>(?:(?:\[\w+\]|\d{1,6}): ?)*(?: *\|)?)"
_SOURCE_FILE = re.compile(rf"^{_PREFIX}(?P<indent> *)File \".*\", line \d+")
_INDENTED = re.compile(rf"^{_PREFIX}(?P<indent> *)(?P<rest>\S?)")
_MAX_LINES = 200


def is_source(text: str, before: bytes) -> bool:
    """True if the line is source code of the traceback in the output ``before`` it, or names its file."""
    if _SOURCE_FILE.match(text):
        return True
    here = _INDENTED.match(text)
    if here is None or not here["indent"]:
        return False
    indent = len(here["indent"])
    lines = before.decode("utf-8", "replace").split("\n")
    for line in reversed(lines[-_MAX_LINES - 1 : -1]):
        other = _INDENTED.match(line)
        if other is None or other["prefix"] != here["prefix"] or not other["rest"]:
            continue
        if len(other["indent"]) >= indent:
            continue
        if _SOURCE_FILE.match(line):
            return True
        indent = len(other["indent"])
        if not indent:
            return False
    return False
