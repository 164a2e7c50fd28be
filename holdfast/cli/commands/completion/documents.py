"""The documents ``bash-completion`` and ``man-page`` of ``holdfast render``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.cli.commands.completion.parsers import Argument, CommandLine, command_lines
from holdfast.cli.commands.render import TABLE
from holdfast.cli.main import COMMANDS
from holdfast.errors import UsageError
from holdfast.faults import FAULTS
from holdfast.render.document import Document, Value
from holdfast.version import VERSION

PACKAGE = "holdfast.cli.commands.completion"

_FILES = '_holdfast_reply compgen -f -- "$word"'
_FOLDERS = '_holdfast_reply compgen -d -- "$word"'
_NOTHING = ":"
_OF_SLURM = {
    "NODE": "$(_holdfast_nodes)",
    "JOB": "$(_holdfast_jobs)",
}
_PATHS = {"DIR": _FOLDERS, "FILE": _FILES, "LOG": _FILES, "file": _FILES, "config": _FILES}


def _context(_values: Mapping[str, str]) -> Mapping[str, object]:
    return {"version": VERSION, "commands": [_command(line) for line in command_lines()]}


def _command(line: CommandLine) -> dict[str, Any]:
    options = [one for one in line.arguments if one.flags]
    positional = [one for one in line.arguments if not one.flags]
    actions = [_action(line.name, one) for one in positional]
    return {
        "name": line.name,
        "words": " ".join(flag for one in options for flag in one.flags),
        "positional": next((action for action in actions if action != _NOTHING), _NOTHING),
        "options": [
            {
                "takes_value": bool(one.metavar),
                "patterns": " | ".join(f'"{line.name} {flag}"' for flag in one.flags),
                "action": _action(line.name, one),
            }
            for one in options
        ],
    }


def _action(command: str, argument: Argument) -> str:
    """The shell command that completes the argument's value."""
    path = _PATHS.get(argument.metavar) or _PATHS.get(argument.dest)
    if path is not None:
        return path
    words = _words(command, argument)
    return f'_holdfast_reply compgen -W "{" ".join(words)}" -- "$word"' if words else _NOTHING


def _words(command: str, argument: Argument) -> list[str]:
    if argument.choices:
        return sorted(argument.choices)
    if (command, argument.dest) == ("nodes", "name"):
        return [_OF_SLURM["NODE"]]
    if (command, argument.dest) == ("faults", "words"):
        return sorted(FAULTS)
    if (command, argument.dest) == ("render", "what"):
        return list(TABLE)
    if (command, argument.dest) == ("check", "names"):
        return _catalogue("slurm_hooks.checks")
    if (command, argument.dest) == ("inspect", "check"):
        return _catalogue("slurm_hooks.active")
    kinds = argument.metavar.split("|")
    return [_OF_SLURM[kind] for kind in kinds if kind in _OF_SLURM]


def _catalogue(module: str) -> list[str]:
    try:
        return list(importlib.import_module(module).CATALOGUE)
    except ModuleNotFoundError:
        return []


def _page(values: Mapping[str, str]) -> Mapping[str, object]:
    """What the manual page of one command contains; of ``holdfast`` itself without a command."""
    name = values["command"]
    if not name:
        return _overview()
    line = next((one for one in command_lines() if one.name == name), None)
    if line is None:
        raise UsageError(f"man-page: the command {name} is not installed here")
    return {
        "title": f"holdfast-{name}",
        "version": VERSION,
        "summary": line.summary,
        "usage": line.usage,
        "description": line.description,
        "sections": [
            {"name": title, "rows": rows}
            for title, rows in (
                ("arguments", _rows(one for one in line.arguments if not one.flags)),
                ("options", _rows(one for one in line.arguments if one.flags)),
            )
            if rows
        ],
        "epilog": line.epilog.strip(),
        "see_also": "holdfast(1)",
    }


def _overview() -> Mapping[str, object]:
    rows = [{"name": name, "help": command.summary} for name, command in COMMANDS.items()]
    return {
        "title": "holdfast",
        "version": VERSION,
        "summary": "keeps training jobs alive on Slurm clusters that run on Kubernetes",
        "usage": "holdfast COMMAND ...\nholdfast COMMAND --help",
        "description": "Each command has a manual page of its own: man holdfast-COMMAND.",
        "sections": [{"name": "commands", "rows": rows}],
        "epilog": "",
        "see_also": ", ".join(f"holdfast-{name}(1)" for name in COMMANDS),
    }


def _rows(arguments: Iterable[Argument]) -> list[dict[str, str]]:
    return [
        {
            "name": " ".join(filter(None, (", ".join(one.flags), one.metavar))) or one.dest,
            "help": one.help,
        }
        for one in arguments
    ]


BASH = Document(
    about="completion of commands, options, nodes and jobs for bash",
    package=PACKAGE,
    template="completion.bash.j2",
    context=_context,
)

MAN = Document(
    about="the manual page of a command, or of holdfast",
    package=PACKAGE,
    template="man.roff.j2",
    values={
        "command": Value(
            f"({'|'.join(COMMANDS)})?", "", "the command; empty: the page of holdfast itself"
        )
    },
    context=_page,
)
