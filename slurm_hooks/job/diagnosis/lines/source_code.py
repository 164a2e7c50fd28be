"""Tells the source code in a traceback from what the program printed, and errors that Python ignored.

A traceback shows a ``File`` line and below it, indented further, the source code, in which any word of an
error may stand. Ranks that print at the same time are told apart by their prefix (``[rank3]:``, ``3:``).

Python prints an error of a destructor or of a log handler with its traceback, and goes on.
"""

from __future__ import annotations

import re

_PREFIX = r"(?P<prefix>(?:(?:\[\w+\]|\d{1,6}): ?)*(?: *\|)?)"
_SOURCE_FILE = re.compile(rf"^{_PREFIX}(?P<indent> *)File \".*\", line \d+")
_INDENTED = re.compile(rf"^{_PREFIX}(?P<indent> *)(?P<rest>\S?)")
_IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b|--- Logging error ---")
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct")
_HINT = re.compile(rb"Exception ignored |--- Logging error ---")
_TRACEBACK = "Traceback (most recent call last)"
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


def is_ignored(text: str, before: bytes) -> bool:
    """True if the line is the error at the end of a traceback that Python printed and then ignored."""
    here = _INDENTED.match(text)
    if here is None or here["indent"] or not _HINT.search(before):
        return False
    lines = before.decode("utf-8", "replace").split("\n")
    in_traceback, earlier_error = True, False
    for line in reversed(lines[-_MAX_LINES - 1 : -1]):
        other = _INDENTED.match(line)
        if other is None or other["prefix"] != here["prefix"] or not other["rest"]:
            continue
        printed = line[other.end("indent") :]
        if not in_traceback and not _CHAINED.match(printed):
            return _IGNORED.match(printed) is not None
        if not in_traceback:
            in_traceback, earlier_error = True, True
        elif printed.startswith(_TRACEBACK):
            in_traceback = False
        elif not other["indent"]:
            if not earlier_error:
                return False
            earlier_error = False
    return False
