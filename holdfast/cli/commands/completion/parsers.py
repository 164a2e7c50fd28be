"""The command lines of all commands, for completion and manual pages: from the parsers that read them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.cli.main import COMMANDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One option or positional argument. ``flags`` is empty for a positional one.

    ``metavar``: how the value is called in the help; empty: it takes none. ``choices``: the only values.
    """

    flags: tuple[str, ...]
    dest: str
    metavar: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """One command as its parser describes it."""

    name: str
    summary: str
    usage: str
    description: str
    epilog: str
    arguments: tuple[Argument, ...]


def command_lines() -> list[CommandLine]:
    """Every command that is installed here."""
    found = []
    for name, command in COMMANDS.items():
        try:
            module = importlib.import_module(command.target.partition(":")[0])
        except ModuleNotFoundError:
            continue
        parser: argparse.ArgumentParser = module.parser()
        found.append(
            CommandLine(
                name=name,
                summary=command.summary,
                usage=parser.format_usage().removeprefix("usage: ").rstrip(),
                description=parser.description or "",
                epilog=parser.epilog or "",
                arguments=tuple(_arguments(parser)),
            )
        )
    return found


def _arguments(parser: argparse.ArgumentParser) -> Iterator[Argument]:
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        yield Argument(
            flags=tuple(action.option_strings),
            dest=action.dest,
            metavar="" if action.nargs == 0 else _metavar(action, choices),
            help=(action.help or "").replace("%%", "%"),
            choices=choices,
        )
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from (one for one in _arguments(inner) if one.dest != "help")


def _metavar(action: argparse.Action, choices: Sequence[str]) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if choices:
        return "{" + ",".join(choices) + "}"
    return action.dest.upper() if action.option_strings else action.dest
