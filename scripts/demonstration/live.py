"""The demo's output while it runs: one line per event, with the seconds since the start."""

from __future__ import annotations

import sys
import time


class Live:
    """Lines on standard output; a training's progress overwrites itself on a terminal."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._open = False

    def say(self, text: str) -> None:
        self._close()
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)

    def head(self, text: str) -> None:
        self._close()
        print(f"\n{self._bold(text)}", flush=True)

    def passing(self, text: str) -> None:
        """A line that the next one replaces; nothing when standard output is not a terminal."""
        if self._terminal:
            print(f"\r\x1b[2K{time.monotonic() - self._begin:6.1f} s  {text}", end="", flush=True)
            self._open = True

    def plain(self, text: str) -> None:
        self._close()
        print(text, flush=True)

    def _close(self) -> None:
        if self._open:
            print("\r\x1b[2K", end="")
            self._open = False

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._terminal else text
