"""The arguments of a kind of fault, and their parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import SandboxError, did_you_mean

Args = dict[str, int | str]
"""An argument's key -> its value."""

_MANY = 6
"""With this many choices or more, a usage line shows only the first and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One argument: an option (``--gpu``) or a positional one (``NUMBER``).

    A number from ``low`` to ``high``, one of ``choices``, or any ``text``. ``default`` None: required.
    """

    name: str
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    default: int | str | None = None
    text: bool = False

    @property
    def key(self) -> str:
        return self.name.lstrip("-").lower()

    @property
    def option(self) -> bool:
        return self.name.startswith("--")

    @property
    def usage(self) -> str:
        """As in a usage line: ``NUMBER``, ``[--gpu 0-7]``, ``[--hca mlx5_0|…|mlx5_7]``."""
        shown = (
            self.choices if len(self.choices) < _MANY else (self.choices[0], "…", self.choices[-1])
        )
        values = "|".join(shown) or f"{self.low}-{self.high}"
        text = f"{self.name} {values}" if self.option else values if self.choices else self.name
        return text if self.default is None else f"[{text}]"

    def value(self, text: str) -> int | str:
        """The value of an argument. Raises ``ValueError`` with what it accepts."""
        if self.text:
            return text
        if self.choices:
            if text not in self.choices:
                raise ValueError(
                    f"{self.name} cannot be '{text}'{did_you_mean(text, self.choices)}"
                )
            return text
        if not text.removeprefix("-").isdecimal() or not self.low <= int(text) <= self.high:
            raise ValueError(f"{self.name} takes a number from {self.low} to {self.high}")
        return int(text)


def parse(kind: str, words: Sequence[Word], texts: Sequence[str]) -> Args:
    """Every argument of a kind with its value. Raises ``SandboxError`` with one line that has the usage."""
    where = " ".join([kind, *texts])
    try:
        given = dict(_pairs(words, texts))
        for word in words:
            if word.key not in given and word.default is None:
                raise ValueError(f"{word.name} is missing")
    except ValueError as error:
        usage = " ".join([kind, *(word.usage for word in words)])
        raise SandboxError(f"{where}: {error} (usage: {usage})") from None
    return {word.key: given.get(word.key, word.default) for word in words}  # type: ignore[misc]


def shown(kind: str, words: Sequence[Word], args: Mapping[str, int | str]) -> str:
    """The fault as a command would name it."""
    parts = [kind]
    for word in words:
        parts += [word.name] * word.option + [str(args[word.key])]
    return " ".join(parts)


def _pairs(words: Sequence[Word], texts: Sequence[str]) -> Iterator[tuple[str, int | str]]:
    options = {word.name: word for word in words if word.option}
    bare = (word for word in words if not word.option)
    rest = iter(texts)
    for text in rest:
        name, equals, value = text.partition("=")
        if name in options:
            taken = value if equals else next(rest, None)
            if taken is None:
                raise ValueError(f"{name} needs a value")
            yield options[name].key, options[name].value(taken)
        elif text.startswith("-"):
            raise ValueError(f"unknown option {name}{did_you_mean(name, options)}")
        else:
            word = next(bare, None)
            if word is None:
                raise ValueError(f"unexpected argument '{text}'")
            yield word.key, word.value(text)
