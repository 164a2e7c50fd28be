"""The terminal recording shows every line at its time, and as a still picture the last screen."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from demonstration.live import WIDTH, Kind, Live, Shown, shortened
from demonstration.output.recording import LAST_SCREEN_S, LONGEST_PAUSE_S, ROWS, moments, write

SVG = "{http://www.w3.org/2000/svg}"


def event(at_s: float, text: str) -> Shown:
    return Shown(at_s=at_s, kind=Kind.EVENT, text=text)


def test_short_pauses_are_kept_and_long_ones_shortened() -> None:
    lines = [event(10.0, "a"), event(10.25, "b"), event(99.0, "c"), event(99.5, "d")]
    assert moments(lines) == [0.0, 0.25, 0.25 + LONGEST_PAUSE_S, 0.75 + LONGEST_PAUSE_S]
    assert moments([]) == []


def test_each_line_is_text_that_appears_at_its_moment(tmp_path: Path) -> None:
    shown = [event(0.0, "first <&>"), event(1.0, "second"), event(1.0, "")]
    write(shown, "scripts/demo --x", tmp_path / "demo.svg")
    tree = Xml.parse(tmp_path / "demo.svg").getroot()  # noqa: S314 - made by this test
    rows = [element for element in tree.iter(f"{SVG}text") if "y" in element.attrib]
    assert [row.text for row in rows] == [
        "scripts/demo --x",
        "$ scripts/demo --x",
        "first <&>",
        "second",
    ]
    style = tree.findtext(f"{SVG}style") or ""
    share = 100 * 1.0 / (1.0 + LAST_SCREEN_S)
    assert f"@keyframes l2 {{ 0% {{ opacity: 0; }} {share:.3f}%, 100% {{ opacity: 1; }} }}" in style
    assert "@keyframes l1 " not in style, "there from the start"


def test_a_still_picture_shows_the_last_screen(tmp_path: Path) -> None:
    shown = [event(float(number), f"line {number}") for number in range(ROWS + 4)]
    write(shown, "demo", tmp_path / "demo.svg")
    tree = Xml.parse(tmp_path / "demo.svg").getroot()  # noqa: S314 - made by this test
    screen = next(element for element in tree.iter(f"{SVG}g"))
    moved = re.fullmatch(r"translate\(0 -(\d+)\)", screen.attrib["transform"])
    assert moved
    visible = [row for row in screen if int(row.attrib["y"]) > int(moved[1])]
    assert [row.text for row in visible] == [f"line {number}" for number in range(4, ROWS + 4)]


def test_a_line_fits_a_code_block_of_the_pages(capsys: object) -> None:
    assert shortened("x" * WIDTH) == "x" * WIDTH
    assert shortened("x" * (WIDTH + 1)) == "x" * (WIDTH - 1) + "…"
    live = Live()
    live.say("y" * 200)
    assert len(live.shown[0].text) == WIDTH
