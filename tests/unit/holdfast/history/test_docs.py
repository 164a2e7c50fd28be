"""docs/reference/history.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.history import event, lemon

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "history.md").read_text()


def test_the_documented_score_equals_the_code() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| ([0-9.]+) \|[^|]*\| ([0-9]+) \|$", PAGE, re.MULTILINE)
    assert {name: float(weight) for name, weight, _ in rows} == lemon.WEIGHTS
    assert {name: float(much) for name, _, much in rows} == lemon.REFERENCE
    for name, weight, much in rows:  # and so does the docstring, which is where a reader looks
        assert re.search(
            rf"^    {name} +{weight} .*?(?= {much}$)", lemon.__doc__ or "", re.M | re.S
        )
    assert f"at least {lemon.LEMON_AT:g}, or two drains" in PAGE
    assert f"at least {lemon.WATCH_AT:g}." in PAGE
    assert (lemon.LEMON_DRAINS, lemon.WINDOW_S, lemon.BURST_S) == (2, 28 * 86400, 180)


def test_every_event_is_documented() -> None:
    names = {
        value
        for name, value in vars(event).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    table = PAGE[PAGE.index("| event |") : PAGE.index("More names")]
    assert set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", table)) >= names
