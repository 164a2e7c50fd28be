"""Text that users, logs and other programs wrote, made safe to print. Pure.

A control character can move the cursor, set the terminal's title or write to the terminal's input; a
bidirectional mark changes the order in which a line is shown. Both are printed as escapes like ``\\x1b``
or ``\\u202e``. What ``str.isprintable`` calls printable is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def line(text: str) -> str:
    """One line: line breaks and tabs are escaped too."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def page(text: str) -> str:
    """Any number of lines: line feeds and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def folded(text: str) -> str:
    """One line with a blank for each character that cannot be printed: for logs and Slurm's comments."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def json_text(text: str) -> str:
    """Indented JSON that is safe to print and still the same JSON."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escaped(c) for c in text)


def values(value: Any) -> Any:
    """The same value, in which each text (keys too) is one safe line."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, Mapping):
        return {values(key): values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [values(item) for item in value]
    return value


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_escaped(char: str) -> str:
    """UTF-16 code units, as JSON requires (RFC 8259, section 7)."""
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2))
