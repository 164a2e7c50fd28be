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
class Argument:
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


def parse(kind: str, arguments: Sequence[Argument], texts: Sequence[str]) -> Args:
    """Every argument of a kind with its value. Raises ``SandboxError`` with one line that has the usage."""
    where = " ".join([kind, *texts])
    try:
        given = dict(_pairs(arguments, texts))
        for argument in arguments:
            if argument.key not in given and argument.default is None:
                raise ValueError(f"{argument.name} is missing")
    except ValueError as error:
        usage = " ".join([kind, *(argument.usage for argument in arguments)])
        raise SandboxError(f"{where}: {error} (usage: {usage})") from None
    return {argument.key: given.get(argument.key, argument.default) for argument in arguments}  # type: ignore[misc]


def shown(kind: str, arguments: Sequence[Argument], args: Mapping[str, int | str]) -> str:
    """The fault as a command would name it."""
    parts = [kind]
    for argument in arguments:
        parts += [argument.name] * argument.option + [str(args[argument.key])]
    return " ".join(parts)


def _pairs(arguments: Sequence[Argument], texts: Sequence[str]) -> Iterator[tuple[str, int | str]]:
    options = {argument.name: argument for argument in arguments if argument.option}
    bare = (argument for argument in arguments if not argument.option)
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
            argument = next(bare, None)
            if argument is None:
                raise ValueError(f"unexpected argument '{text}'")
            yield argument.key, argument.value(text)
