"""The log: one line of ``key=value`` pairs for each event, on standard error.

``2026-11-21T03:04:05.678Z warning agent: drained node=worker-1 code=XID79``, or after ``use_json`` one
JSON object with the same content. Nothing is buffered. An error while writing (a closed pipe, a full disk) is ignored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import PurePath
from typing import TextIO

from holdfast.text.printable import folded

_Line = Callable[[datetime, str, str, str, "dict[str, object]"], str]


def _now() -> datetime:
    return datetime.now(timezone.utc)


class _Format:
    line: _Line


def use_json(on: bool = True) -> None:
    """The form of the lines of every log of this process: JSON, or text again."""
    _Format.line = staticmethod(json_line if on else line)


@dataclass(frozen=True, slots=True)
class Log:
    """A named log. ``stream``: standard error when None; ``clock`` is for tests."""

    name: str
    stream: TextIO | None = None
    clock: Callable[[], datetime] = _now

    def info(self, event: str, **facts: object) -> None:
        self._write("info", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._write("warning", event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._write("error", event, facts)

    def exception(self, event: str, error: BaseException, **facts: object) -> None:
        """An internal error, with file and line of each call that led to it, the innermost first."""
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
            trace = trace.tb_next
        what = f"{type(error).__name__}: {error}"
        self.error(event, **facts, error=what, trace=" ".join(reversed(frames)))

    def _write(self, level: str, event: str, facts: dict[str, object]) -> None:
        text = _Format.line(self.clock(), level, self.name, event, facts)
        try:
            stream = self.stream or sys.stderr
            stream.write(text + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass


def line(at: datetime, level: str, name: str, event: str, facts: dict[str, object]) -> str:
    """One log line without a line feed; values with blanks are quoted, ``None`` is left out. Pure."""
    pairs = [f"{key}={_value(value)}" for key, value in facts.items() if value is not None]
    return " ".join([_stamp(at), level, f"{name}:", *folded(event).split(), *pairs])


def json_line(at: datetime, level: str, name: str, event: str, facts: dict[str, object]) -> str:
    """The same as one JSON object: ``time``, ``level``, ``logger``, ``message``, and the facts. Pure."""
    row: dict[str, object] = {
        "time": _stamp(at),
        "level": level,
        "logger": name,
        "message": folded(event),
    }
    for key, value in facts.items():
        if value is not None:
            plain = isinstance(value, (bool, int, float))
            row[f"fact_{key}" if key in row else key] = value if plain else str(value)
    return json.dumps(row)


def _stamp(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


_Format.line = staticmethod(line)


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    plain = folded(text)
    if plain and not any(c in plain for c in ' "=\\'):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
