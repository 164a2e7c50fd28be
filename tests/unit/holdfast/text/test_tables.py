"""Tables: one line for each row in a pipe, wrapped at words on a screen."""

from __future__ import annotations

import pytest

from holdfast.text.tables import fitted, table

ROWS = [
    ("NODE", "STATE", "OWNER", "SINCE", "REASON"),
    (
        "worker-1",
        "IDLE+DRAIN",
        "holdfast-agent",
        "2026-11-21 06:23:35",
        "holdfast:XID79: GPU 2 0000:75:00 Xid 79: GPU has fallen off the bus. boot=65826d02 gpu=2",
    ),
    ("worker-[2-500]", "IDLE", "-", "-", "-"),
]


@pytest.mark.parametrize("width", [80, 120])
def test_cells_wrap_at_words_and_lose_nothing(width: int) -> None:
    text = table(ROWS, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    words = ROWS[1][4].split()
    assert [word for line in lines for word in line.split() if word in words] == words
    column = lines[0].index("REASON")
    if width == 120:
        assert all(line[:column].isspace() for line in lines[2:-1]), "the rest is below its column"
    assert lines[-1].split() == list(ROWS[2])


def test_the_first_column_is_never_broken_within_a_word() -> None:
    """It has the names by which a person goes on: a part of one finds nothing."""
    rows = [("CODE", *("LONGHEADING",) * 6), ("GPU_RECOVERY_ACTION", *("some-long-word",) * 6)]
    lines = table(rows, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[0] == "GPU_RECOVERY_ACTION" for line in lines)


@pytest.mark.parametrize("width", [24, 36, 40, 60, 80])
def test_a_narrow_screen_loses_no_character(width: int) -> None:
    for size in (4, 12, 17, 20, 30, 40):
        rows = [("CODE", *("LONGHEADING",) * 6), ("Q" * size, *("some-long-word",) * 6)]
        text = table(rows, width)
        assert max(map(len, text.splitlines())) <= width
        assert sorted("".join(text.split())) == sorted("".join(map("".join, rows)))


def test_without_a_width_each_row_is_one_line() -> None:
    lines = table(ROWS).splitlines()
    assert len(lines) == len(ROWS)
    assert lines[1].endswith(ROWS[1][4])
    assert {
        line.index(word) for line, word in zip(lines, ("STATE", "IDLE", "IDLE"), strict=True)
    } == {16}


def test_a_users_text_is_neither_markup_nor_a_control_sequence() -> None:
    rows = [("JOB", "NAME"), ("7", "[bold]x[/bold] :smile: \x1b[31m\n\u202e")]
    for width in (None, 60):
        assert table(rows, width).splitlines()[1] == "7    [bold]x[/bold] :smile: \\x1b[31m \\u202e"


def test_a_word_longer_than_the_screen_is_folded_and_complete() -> None:
    name = "/mnt/" + "x" * 200
    text = table([("PATH",), (name,)], 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "".join(text.split()) == f"PATH{name}"


def test_an_indented_table_keeps_to_the_width() -> None:
    lines = table(ROWS, 80, indent=2).splitlines()
    assert all(line.startswith("  ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_no_rows_are_no_lines() -> None:
    assert table([]) == ""


def test_a_labelled_line_continues_below_its_text() -> None:
    page = "worker-0: out of service\n  return    " + "Reboot the node; " * 8
    lines = fitted(page, 80).splitlines()
    assert lines[0] == "worker-0: out of service"
    assert max(map(len, lines)) <= 80
    assert all(line.startswith(" " * 12 + "R") or line.startswith(" " * 12) for line in lines[2:])
    assert " ".join(" ".join(lines).split()) == " ".join(page.split())


def test_without_a_width_a_page_stays_as_it_is() -> None:
    page = "  return    " + "Reboot the node; " * 20
    assert fitted(page) == page
