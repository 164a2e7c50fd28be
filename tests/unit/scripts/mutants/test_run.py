"""The mutation run: which mutants are made, and that a survivor without a reason fails it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import __main__ as command
from mutants import explained
from mutants.declarations import lines_that_decide
from mutants.explained import Explanation
from mutants.mutant import Mutant
from mutants.shell import mutations
from mutants.target import TARGETS

ROOT = Path(__file__).parents[4]


def mutant(before: str = "a == b", after: str = "a != b", *, survived: bool = True) -> Mutant:
    return Mutant(file="x.py", line=3, before=before, after=after, survived=survived)


TABLE = """
x.py:
  - before: a == b
    after: a .= b
    why: equivalent here
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "explained.yaml"
    path.write_text(TABLE)
    monkeypatch.setattr(explained, "PATH", path)
    return path


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (mutant(), 0, "1 mutants in 1 min: 0 detected by a test, 1 survivors explained, 0 unex"),
        (mutant(after="a > b"), 1, "x.py:3\n    - a == b\n    + a > b\n"),
        (mutant("if a == b"), 1, "0 detected by a test, 0 survivors explained, 1 unexplained"),
        (mutant(after="a > b", survived=False), 0, "1 detected by a test, 0 survivors explained"),
    ],
    ids=["explained", "another change", "another line", "detected"],
)
def test_a_survivor_without_a_reason_fails_the_run(
    table: Path, capsys: pytest.CaptureFixture[str], found: Mutant, code: int, said: str
) -> None:
    assert table.exists()
    assert command._report([found], ["x.py"], 60.0) == code
    assert said in capsys.readouterr().out


def test_a_reason_that_no_survivor_needs_any_more_is_reported(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.exists()
    assert command._report([], ["x.py"], 60.0) == 0
    assert "No survivor is explained by x.py: a == b -> a .= b: remove" in capsys.readouterr().out
    assert command._report([], ["y.py"], 60.0) == 0
    assert "remove" not in capsys.readouterr().out, "x.py was not run"


def test_a_reason_holds_for_its_own_file_only() -> None:
    reason = Explanation(file="y.py", before=".*", why="x")
    assert not reason.covers(mutant())


def test_every_reviewed_survivor_belongs_to_a_file_that_is_mutated_and_has_a_reason() -> None:
    entries = explained.load(ROOT / "scripts/mutants/explained.yaml")
    assert {entry.file for entry in entries} <= {target.file for target in TARGETS}
    for entry in entries:
        assert len(entry.why) > 20, entry


def test_the_files_to_mutate_and_their_tests_exist() -> None:
    for target in TARGETS:
        assert (ROOT / target.file).is_file(), target.file
        for test in target.tests:
            assert (ROOT / test).is_file(), test


SOURCE = """\
class View(Protocol):
    @property
    def name(self) -> str: ...

@dataclass(
    frozen=True,
)
class Row:
    name: str

    @property
    def upper(self) -> str:
        return self.name.upper()
"""


def test_declarations_are_not_mutated() -> None:
    assert ast.parse(SOURCE)
    assert lines_that_decide(SOURCE) == ["4-4", "8-13"]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("[ -e x ] && exit 0", ["true && exit 0", "false && exit 0", "[ -e x ] || exit 0"]),
        ("    exit 10", ["    exit 0"]),
        ("    note end", ["    :"]),
        ("# exit 0", []),
        ("'' | *[!0-9]*) ;;", ["no-such-word) ;;", "*[!0-9]*) ;;", "'') ;;"]),
        ("case $a:$b in x_*:0) y ;; esac", ["*:0", "x_*:*", "no-such-word"]),
    ],
)
def test_the_mutants_of_a_line_of_sh(line: str, changed: list[str]) -> None:
    found = [after.strip() for index, after in mutations(f"#!/bin/sh\n{line}\n") if index == 1]
    assert len(found) >= len(changed)
    for part in changed:
        assert any(part.strip() in after for after in found), part
    assert line.strip() not in found
    assert bool(found) is bool(changed)
