"""Lines at the end of a run: whether the tests of Terraform ran, and if not, why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FOLDER = "tests/terraform/"


class Result(NamedTuple):
    """One test. ``reason``: why it was skipped."""

    test: str
    outcome: str
    reason: str = ""


def terraform_lines(results: Iterable[Result]) -> Sequence[str]:
    """A line for each file of ``FOLDER``: how many tests passed, failed, were skipped, and the reasons."""
    files: dict[str, Counter[str]] = {}
    reasons: dict[str, set[str]] = {}
    for result in results:
        file = result.test.split("::")[0]
        if file.startswith(FOLDER):
            files.setdefault(file, Counter())[result.outcome] += 1
            if result.reason:
                reasons.setdefault(file, set()).add(result.reason)
    return [
        f"{file}: {_counts(files[file])}{_because(reasons.get(file, ()))}" for file in sorted(files)
    ]


def _counts(outcomes: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


def _because(reasons: Iterable[str]) -> str:
    text = "; ".join(sorted(reasons))
    return f" ({text})" if text else ""
