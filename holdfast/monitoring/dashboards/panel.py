"""What a dashboard is made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """``legend``: Grafana's template for a series' name; it may use labels of the result."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """``kind``: stat, timeseries or table. ``red_from``: a value from which it is red."""

    title: str
    about: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    red_from: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels below one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """``variable``: a label of ``holdfast_agent_info`` to choose from; ``several``: more than one."""

    name: str
    title: str
    about: str
    rows: Sequence[Row]
    variable: str = ""
    several: bool = False
