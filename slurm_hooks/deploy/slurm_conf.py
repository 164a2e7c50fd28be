"""The lines of slurm.conf that call the hooks; existing lines are kept.

``SchedulerParameters`` and ``PrologFlags`` are lists, and a second line of one replaces the first,
while a second ``Prolog`` or ``Epilog`` line adds a script (tested on Slurm 24.11 and 26.05). So with
``onto`` the file is read, the lists are joined, and only lines that have to change are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.render.document import NUMBER, PATH, Document, Value
from slurm_hooks.deploy import PACKAGE

_LIST, _SCRIPTS, _ONE = "list", "scripts", "one"
_INCLUDES_DEEP = 8
_BY_HAND = {"HealthCheckProgram": "name_script", "HealthCheckInterval": "keep_interval"}


@dataclass(frozen=True, slots=True)
class Line:
    """One setting in a file."""

    key: str
    value: str
    place: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One setting that Holdfast needs. ``kind``: how it is merged with an existing one."""

    key: str
    value: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class Change:
    """What has to change for one setting.

    ``kind`` selects the comment in the template: ``set`` (not there yet), ``beside`` (a further
    script), ``join`` (a word more in a list), ``replace``; ``name_script`` and ``keep_interval``
    are comments without a line, because a person has to decide. ``there``: the lines of the file.
    """

    kind: str
    setting: Wanted
    there: tuple[Line, ...] = ()


def wanted(values: Mapping[str, str]) -> tuple[Wanted, ...]:
    hooks = values["hooks"].rstrip("/")
    return (
        Wanted("Prolog", f"{hooks}/prolog", _SCRIPTS, "no job starts on a bad node"),
        Wanted("Epilog", f"{hooks}/epilog", _SCRIPTS, "finds what a job left behind"),
        Wanted(
            "HealthCheckProgram",
            f"{hooks}/health_check",
            _ONE,
            "starts the agent, and restarts it when it has exited",
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


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    settings = wanted(values)
    if not values["onto"]:
        return {"changes": [Change("set", setting) for setting in settings]}
    lines = list(read(Path(values["onto"])))
    changes = (_change(setting, lines) for setting in settings)
    return {"changes": [change for change in changes if change is not None]}


def _change(setting: Wanted, lines: list[Line]) -> Change | None:
    same = tuple(line for line in lines if line.key.lower() == setting.key.lower())
    if not same:
        return Change("set", setting)
    last = same[-1]
    if setting.kind == _SCRIPTS:
        there = setting.value in (line.value for line in same)
        return None if there else Change("beside", setting, same)
    if setting.kind == _LIST:
        words = [word for word in last.value.split(",") if word]
        if setting.value.lower() in (word.lower() for word in words):
            return None
        joined = replace(setting, value=",".join((*words, setting.value)))
        return Change("join", joined, (last,))
    if last.value == setting.value:
        return None
    return Change(_BY_HAND.get(setting.key, "replace"), setting, (last,))


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
    package=PACKAGE,
    template="slurm.conf.j2",
    context=_context,
    values={
        "onto": Value(rf"({PATH})?", "", "a slurm.conf: print only what it still needs"),
        "hooks": Value(PATH, "/opt/holdfast/hooks", "the folder of the hooks, on a local disk"),
        "health_check_interval_s": Value(NUMBER, "30", "how long a stopped agent stays down"),
    },
)

HOOK = Document(
    about="a hook for slurm.conf that works without the installation too",
    package=PACKAGE,
    template="slurm_hook.sh.j2",
    values={"home": Value(PATH, "/opt/holdfast", "where Holdfast is installed")},
)
