"""One change to one file, and the result of the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``before`` and ``after`` are the changed lines, stripped; ``survived``: no test failed."""

    file: str
    line: int
    before: str
    after: str
    survived: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.before}\n    + {self.after}"
