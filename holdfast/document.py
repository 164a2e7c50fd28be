"""What ``holdfast render`` prints: a text with places to fill, each with a pattern and a default.

No template engine: a node has none, and neither loops nor conditions are wanted in a manifest that
people read before they apply it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import UsageError

REQUIRED = ""
"""The default of a value that has none. Where its pattern takes no empty text, it must be given."""

NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
PATH = r"/[\w./@+-]*"
JOB_PATH = r"/[\w./%@+-]*"
"""With Slurm's %j and its like. To cron and systemd a percent sign says something else."""
NUMBER = r"[1-9][0-9]{0,5}"
BOOL = r"true|false"
IMAGE = r"[\w.:/@-]+"
IMAGE_BY_DIGEST = r"[\w.:/-]+@sha256:[0-9a-f]{64}"
"""For what has rights that others want: a tag is whatever its registry says today."""

_MEANT = {
    NAME: "a Kubernetes name: small letters, digits and -",
    PATH: "an absolute path without blanks and percent signs",
    JOB_PATH: "an absolute path without blanks",
    NUMBER: "a whole number from 1 to 999999",
    BOOL: "true or false",
    IMAGE: "an image's name",
    IMAGE_BY_DIGEST: "an image with its digest (registry.example.org/name@sha256:… with 64 digits)",
}
"""These patterns in words, for a person whose value has another form."""

_PLACE = re.compile(r"\{\{ (\w+)( \| json)? \}\}")


class Value(NamedTuple):
    """One value that a person may set: what it may look like, its default, what it means."""

    pattern: str
    default: str
    about: str

    @property
    def required(self) -> bool:
        return self.default == REQUIRED and not re.fullmatch(self.pattern, REQUIRED)

    def refusal(self, given: str) -> str:
        """Why ``given`` cannot be taken, in words. Only for what the pattern refuses."""
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
    """One thing to render. ``make`` gets every value, checked, and returns the text."""

    about: str
    make: Callable[[Mapping[str, str]], str]
    values: Mapping[str, Value] = field(default_factory=dict)

    def text(self, what: str, given: Mapping[str, str]) -> str:
        """The document. Raises ``UsageError`` for a name or a value that it cannot take."""
        for name in given:
            if name not in self.values:
                hint = suggest(name, self.values)
                raise UsageError(f"{what}: no value is called {name!r}{hint}")
        chosen = {name: str(given.get(name, one.default)) for name, one in self.values.items()}
        for name, one in self.values.items():
            if not chosen[name] and one.required:
                remedy = f"give it with --set {name}=… ({one.about})"
                raise UsageError(f"{what}: {name} has no default; {remedy}")
            if not re.fullmatch(one.pattern, chosen[name]):
                raise UsageError(f"{what}: {name}: {one.refusal(chosen[name])}")
        return self.make(chosen)


def filled(source: str, values: Mapping[str, str]) -> str:
    """``source`` with each ``{{ name }}`` replaced by its value, ``{{ name | json }}`` by the value
    as a JSON string (which is a YAML string too). Raises KeyError for a name without a value.
    """

    def value(place: re.Match[str]) -> str:
        text = values[place[1]]
        return json.dumps(text) if place[2] else text

    return _PLACE.sub(value, source)


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a complaint about an unknown word."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(names)}" if names else "; it takes none"
