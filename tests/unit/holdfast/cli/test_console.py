"""The console: one place that writes to the terminal, and documents that it does not change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.cli.console import say, say_document

CLI = Path(__file__).parents[4] / "holdfast/cli"
WRITES = re.compile(r"sys\.(?:stdout|stderr)\.write|(?<![\w.])print\(")


def test_no_other_module_of_the_commands_writes_to_the_terminal() -> None:
    found = {
        path.relative_to(CLI).as_posix()
        for path in CLI.rglob("*.py")
        if WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"console.py"}


def test_a_document_is_printed_as_it_is_and_an_answer_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_document("a\x1b[31m\u00a0b\n")
    say("a\x1b[31m")
    assert capsys.readouterr().out == "a\x1b[31m\u00a0b\na\\x1b[31m\n"
