"""docs/benchmarks.md: a partial run replaces only what it measured."""

from __future__ import annotations

import pytest
from measure.figures import Figure, Series
from measure.page import MAIN, Part, updated, with_some

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


WHOLE = """# Benchmarks

Measured on 2026-11-21 with `scripts/bench`:

| name | measured | Holdfast | compared with | ratio | goal |
| -- | -- | -- | -- | -- | -- |
| w | old w | 2.00 s | x | 1.00 | none: **met** |
| x | old x | 2.00 s | x | 1.00 | none: **not met** |

- w: a note
- x: an old note
  of two lines
- y: another note

## The bridge with 10 nodes

old figures
"""


def test_a_run_of_some_figures_replaces_only_these() -> None:
    text = with_some(WHOLE, part(MAIN, "new x"))
    assert "old w" in text
    assert "- w: a note\n- y: another note\n- x: measured on " in text
    assert "| x | new x | 1.00 s |" in text
    for old in ("old x", "an old note", "of two lines"):
        assert old not in text
    assert "`scripts/bench x`\n\n## The bridge with 10 nodes\n\nold figures\n" in text


def test_a_figure_that_the_page_does_not_have_comes_last_in_its_table() -> None:
    text = with_some(WHOLE.replace("| x |", "| z |"), part(MAIN, "new x"))
    main = text[: text.index("## The bridge")]
    rows = [line.split("|")[1].strip() for line in main.splitlines() if line.startswith("| ")]
    assert rows[-1] == "x"
    assert "z" in rows


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table"):
        with_some("# Benchmarks\n\nnothing\n", part(MAIN, "new x"))
