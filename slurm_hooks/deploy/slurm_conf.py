"""The lines of slurm.conf that call the hooks; existing settings are kept.

``SchedulerParameters`` and ``PrologFlags`` are lists, and a second line replaces the first, while a
second ``Prolog`` or ``Epilog`` line adds a script (seen on Slurm 24.11 and 26.05). So with ``onto``
the file is read, the lists are merged, and only the lines that must change are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.document import NUMBER, PATH, Document, Value
from holdfast.errors import UsageError

_LIST, _SCRIPTS, _ONE = "list", "scripts", "one"
_INCLUDES_DEEP = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One setting in a file."""

    key: str
    value: str
    place: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One setting that Holdfast needs. ``kind``: how it is combined with an existing value."""

    key: str
    value: str
    kind: str
    why: str


def wanted(values: Mapping[str, str]) -> tuple[Wanted, ...]:
    hooks = values["hooks"].rstrip("/")
    return (
        Wanted("Prolog", f"{hooks}/prolog", _SCRIPTS, "no job starts on a bad node"),
        Wanted("Epilog", f"{hooks}/epilog", _SCRIPTS, "checks what a job left behind"),
        Wanted(
            "HealthCheckProgram",
            f"{hooks}/health_check",
            _ONE,
            "starts the agent, and restarts it if it has exited",
        ),
        Wanted("HealthCheckInterval", values["health_check_interval_s"], _ONE, "seconds"),
        Wanted(
            "HealthCheckNodeState",
            "ANY",
            _ONE,
            "also nodes that are down or drained: Holdfast returns them to service",
        ),
        Wanted(
            "PrologFlags",
            "Contain",
            _LIST,
            "runs the prolog on each node of a job before any step of it; implies Alloc",
        ),
        Wanted("JobRequeue", "1", _ONE, "jobs may be requeued"),
        Wanted(
            "SchedulerParameters",
            "nohold_on_prolog_fail",
            _LIST,
            "a job whose prolog found a bad node is requeued, not held",
        ),
        Wanted("KillOnBadExit", "1", _ONE, "a step ends when one of its ranks fails"),
    )


def _text(values: Mapping[str, str]) -> str:
    settings = wanted(values)
    if values["onto"]:
        path = Path(values["onto"])
        return "".join(_merged(settings, list(read(path)), path))
    return "".join(_plain(settings))


def _plain(settings: tuple[Wanted, ...]) -> Iterator[str]:
    yield "# Holdfast's lines of slurm.conf. The hooks' exit status follows the node's verdict; an error\n"
    yield "# of Holdfast itself leaves the node in service.\n"
    yield "# To merge with an existing slurm.conf: `holdfast render slurm-conf --set onto=FILE`;\n"
    yield "# a second SchedulerParameters or PrologFlags line would replace your list.\n"
    yield "# Soperator and Slinky write slurm.conf themselves: `holdfast render soperator`, `… slinky`.\n"
    for one in settings:
        yield f"# {one.why}\n{one.key}={one.value}\n"


def _merged(settings: tuple[Wanted, ...], lines: list[Line], path: Path) -> Iterator[str]:
    yield f"# What {path} still needs for Holdfast. Then: scontrol reconfigure\n"
    changes = [text for one in settings for text in _change(one, lines)]
    yield from changes or ["# Nothing: all settings are there.\n"]


def _change(one: Wanted, lines: list[Line]) -> Iterator[str]:
    same = [line for line in lines if line.key.lower() == one.key.lower()]
    last = same[-1] if same else None
    if last is None:
        yield f"# {one.why}\n{one.key}={one.value}\n"
    elif one.kind == _SCRIPTS:
        if one.value not in (line.value for line in same):
            yield f"# {one.why}; in addition to {_names(same)}: a second line adds a script\n"
            yield f"{one.key}={one.value}\n"
    elif one.kind == _LIST:
        words = [word for word in last.value.split(",") if word]
        if one.value.lower() not in (word.lower() for word in words):
            yield f"# instead of {last.place}: {one.why}\n"
            yield f"{one.key}={','.join((*words, one.value))}\n"
    elif last.value != one.value:
        yield from _instead(one, last)


def _instead(one: Wanted, last: Line) -> Iterator[str]:
    if one.key == "HealthCheckProgram":
        yield f"# {last.place} sets {last.value}, and Slurm runs only one: set a script that runs\n"
        yield f"# {one.value} first and then `exec {last.value}`\n"
    elif one.key == "HealthCheckInterval":
        yield f"# {last.place}: every {last.value} s, the longest time until an agent that exited is restarted\n"
    else:
        yield f"# instead of {last.place} ({last.key}={last.value}): {one.why}\n"
        yield f"{one.key}={one.value}\n"


def _names(lines: list[Line]) -> str:
    return ", ".join(f"{line.value} ({line.place})" for line in lines)


def read(path: Path, depth: int = 0) -> Iterator[Line]:
    """The settings of a slurm.conf and of the files that it includes. Raises ``UsageError``."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"slurm-conf: {path}: {error.strerror}") from None
    for number, line in _joined(text):
        bare = line.partition("#")[0].strip()
        include = re.fullmatch(r"(?i)include\s+(\S+)", bare)
        if include and depth < _INCLUDES_DEEP:
            yield from read(path.parent / include[1], depth + 1)
        setting = re.match(r"(\w+)\s*=\s*(\S.*)", bare)
        if setting:
            value = setting[2].strip().strip('"')
            yield Line(setting[1], value, f"{path}:{number}")


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines. A line that ends in a backslash continues in the next."""
    begun, rest = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        begun = begun or number
        if line.endswith("\\"):
            rest += line[:-1]
            continue
        yield begun, rest + line
        begun, rest = 0, ""
    if rest:
        yield begun, rest


LINES = Document(
    about="the lines of slurm.conf that call the hooks",
    make=_text,
    values={
        "onto": Value(rf"({PATH})?", "", "a slurm.conf: print only what it still needs"),
        "hooks": Value(PATH, "/opt/holdfast/hooks", "the folder of the hooks, on a local disk"),
        "health_check_interval_s": Value(NUMBER, "30", "longest time until an agent is restarted"),
    },
)
