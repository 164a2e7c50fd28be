"""The demo's output as a terminal recording: one SVG file that a browser plays, without a script.

Times are those of the run; only pauses longer than ``LONGEST_PAUSE_S`` are shortened. Where nothing is
animated (a converter, a reader who asked for reduced motion) the last screen is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

from demonstration.live import WIDTH, Kind, Shown, shortened

LONGEST_PAUSE_S = 1.5
LAST_SCREEN_S = 10.0
"""How long the last screen stays before the recording begins again."""
ROWS = 32

_CELL, _LINE, _EDGE, _BAR = 7.8, 18, 18, 30
"""Pixels: width of a character, height of a line, margin, height of the window's title bar."""
_COLOURS = {
    Kind.HEAD: "#ffffff",
    Kind.EVENT: "#cbd2d9",
    Kind.PLAIN: "#cbd2d9",
}
_BACKGROUND, _TITLE, _FAILED = "#1f2933", "#7b8794", "#ff8f8f"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
_STYLE = """\
text {{ white-space: pre; }}
.head {{ font-weight: bold; }}
{frames}
@media (prefers-reduced-motion: reduce) {{ * {{ animation: none !important; }} }}
"""


def write(shown: Sequence[Shown], command: str, path: Path) -> None:
    """Write the recording of ``shown``, the lines that ``command`` printed."""
    prompt = Shown(at_s=shown[0].at_s if shown else 0.0, kind=Kind.HEAD, text=f"$ {command}")
    tree = Xml.ElementTree(_svg([prompt, *shown], command))
    Xml.indent(tree, space=" ")
    tree.write(path, encoding="utf-8", xml_declaration=False)


def moments(shown: Iterable[Shown]) -> list[float]:
    """When each line appears in the recording, in seconds from its start."""
    lines = list(shown)
    found = [0.0] if lines else []
    for before, line in pairwise(lines):
        found.append(found[-1] + min(line.at_s - before.at_s, LONGEST_PAUSE_S))
    return found


def _svg(lines: Sequence[Shown], command: str) -> Xml.Element:
    width, height = 2 * _EDGE + WIDTH * _CELL, _BAR + _EDGE + ROWS * _LINE
    times = moments(lines)
    length_s = times[-1] + LAST_SCREEN_S
    svg = Xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:g} {height}",
            "font-family": _FONT,
            "font-size": "13",
            "role": "img",
            "aria-label": f"terminal recording of {command}",
        },
    )
    Xml.SubElement(svg, "style").text = _STYLE.format(frames=_frames(times, length_s))
    Xml.SubElement(svg, "rect", {"width": "100%", "height": "100%", "rx": "8", "fill": _BACKGROUND})
    title = {"x": f"{width / 2:g}", "y": "20", "text-anchor": "middle", "fill": _TITLE}
    Xml.SubElement(svg, "text", title).text = command
    # An inner svg clips the lines that have scrolled away.
    inner = {"y": str(_BAR), "width": f"{width:g}", "height": str(ROWS * _LINE)}
    screen = Xml.SubElement(
        Xml.SubElement(svg, "svg", inner),
        "g",
        {"class": "screen", "transform": f"translate(0 {-_scrolled(len(lines))})"},
    )
    for number, line in enumerate(lines):
        if line.text:
            screen.append(_text(number, line))
    return svg


def _text(number: int, line: Shown) -> Xml.Element:
    text = shortened(line.text)
    failed = text.startswith("FAILED") or "NOT OBSERVED" in text
    row = Xml.Element(
        "text",
        {
            "class": f"{line.kind.value} l{number}",
            "x": str(_EDGE),
            "y": str((number + 1) * _LINE - 5),
            "fill": _FAILED if failed else _COLOURS[line.kind],
            # Columns align whatever monospaced font a reader has.
            "textLength": f"{len(text) * _CELL:g}",
            "xml:space": "preserve",
        },
    )
    row.text = text
    return row


def _scrolled(count: int) -> int:
    """How far, in pixels, the screen has scrolled when ``count`` lines were printed."""
    return max(0, count - ROWS) * _LINE


def _frames(times: Sequence[float], length_s: float) -> str:
    """CSS: each line appears at its moment, and the screen scrolls line by line."""
    rules, steps = [], ["0% { transform: translate(0, 0); }"]
    for number, at_s in enumerate(times):
        share = f"{100 * at_s / length_s:.3f}%"
        if at_s > 0:
            rules.append(
                f"@keyframes l{number} {{ 0% {{ opacity: 0; }} {share}, 100% {{ opacity: 1; }} }}\n"
                f".l{number} {{ animation: l{number} {length_s:.2f}s step-end infinite; }}"
            )
        if number >= ROWS and (number + 1 == len(times) or times[number + 1] > at_s):
            steps.append(f"{share} {{ transform: translate(0, {-_scrolled(number + 1)}px); }}")
    steps.append(f"100% {{ transform: translate(0, {-_scrolled(len(times))}px); }}")
    rules.append(f"@keyframes screen {{ {' '.join(steps)} }}")
    rules.append(f".screen {{ animation: screen {length_s:.2f}s step-end infinite; }}")
    return "\n".join(rules)
