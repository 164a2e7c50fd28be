"""A document that ``holdfast render`` prints: a template, and the values that a person may set.

Every value has a pattern and a default. All values are checked before anything is rendered.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import UsageError
from holdfast.render import templates

REQUIRED = ""
"""The default of a value that has none. It must be set, unless its pattern allows empty text."""

NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
PATH = r"/[\w./@+-]*"
JOB_PATH = r"/[\w./%@+-]*"
"""With Slurm's %j and the like. A percent sign has another meaning in cron and systemd."""
NUMBER = r"[1-9][0-9]{0,5}"
BOOL = r"true|false"
IMAGE = r"[\w.:/@-]+"
IMAGE_BY_DIGEST = r"[\w.:/-]+@sha256:[0-9a-f]{64}"
"""For privileged pods: a tag can be moved to another image, a digest cannot."""

_MEANT = {
    NAME: "a Kubernetes name: small letters, digits and -",
    PATH: "an absolute path without blanks and percent signs",
    JOB_PATH: "an absolute path without blanks",
    NUMBER: "a whole number from 1 to 999999",
    BOOL: "true or false",
    IMAGE: "an image's name",
    IMAGE_BY_DIGEST: "an image with its digest (registry.example.org/name@sha256:… with 64 digits)",
}
"""The patterns in words, for error messages."""


class Value(NamedTuple):
    """One value that a person may set: its pattern, its default, its meaning."""

    pattern: str
    default: str
    about: str

    @property
    def required(self) -> bool:
        return self.default == REQUIRED and not re.fullmatch(self.pattern, REQUIRED)

    def refusal(self, given: str) -> str:
        """The reason why ``given`` is refused. Only for a text that does not match the pattern."""
        words = self.pattern.split("|")
        # A pattern in brackets with a question mark is one that may be empty.
        meant = _MEANT.get(self.pattern) or _MEANT.get(self.pattern[1:-2])
        if meant is None and all(re.fullmatch(r"[\w-]+", word) for word in words):
            meant = f"one of {', '.join(words)}"
        return (
            f"must be {meant}, got {given!r}" if meant else f"{given!r} does not fit: {self.about}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document. ``template`` is a file in the folder ``templates`` of ``package``.

    The template gets every value as text, and what ``context`` derives from the checked values.
    """

    about: str
    package: str
    template: str
    values: Mapping[str, Value] = field(default_factory=dict)
    context: Callable[[Mapping[str, str]], Mapping[str, object]] = dict

    def text(self, what: str, given: Mapping[str, str]) -> str:
        """The rendered document. Raises ``UsageError`` for an unknown name or an invalid value."""
        for name in given:
            if name not in self.values:
                hint = suggest(name, self.values)
                raise UsageError(f"{what}: no value is called {name!r}{hint}")
        chosen = {name: str(given.get(name, value.default)) for name, value in self.values.items()}
        for name, value in self.values.items():
            if not chosen[name] and value.required:
                remedy = f"give it with --set {name}=… ({value.about})"
                raise UsageError(f"{what}: {name} has no default; {remedy}")
            if not re.fullmatch(value.pattern, chosen[name]):
                raise UsageError(f"{what}: {name}: {value.refusal(chosen[name])}")
        return templates.render(self.package, self.template, {**chosen, **self.context(chosen)})


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(names)}" if names else "; it takes none"
