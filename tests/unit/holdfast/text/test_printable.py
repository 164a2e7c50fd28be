"""Text from users has no effect on the terminal that shows it."""

from __future__ import annotations

import io
import json
import sys
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.log import line as log_line
from holdfast.cli import console
from holdfast.text import printable, tables

TITLE = "\x1b]0;owned\x07"
EIGHT_BIT = "\x9b31m"
BIDI = "\u202egpj.exe"
HOSTILE = f"a{TITLE}{EIGHT_BIT}{BIDI}\rb"
ANY = st.text(st.characters(), max_size=60) | st.just(HOSTILE)


def harmless(text: str, kept: str = "") -> bool:
    return all(char.isprintable() or char in kept for char in text)


@given(ANY)
def test_no_control_character_is_printed(text: str) -> None:
    assert harmless(printable.line(text))
    assert harmless(printable.page(text), "\n\t")
    assert printable.page(text).count("\n") == text.count("\n")
    assert harmless(printable.folded(text))
    assert len(printable.folded(text)) == len(text)
    assert harmless(log_line(datetime.now(timezone.utc), "info", "a", text, {"why": text}))


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_json_stays_the_same_json(value: object) -> None:
    text = printable.json_text(json.dumps(value, indent=2, ensure_ascii=False))
    assert harmless(text, "\n")
    assert json.loads(text) == value


def test_ordinary_text_is_unchanged() -> None:
    for text in ("GPU 3 fell off", "größer als 4 ± 2 …", "日本語", "back\\slash"):
        assert printable.line(text) == printable.page(text) == text
    assert printable.line(HOSTILE) == r"a\x1b]0;owned\x07\x9b31m\u202egpj.exe\rb"


def test_values_are_made_safe_at_any_depth() -> None:
    assert printable.values({"a\n": [HOSTILE, ("\x1b",), 1, None]}) == {
        "a\\n": [printable.line(HOSTILE), ["\\x1b"], 1, None]
    }


def test_the_console_escapes_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(f"first\n{HOSTILE}")
    console.complain(HOSTILE)
    console.say_json({"why": HOSTILE})
    console.say(tables.table([("A", "B"), (HOSTILE, "b\nc")]))
    captured = capsys.readouterr()
    assert harmless(captured.out + captured.err, "\n")
    assert "b c" in captured.out


def test_only_colours_are_not_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    console.say_coloured(f"\x1b[1;31mfatal\x1b[0m \x1b[2J{TITLE}")
    assert capsys.readouterr().out == "\x1b[1;31mfatal\x1b[0m \\x1b[2J\\x1b]0;owned\\x07\n"


def test_a_terminal_of_another_encoding_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.say("4 ± 2")
    sys.stdout.flush()
    assert raw.getvalue() == b"4 \\xb1 2\n"
