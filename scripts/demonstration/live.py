"""The demo's output while it runs: one line per event, with the seconds since the start."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from enum import Enum

WIDTH = 100
"""Columns of a line: it fits the code blocks of the pages and most terminals."""


class Kind(Enum):
    """How a line is shown: a heading, an event with its time, or plain text."""

    HEAD = "head"
    EVENT = "event"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A printed line. ``at_s``: seconds since the start."""

    at_s: float
    kind: Kind
    text: str


class Live:
    """Lines on standard output, kept in ``shown``; a training's progress overwrites itself on a terminal."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self._begin = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._open = False

    def say(self, text: str) -> None:
        """An event, with the seconds since the start. Shortened to ``WIDTH`` columns."""
        self._show(Kind.EVENT, shortened(f"{self._passed_s():6.1f} s  {text}"))

    def head(self, text: str) -> None:
        self._show(Kind.PLAIN, "")
        self._show(Kind.HEAD, text)

    def passing(self, text: str) -> None:
        """A line that the next one replaces; nothing when standard output is not a terminal."""
        if self._terminal:
            print(f"\r\x1b[2K{self._passed_s():6.1f} s  {text}", end="", flush=True)
            self._open = True

    def plain(self, text: str) -> None:
        self._show(Kind.PLAIN, text)

    def _show(self, kind: Kind, text: str) -> None:
        self.shown.append(Shown(at_s=self._passed_s(), kind=kind, text=text))
        if self._open:
            print("\r\x1b[2K", end="")
            self._open = False
        bold = kind is Kind.HEAD and self._terminal
        print(f"\x1b[1m{text}\x1b[0m" if bold else text, flush=True)

    def _passed_s(self) -> float:
        return time.monotonic() - self._begin


def shortened(text: str) -> str:
    """``text`` in at most ``WIDTH`` columns."""
    return text if len(text) <= WIDTH else text[: WIDTH - 1].rstrip() + "…"
