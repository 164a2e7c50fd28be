"""Figures made from measurements, and their output."""

from __future__ import annotations

import pytest
from measure.figures import Figure, Series, as_json, markdown, show, text


def series(*seconds: float) -> Series:
    return Series(what="thing", seconds=seconds)


def test_p99_is_one_of_the_measurements() -> None:
    hundred = series(*(float(n) for n in range(1, 101)))
    assert hundred.quantile(0.99) == 99.0
    assert hundred.quantile(1.0) == 100.0
    assert series(*(float(n) for n in range(1, 51))).quantile(0.99) == 50.0
    assert series(3.0).quantile(0.99) == 3.0
    assert hundred.median == 50.5


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0012, "1.20 ms"), (0.5, "500.00 ms"), (121.6, "121.60 s")]
)
def test_durations_are_shown_in_a_readable_unit(seconds: float, shown: str) -> None:
    assert show(seconds) == shown


def test_a_share_of_a_core_is_shown_as_a_percentage() -> None:
    share = Series(what="agent", seconds=(0.0042,), unit="core")
    figure = Figure(name="cost", ours=share, rival=share, target="1 %", met=True)
    assert show(0.0042, "core") == "0.42%"
    for output in ("\n".join(text(figure)), "\n".join(markdown([figure]))):
        assert "0.42%" in output
    assert as_json(figure)["ours"] == {
        "what": "agent",
        "unit": "core",
        "median_s": 0.0042,
        "p99_s": 0.0042,
        "n": 1,
        "seconds": [0.0042],
    }


def test_a_size_is_shown_in_mib() -> None:
    assert show(118.6, "MiB") == "119 MiB"


def test_a_figure_is_always_shown_with_its_rival() -> None:
    figure = Figure(
        name="prolog",
        ours=series(0.003, 0.003),
        rival=Series(what="floor", seconds=(0.001,)),
        target="at most 3 times",
        met=False,
        notes=("a note",),
    )
    assert figure.ratio == pytest.approx(3.0)
    assert as_json(figure)["met"] is False
    for output in ("\n".join(text(figure)), "\n".join(markdown([figure]))):
        assert "not met" in output
        assert "1.00 ms" in output
        assert "3.00 ms" in output
        assert "a note" in output
