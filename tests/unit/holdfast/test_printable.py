"""What users wrote never acts on the terminal of who reads it."""

from __future__ import annotations

import io
import json
import sys
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import printable
from holdfast.adapters.log import line as log_line
from holdfast.cli import console

TITLE = "\x1b]0;owned\x07"
EIGHT_BIT = "\x9b31m"
BIDI = "\u202egpj.exe"
HOSTILE = f"a{TITLE}{EIGHT_BIT}{BIDI}\rb"
ANY = st.text(st.characters(), max_size=60) | st.just(HOSTILE)


def harmless(text: str, kept: str = "") -> bool:
    return all(char.isprintable() or char in kept for char in text)


@given(ANY)
def test_no_text_gets_a_control_character_through(text: str) -> None:
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


def test_ordinary_words_stay_as_they_are() -> None:
    for text in ("GPU 3 fell off", "größer als 4 ± 2 …", "日本語", "back\\slash"):
        assert printable.line(text) == printable.page(text) == text
    assert printable.line(HOSTILE) == r"a\x1b]0;owned\x07\x9b31m\u202egpj.exe\rb"


def test_values_are_made_safe_at_any_depth() -> None:
    assert printable.values({"a\n": [HOSTILE, ("\x1b",), 1, None]}) == {
        "a\\n": [printable.line(HOSTILE), ["\\x1b"], 1, None]
    }


def test_the_console_escapes_whatever_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(f"first\n{HOSTILE}")
    console.complain(HOSTILE)
    console.say_json({"why": HOSTILE})
    console.say(console.table([("A", "B"), (HOSTILE, "b\nc")]))
    said = capsys.readouterr()
    assert harmless(said.out + said.err, "\n")
    assert "b c" in said.out


def test_only_colours_pass_where_there_are_colours(capsys: pytest.CaptureFixture[str]) -> None:
    console.say_coloured(f"\x1b[1;31mfatal\x1b[0m \x1b[2J{TITLE}")
    assert capsys.readouterr().out == "\x1b[1;31mfatal\x1b[0m \\x1b[2J\\x1b]0;owned\\x07\n"


def test_a_terminal_of_another_encoding_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.say("4 ± 2")
    sys.stdout.flush()
    assert raw.getvalue() == b"4 \\xb1 2\n"
