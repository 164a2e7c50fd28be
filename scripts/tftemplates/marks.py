"""A document's text as a template of Terraform or Helm.

The document is rendered with a mark in place of each value that Terraform or Helm sets. Each mark
then becomes an expression of that template language, and the rest of the text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BEGIN, _END, _BLOCK = "\ue000", "\ue001", "\ue002"
"""Private-use characters: no document contains them."""

_EXPRESSION = "[^\ue000\ue001]+"
_MARK = re.compile(f"{_BEGIN}({_EXPRESSION}){_END}")
_BLOCK_BEGIN = re.compile(f"^# {_BLOCK}({_EXPRESSION}){_END}$", re.MULTILINE)
_BLOCK_END = re.compile(f"^# {_BLOCK}{_END}$", re.MULTILINE)
_QUOTED = re.compile(r'"\\ue000((?:(?!\\ue00)[^"])+)\\ue001"')
_IN_QUOTES = re.compile(r"\\ue000((?:(?!\\ue00)[^\"])+)\\ue001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A template language. ``escapes``: what it would read as an expression → that text, escaped.

    ``quoted``, ``plain``: what a mark becomes, as a replacement of ``re.sub``. ``\\1`` is the mark's
    expression. ``begin``, ``end``: the lines around a block, with its condition.
    """

    escapes: Mapping[str, str]
    quoted: str
    plain: str
    begin: str
    end: str


TERRAFORM = Language(
    escapes={"${": "$${", "%{": "%%{"},
    quoted=r"${jsonencode(\1)}",
    plain=r"${\1}",
    begin=r"%{ if \1 ~}",
    end="%{ endif ~}",
)


def mark(expression: str) -> str:
    """Stands for ``expression``, which contains neither quotes nor backslashes."""
    if set(expression) & set('"\\'):
        raise ValueError(f"a mark cannot contain quotes: {expression}")
    return f"{_BEGIN}{expression}{_END}"


def block(condition: str) -> Mapping[str, str]:
    """Stands for the lines around a part of a document that is there if ``condition`` holds.

    To YAML they are comments. The expression may contain quotes.
    """
    return {"begin": f"# {_BLOCK}{condition}{_END}\n", "end": f"# {_BLOCK}{_END}\n"}


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
    text = _BLOCK_BEGIN.sub(language.begin, marked)
    text = _BLOCK_END.sub(language.end, text)
    text = _QUOTED.sub(language.quoted, text)
    text = _IN_QUOTES.sub(language.plain, text)
    text = _MARK.sub(language.plain, text)
    left = re.search(r"\\ue00[012]|[\ue000-\ue002]", text)
    if left:
        raise ValueError(f"a mark is left at {text[left.start() : left.start() + 80]!r}")
    return text
