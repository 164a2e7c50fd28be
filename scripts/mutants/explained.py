"""The survivors that people have reviewed: ``explained.yaml`` has the reason for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from mutants.mutant import Mutant

PATH = Path(__file__).with_name("explained.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``before`` and ``after`` are patterns of the whole line before and after the change."""

    file: str
    before: str
    why: str
    after: str = ".*"

    def covers(self, mutant: Mutant) -> bool:
        return (
            self.file == mutant.file
            and re.fullmatch(self.before, mutant.before) is not None
            and re.fullmatch(self.after, mutant.after) is not None
        )

    def __str__(self) -> str:
        return f"{self.file}: {self.before} -> {self.after}"


def load(path: Path | None = None) -> tuple[Explanation, ...]:
    """Raises TypeError for an entry without a pattern or a reason."""
    table = yaml.safe_load((path or PATH).read_text()) or {}
    return tuple(Explanation(file=file, **entry) for file in table for entry in table[file])


def unexplained(
    survivors: list[Mutant], explanations: tuple[Explanation, ...]
) -> tuple[list[Mutant], list[Explanation]]:
    """(the survivors that no explanation covers, the explanations of these files that cover none)."""
    open_ = [mutant for mutant in survivors if not any(e.covers(mutant) for e in explanations)]
    unused = [e for e in explanations if not any(e.covers(mutant) for mutant in survivors)]
    return open_, unused
