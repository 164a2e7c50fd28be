"""Mutants of a POSIX shell script, line by line; no maintained library creates these."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEST = re.compile(r"\[ [^]]*? \](?!\))")
_STATEMENT = re.compile(r"^(\s*)(read|note|say|slow|echo|return|export|logger)\b")
_PATTERN = re.compile(r"^(\s*)((?:\S+ \| )*[^\s()]+)\)(.*)$")
_INLINE = re.compile(r" in (\S+)\) ")


def mutations(text: str) -> Iterator[tuple[int, str]]:
    """(index of the line, its replacement) of every mutant of a script."""
    for index, line in enumerate(text.splitlines()):
        if line.lstrip().startswith("#"):
            continue
        for changed in (*_conditions(line), *_ends(line), *_statements(line), *_patterns(line)):
            if changed != line:
                yield index, changed


def _conditions(line: str) -> Iterator[str]:
    """Each test becomes always true and always false; each `and` becomes an `or`."""
    for match in _TEST.finditer(line):
        for constant in ("true", "false"):
            yield line[: match.start()] + constant + line[match.end() :]
    for match in re.finditer("&&", line):
        yield line[: match.start()] + "||" + line[match.end() :]


def _ends(line: str) -> Iterator[str]:
    """Each exit status is changed."""
    for match in re.finditer(r"\bexit (\d+)", line):
        other = "10" if match[1] == "0" else "0"
        yield f"{line[: match.start()]}exit {other}{line[match.end() :]}"


def _statements(line: str) -> Iterator[str]:
    """Each call of a builtin or function is removed."""
    match = _STATEMENT.match(line)
    if match and not line.rstrip().endswith(("\\", "{")):
        yield f"{match[1]}:"


def _patterns(line: str) -> Iterator[str]:
    """Each pattern of a `case` matches nothing; each alternative is removed; each part between colons
    matches everything."""
    match = _PATTERN.match(line)
    if match:
        words = match[2].split(" | ")
        yield f"{match[1]}no-such-word){match[3]}"
        if len(words) > 1:
            for word in words:
                rest = " | ".join(other for other in words if other != word)
                yield f"{match[1]}{rest}){match[3]}"
    inline = _INLINE.search(line)
    if inline:
        parts = inline[1].split(":")
        for index in range(len(parts)):
            loose = ":".join([*parts[:index], "*", *parts[index + 1 :]])
            yield line.replace(f" in {inline[1]}) ", f" in {loose}) ")
        yield line.replace(f" in {inline[1]}) ", " in no-such-word) ")
