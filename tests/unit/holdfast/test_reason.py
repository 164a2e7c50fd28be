"""The Reason string: it is decoded unchanged, and no other text is decoded."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.reason import MAX_CHARS, Reason, without_appended

CODES = st.from_regex(r"[A-Z][A-Z0-9_]{0,31}", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
NASTY = ("boot=1", "a=b=c", ": Not responding", "holdfast:X: y", "[node_problem]", ":", "é", "\n")


def _arbitrary(seed: random.Random) -> str:
    """A detail from words, pairs, Slurm's own phrases and any character."""
    parts = []
    for _ in range(seed.randrange(40)):
        kind = seed.randrange(4)
        if kind == 0:
            parts.append(seed.choice(NASTY))
        elif kind == 1:
            parts.append("".join(seed.choices(string.printable, k=seed.randrange(12))))
        elif kind == 2:
            parts.append("".join(chr(seed.randrange(1, 0x2FFF)) for _ in range(seed.randrange(6))))
        else:
            parts.append("x" * seed.randrange(80))
    return seed.choice((" ", "", " : ")).join(parts)


def test_five_thousand_arbitrary_details_are_decoded_unchanged() -> None:
    seed = random.Random(79)
    for number in range(5000):
        pairs = {"boot": "abcdef01", "gpu": str(number % 8)} if number % 3 else {}
        reason = Reason("XID79", _arbitrary(seed), pairs, node_problem=bool(number % 2))
        text = str(reason)
        assert len(text) <= MAX_CHARS
        assert text.isascii()
        assert text.isprintable()
        assert Reason.parse(text) == reason
        assert Reason.parse(f"{text} : Not responding") == reason
        assert str(Reason.parse(text)) == text


@settings(max_examples=200, deadline=None)
@given(CODES, st.text(max_size=300), st.dictionaries(KEYS, VALUES, max_size=3), st.booleans())
def test_any_code_and_pairs_are_decoded_unchanged(
    code: str, detail: str, pairs: dict[str, str], node_problem: bool
) -> None:
    reason = Reason(code, detail, pairs, node_problem)
    assert Reason.parse(str(reason)) == reason


def test_five_thousand_foreign_texts_do_not_parse() -> None:
    seed = random.Random(80)
    for _ in range(5000):
        text = _arbitrary(seed)
        if not text.startswith("holdfast:"):
            assert Reason.parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "holdfast",
        "holdfast:",
        "holdfast:XID79",
        "holdfast:XID79:",
        "holdfast:xid79: lower case code",
        "holdfast:XID79:no blank",
        " holdfast:XID79: leading blank",
        "holdfast:XID79: trailing blank ",
        "holdfast:XID79: two  blanks",
        "holdfast:XID79: x boot=1 boot=2",
        "see holdfast:XID79: quoted",
        "holdfast:XID79: first line\nsecond line",
        "holdfast:XID79: non-ascii \u00e9",
        "[node_problem]holdfast:XID79: x",
        "[hardware_problem] holdfast:XID79: x",
        "holdfast:XID79: x : Kill task failed : Not respondin",
        "swapping DIMM",
        "Not responding",
        "holdfast:XID79: " + "x" * 300,
    ],
)
def test_a_similar_text_does_not_parse(text: str) -> None:
    parsed = Reason.parse(text)
    # What another tool appends is part of the text: then the text differs from the record, and the
    # ownership proof fails.
    assert parsed is None or str(parsed) == text


def test_what_slurmctld_appended_is_removed() -> None:
    text = "holdfast:XID79: x boot=1"
    assert without_appended(f"{text} : Not responding") == text
    assert without_appended(f"{text} : Node unexpectedly rebooted : Not responding") == text
    assert without_appended(f"{text} : reboot issued : reboot complete") == text
    assert without_appended(f"{text} : reboot issued : reboot timed out") == text
    assert without_appended(f"{text} : Kill task failed") != text


def test_a_detail_that_ends_like_slurmctlds_text_is_not_cut() -> None:
    reason = Reason("IB_DOWN", "port mlx5_0 : Not responding")
    assert Reason.parse(str(reason)) == reason


def test_an_empty_detail_leaves_no_trailing_blank() -> None:
    assert str(Reason("XID79")) == "holdfast:XID79: no detail"


def test_gpu_and_boot_are_read_back() -> None:
    reason = Reason.parse("[node_problem] holdfast:XID79: GPU 3 fell off boot=abcdef01 gpu=3")
    assert reason is not None
    assert reason.node_problem
    assert (reason.code, reason.detail) == ("XID79", "GPU 3 fell off")
    assert dict(reason.pairs) == {"boot": "abcdef01", "gpu": "3"}


@pytest.mark.parametrize("code", ["", "xid79", "XID 79", "X" * 33, "9X", "X-Y"])
def test_a_code_that_the_format_cannot_hold_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="reason code"):
        Reason(code, "x")


@pytest.mark.parametrize("pair", [{"Boot": "1"}, {"boot": ""}, {"boot": "a b"}, {"b": "\n"}])
def test_a_pair_that_the_format_cannot_hold_is_refused(pair: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="reason pair"):
        Reason("X", "x", pair)


def test_pairs_that_fill_the_whole_reason_are_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        Reason("X", "x", {"k": "v" * 250})


@pytest.mark.parametrize(
    ("value_chars", "detail"), [(238, "abc"), (239, "ab"), (240, "a"), (241, "")]
)
def test_a_detail_is_cut_to_the_room_that_the_pairs_leave(value_chars: int, detail: str) -> None:
    reason = Reason("X", "abc", {"k": "v" * value_chars})
    assert (reason.detail, len(str(reason))) == (detail, 256)
    assert Reason.parse(str(reason)) == reason


def test_one_character_too_many_in_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="reason pairs of X leave no room in 256 characters"):
        Reason("X", "", {"k": "v" * 242})


def test_a_reason_has_256_characters_at_most() -> None:
    assert MAX_CHARS == 256
    assert len(str(Reason("XID79", "x" * 400))) == 256
    longest = "holdfast:XID79: " + "x" * 240
    assert Reason.parse(longest) is not None
    assert Reason.parse(longest + "x") is None


def test_a_detail_is_one_line_of_printable_ascii() -> None:
    assert Reason("X", "a ~b!\x7f\x1f\té\x80  c").detail == "a ~b! ?? c"


@pytest.mark.parametrize(
    ("detail", "kept"),
    [
        ("port a=b", "port a:b"),
        ("a=b=c", "a:b=c"),
        ("x : Not responding : reboot issued", "x"),
        (" : Not responding", "no detail"),
        ("x : Kill task failed", "x : Kill task failed"),
        ("k=v : reboot complete", "k:v"),
        ("=v", "=v"),
    ],
)
def test_a_detail_does_not_end_like_a_pair_or_like_slurmctlds_words(detail: str, kept: str) -> None:
    assert Reason("X", detail).detail == kept
    assert Reason.parse(str(Reason("X", detail))) == Reason("X", kept)


def test_the_pairs_of_a_reason_are_its_own() -> None:
    pairs = {"boot": "a"}
    reason = Reason("X", "x", pairs)
    pairs["boot"] = "b"
    assert reason.pairs == {"boot": "a"}
    assert not reason.node_problem
    assert str(Reason("X", "x", {"a": "1", "b": "2"})) == "holdfast:X: x a=1 b=2"
