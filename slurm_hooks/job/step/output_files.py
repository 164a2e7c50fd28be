"""The files that srun writes the output of tasks to: ``srun --output=NAME --error=NAME``.

srun(1), "FILENAME PATTERN". What differs from task to task (``%t``, ``%n``, ``%N``) stands for any text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.adapters import safe_file

_OPTIONS = ("-o", "--output", "-e", "--error")
_VARIABLES = ("SLURM_STDOUTMODE", "SLURM_STDERRMODE")
_NO_FILE = re.compile(r"(?:all|none|\d+)?")
_FIELD = re.compile(r"%(\d*)([%AJNabjnstux])")
_OF_JOB = {
    "A": ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"),
    "a": ("SLURM_ARRAY_TASK_ID",),
    "j": ("SLURM_JOB_ID",),
    "u": ("USER",),
    "x": ("SLURM_JOB_NAME",),
}
_MAX_ENTRIES = 20_000
_MAX_ARGUMENTS = 1 << 20


def names(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The patterns of the files that this srun writes; empty if it is not an srun."""
    if not argv or Path(argv[0]).name != "srun":
        return ()
    found = [env[name] for name in _VARIABLES if name in env]
    rest = iter(argv[1:])
    for option in rest:
        if option == "--":
            break
        name, equals, value = option.partition("=")
        if option in _OPTIONS:
            found.append(next(rest, ""))
        elif equals and name in _OPTIONS:
            found.append(value)
        elif re.match(r"-[oe][^-]", option):
            found.append(option[2:])
    return tuple(dict.fromkeys(name for name in found if not _NO_FILE.fullmatch(name)))


def files(pattern: str, env: Mapping[str, str], folder: Path, most: int) -> list[Path]:
    """The files that match a pattern now, at most ``most``. Never raises."""
    path = folder / pattern
    if all(_value(found, env) is not None for found in _FIELD.finditer(path.name)):
        whole = _FIELD.sub(lambda found: _value(found, env) or "", path.name)
        only = _folder(path.parent, env) / whole
        return [only] if os.path.exists(only) else []  # noqa: PTH110 (never raises)
    expression = re.compile("".join(_parts(path.name, env)))
    try:
        entries = safe_file.scan(_folder(path.parent, env), most=_MAX_ENTRIES)
        found = sorted(entry.name for entry in entries if expression.fullmatch(entry.name))
    except OSError:
        return []
    return [_folder(path.parent, env) / name for name in found[:most]]


def _folder(path: Path, env: Mapping[str, str]) -> Path:
    return Path(_FIELD.sub(lambda found: _value(found, env) or found[0], str(path)))


def _parts(name: str, env: Mapping[str, str]) -> Iterator[str]:
    at = 0
    for found in _FIELD.finditer(name):
        yield re.escape(name[at : found.start()])
        value = _value(found, env)
        yield ".+" if value is None else re.escape(value)
        at = found.end()
    yield re.escape(name[at:])


def _value(found: re.Match[str], env: Mapping[str, str]) -> str | None:
    if found[2] == "%":
        return "%"
    value = next((env[name] for name in _OF_JOB.get(found[2], ()) if name in env), None)
    return value.zfill(int(found[1])) if value is not None and found[1] else value


def sruns_below(pid: int, procfs: Path = Path("/proc")) -> Iterator[tuple[list[str], Path]]:
    """Command line and working folder of each srun that a process has started, also through others."""
    todo, seen = [pid], 0
    while todo and seen < 200:
        process, seen = procfs / str(todo.pop()), seen + 1
        try:
            if (process / "comm").read_text().strip() == "srun":
                with (process / "cmdline").open("rb") as file:
                    argv = file.read(_MAX_ARGUMENTS).decode("utf-8", "replace").split("\0")[:-1]
                yield argv, (process / "cwd").readlink()
            for task in (process / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (OSError, ValueError):
            continue
