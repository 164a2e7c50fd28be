"""A measured figure and its output as text, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Repeated measurements of one thing: durations, shares of one core with ``unit`` "core", or sizes with "MiB"."""

    what: str
    seconds: tuple[float, ...]
    unit: str = "s"

    @property
    def median(self) -> float:
        return median(self.seconds)

    def quantile(self, share: float) -> float:
        """The smallest measurement that at least ``share`` of all do not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``ours`` compared with ``rival`` (a lower bound, or another program for the same purpose).

    ``target``: the goal as text. ``met``: whether this run reached it. ``notes``: more facts.
    """

    name: str
    ours: Series
    rival: Series
    target: str
    met: bool
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def ratio(self) -> float:
        return self.ours.median / self.rival.median if self.rival.median else float("inf")


def as_json(figure: Figure) -> dict[str, object]:
    """Stable keys; seconds."""
    return {
        "name": figure.name,
        "ours": _series(figure.ours),
        "rival": _series(figure.rival),
        "ratio": figure.ratio,
        "target": figure.target,
        "met": figure.met,
        "notes": list(figure.notes),
    }


def text(figure: Figure) -> list[str]:
    return [
        f"{figure.name}: {figure.ours.what}",
        *map(_line, (figure.ours, figure.rival)),
        f"  ratio {figure.ratio:.2f}   target: {figure.target}   {verdict(figure)}",
        *(f"  {note}" for note in figure.notes),
    ]


def _line(series: Series) -> str:
    return (
        f"  {series.what:<64} median {show(series.median, series.unit):>9}  "
        f"p99 {show(series.quantile(0.99), series.unit):>9}  n {len(series.seconds)}"
    )


def markdown(figures: Sequence[Figure]) -> list[str]:
    head = "| name | measured | Holdfast | compared with | ratio | goal |"
    rows = [head, "|" + " --- |" * 6, *map(row, figures)]
    notes = [f"* {figure.name}: {note}" for figure in figures for note in figure.notes]
    return [*rows, "", *notes]


def row(figure: Figure) -> str:
    return (
        f"| {figure.name} | {figure.ours.what} | {_cell(figure.ours)} | {figure.rival.what}: {_cell(figure.rival)} "
        f"| {figure.ratio:.2f} | {figure.target}: **{verdict(figure)}** |"
    )


def verdict(figure: Figure) -> str:
    return "met" if figure.met else "not met"


def show(seconds: float, unit: str = "s") -> str:
    """A duration in a readable unit, a share of one core, or a size."""
    if unit == "core":
        return f"{seconds:.2%}"
    if unit == "MiB":
        return f"{seconds:.0f} MiB"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.2f} ms"


def _cell(series: Series) -> str:
    """The median, and in brackets p99 and the number of measurements; alone if there is only one."""
    middle = show(series.median, series.unit)
    if len(series.seconds) == 1:
        return middle
    return f"{middle} ({show(series.quantile(0.99), series.unit)}, {len(series.seconds)})"


def _series(series: Series) -> dict[str, object]:
    return {
        "what": series.what,
        **({} if series.unit == "s" else {"unit": series.unit}),
        "median_s": series.median,
        "p99_s": series.quantile(0.99),
        "n": len(series.seconds),
        "seconds": list(series.seconds),
    }
