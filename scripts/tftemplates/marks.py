"""A document's text as a template of Terraform or Helm.

The document is rendered with a mark in place of each value that Terraform or Helm sets. Each mark
then becomes an expression of that template language, and the rest of the text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BEGIN, _END = "\ue000", "\ue001"
"""Private-use characters: no document contains them."""

_EXPRESSION = "[^\ue000\ue001]+"
_MARK = re.compile(f"{_BEGIN}({_EXPRESSION}){_END}")
_QUOTED = re.compile(r'"\\ue000((?:(?!\\ue00)[^"])+)\\ue001"')
_IN_QUOTES = re.compile(r"\\ue000((?:(?!\\ue00)[^\"])+)\\ue001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A template language. ``escapes``: what it would read as an expression → that text, escaped.

    ``quoted``, ``plain``: what a mark becomes, as a replacement of ``re.sub``. ``\\1`` is the mark's
    expression.
    """

    escapes: Mapping[str, str]
    quoted: str
    plain: str


TERRAFORM = Language(
    escapes={"${": "$${", "%{": "%%{"}, quoted=r"${jsonencode(\1)}", plain=r"${\1}"
)


def mark(expression: str) -> str:
    """Stands for ``expression``, which contains neither quotes nor backslashes."""
    if set(expression) & set('"\\'):
        raise ValueError(f"a mark cannot contain quotes: {expression}")
    return f"{_BEGIN}{expression}{_END}"


def plain(marked: str) -> str:
    """The text without its marks."""
    return _MARK.sub("", marked)


def template(marked: str, language: Language = TERRAFORM) -> str:
    """The template for a text with marks.

    A mark that the filter ``toyaml`` has quoted becomes ``language.quoted``, which quotes the value.
    A mark in other text becomes ``language.plain``, the value as it is: its pattern must exclude
    characters that the document would not take there.
    """
    for found, escaped in language.escapes.items():
        marked = marked.replace(found, escaped)
    text = _QUOTED.sub(language.quoted, marked)
    text = _IN_QUOTES.sub(language.plain, text)
    text = _MARK.sub(language.plain, text)
    left = re.search(r"\\ue00[01]|[\ue000\ue001]", text)
    if left:
        raise ValueError(f"a mark is left at {text[left.start() : left.start() + 80]!r}")
    return text
