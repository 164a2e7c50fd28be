"""Prometheus' text exposition format, version 0.0.4. Pure.

Source: prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PREFIX = "holdfast_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One value with its labels."""

    value: float
    labels: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one name. ``kind`` is ``gauge`` or ``counter``."""

    name: str
    kind: str
    text: str
    samples: tuple[Sample, ...] = field(default=())


def gauge(name: str, text: str, samples: Iterable[Sample]) -> Family:
    """A value that goes up and down."""
    return Family(name=PREFIX + name, kind="gauge", text=text, samples=tuple(samples))


def counter(name: str, text: str, samples: Iterable[Sample]) -> Family:
    """A value that only grows, and starts from zero after a restart."""
    return Family(name=PREFIX + name, kind="counter", text=text, samples=tuple(samples))


def render(families: Iterable[Family]) -> str:
    """The page; a family without samples is left out."""
    lines = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {_escaped(family.text)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [f"{family.name}{_labels(s.labels)} {_number(s.value)}" for s in family.samples]
    return "".join(line + "\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    # A lone surrogate (from a file name that is not UTF-8) cannot be encoded as UTF-8.
    text = text.encode("utf-8", "replace").decode()
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    )
