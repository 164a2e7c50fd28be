"""The lines of a Python file that declare something and decide nothing: they are not mutated."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def lines_that_decide(source: str) -> list[str]:
    """The other lines, as ranges for cosmic-ray's line filter: ``["1-9", "14-20"]``.

    Declarations are protocols, which only mypy reads, and the options of dataclasses.
    """
    declared = {line for begin, end in _declarations(source) for line in range(begin, end + 1)}
    ranges: list[tuple[int, int]] = []
    for line in range(1, len(source.splitlines()) + 1):
        if line in declared:
            continue
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    return [f"{begin}-{end}" for begin, end in ranges]


def _declarations(source: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            yield node.lineno, node.end_lineno or node.lineno
        for decorator in node.decorator_list:
            if ast.unparse(decorator).split("(")[0] == "dataclass":
                yield decorator.lineno, decorator.end_lineno or decorator.lineno
