"""JSON to dataclasses: valid values are read back, an invalid one is named in the error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from holdfast.adapters.typed_json import typed
from holdfast.vocabulary import Action, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    severity: Severity = Severity.INFO
    points: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    boot: str
    count: int | None = None
    share: float = 0.0
    there: bool = False
    action: Action = Action.NONE
    parts: tuple[Part, ...] = ()
    by_index: Mapping[int, Part] = field(default_factory=dict)
    words: frozenset[str] = frozenset()


WHOLE = Whole(
    boot="b",
    count=3,
    share=0.5,
    there=True,
    action=Action.REBOOT,
    parts=(Part(name="x", severity=Severity.FATAL, points=((1.0, 2), (3.5, 4))),),
    by_index={7: Part(name="y")},
)


def written(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps({**asdict(WHOLE), "words": ["a"]}))
    return {**document, **changes}


def test_written_values_are_read_back() -> None:
    assert typed(written(words=[]), Whole) == WHOLE
    assert typed({"moment": 0}["moment"], datetime) == datetime(1970, 1, 1, tzinfo=timezone.utc)


def test_other_versions_may_know_less_or_more() -> None:
    assert typed({"boot": "b", "later": [1]}, Whole) == Whole(boot="b")
    with pytest.raises(ValueError, match="boot is missing"):
        typed({}, Whole)


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("boot", None, "boot"),
        ("boot", "\ud800", "boot"),
        ("count", "3", "count"),
        ("count", True, "count"),
        ("count", 3.0, "count"),
        ("count", 2**64, "count"),
        ("share", float("inf"), "share"),
        ("share", float("nan"), "share"),
        ("there", 1, "there"),
        ("action", "explode", "action"),
        ("parts", {}, "parts"),
        ("parts", [{}], r"parts\[0\].name"),
        ("parts", [{"name": "x", "severity": 2.0}], r"parts\[0\].severity"),
        ("parts", [{"name": "x", "points": [[1.0]]}], r"parts\[0\].points\[0\]"),
        ("by_index", {"x": {"name": "y"}}, "by_index"),
        ("by_index", [], "by_index"),
    ],
)
def test_what_does_not_fit_is_named(key: str, value: Any, where: str) -> None:
    with pytest.raises(ValueError, match=f"^{where} (should be|is missing)"):
        typed(written(**{key: value}), Whole)


@pytest.mark.parametrize("seconds", [1e30, -1.0, 10**40, "now"])
def test_impossible_times_are_rejected(seconds: Any) -> None:
    with pytest.raises(ValueError, match="should be"):
        typed(seconds, datetime)
