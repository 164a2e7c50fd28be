"""docs/benchmarks.md: a partial run replaces only what it measured."""

from __future__ import annotations

from measure.figures import Figure, Series
from measure.page import MAIN, Part, updated

OLD = """# Benchmarks

<!-- Written by scripts/bench; do not edit. -->

main figures of last week

## The bridge with 10 nodes

old figures
"""


def part(title: str, what: str) -> Part:
    series = Series(what=what, seconds=(1.0,))
    figure = Figure(name="x", ours=series, rival=series, target="none", met=True)
    return Part(title=title, command="scripts/bench x", about=("2 cores",), figures=(figure,))


def test_a_part_replaces_the_one_with_its_title_and_no_other() -> None:
    text = updated(OLD, [part("The bridge with 10 nodes", "new figure")])
    assert "main figures of last week" in text
    assert "old figures" not in text
    assert "new figure" in text
    assert "- 2 cores\n" in text
    assert updated(text, []) == text


def test_a_new_part_comes_after_the_main_one() -> None:
    text = updated(OLD, [part("Another part", "new figure"), part(MAIN, "main figure")])
    assert text.startswith(
        "# Benchmarks\n\n<!-- Written by scripts/bench; do not edit. -->\n\nMeas"
    )
    assert "old figures" in text
    assert text.index("main figure") < text.index("old figures") < text.index("## Another part")
