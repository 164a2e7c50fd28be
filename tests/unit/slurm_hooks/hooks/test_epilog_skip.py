"""The hooks' slow path when a user skips the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.vocabulary import NODE_BAD, NODE_IN_SERVICE, Context
from slurm_hooks.hooks import decision


@pytest.mark.parametrize("comment", ["skip_checks", "a, skip_checks", "x;skip_checks y"])
def test_the_word_is_found_among_others(comment: str) -> None:
    assert decision.skips(comment)


@pytest.mark.parametrize("comment", ["", "skip", "dont_skip_checks", "skip_checks!", "Skip_Checks"])
def test_nothing_else_is_the_word(comment: str) -> None:
    assert not decision.skips(comment)


@pytest.mark.parametrize(("allowed", "comment", "asked"), [
    ("true", "skip_checks", False),
    ("false", "skip_checks", True),
    ("true", "mine", True),
])  # fmt: skip
def test_only_where_the_site_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, comment: str, asked: bool
) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"paths: {{run: {tmp_path}, state: {tmp_path}}}\n"
        f"node: {{allow_skip: {allowed}, when_blind: {{prolog: drain}}}}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("SLURM_JOB_COMMENT", comment)
    refusals: list[object] = []

    def refuse(*words: object) -> int:
        refusals.append(words)
        return NODE_BAD

    monkeypatch.setattr(decision, "_refuse", refuse)
    assert decision.answer(Context.PROLOG) == (NODE_BAD if asked else NODE_IN_SERVICE)
    assert bool(refusals) is asked
