"""A document's text as a Terraform template.

The document is rendered with a mark in place of each value that Terraform sets. Each mark then
becomes an expression of Terraform's template language, and the rest of the text is escaped.
"""

from __future__ import annotations

import re

_BEGIN, _END = "\ue000", "\ue001"
"""Private-use characters: no document contains them."""

_EXPRESSION = "[^\ue000\ue001]+"
_MARK = re.compile(f"{_BEGIN}({_EXPRESSION}){_END}")
_QUOTED = re.compile(r'"\\ue000((?:(?!\\ue00)[^"])+)\\ue001"')
_IN_QUOTES = re.compile(r"\\ue000((?:(?!\\ue00)[^\"])+)\\ue001")


def mark(expression: str) -> str:
    """Stands for ``expression``, which contains neither quotes nor backslashes."""
    if set(expression) & set('"\\'):
        raise ValueError(f"a mark cannot contain quotes: {expression}")
    return f"{_BEGIN}{expression}{_END}"


def template(marked: str) -> str:
    """The Terraform template for a text with marks.

    A mark that the filter ``toyaml`` has quoted becomes ``jsonencode``, which quotes the value. A
    mark in other text becomes the value as it is: its pattern must exclude characters that the
    document would not take there.
    """
    for escaped in ("$", "%"):
        marked = marked.replace(f"{escaped}{{", f"{escaped}{escaped}{{")
    text = _QUOTED.sub(r"${jsonencode(\1)}", marked)
    text = _IN_QUOTES.sub(r"${\1}", text)
    text = _MARK.sub(r"${\1}", text)
    left = re.search(r"\\ue00[01]|[\ue000\ue001]", text)
    if left:
        raise ValueError(f"a mark is left at {text[left.start() : left.start() + 80]!r}")
    return text
