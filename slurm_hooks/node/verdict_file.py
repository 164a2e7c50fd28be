"""The verdict file: the agent's word to whoever asks on this node. One writer, any reader.

Line 1 is made for sh: ``STATUS EXPIRES_UPTIME_S BOOT_ID holdfast/1``. Line 2 is JSON. Written by
rename, so nobody ever reads half of one. A reader treats stale, missing and another boot's as
blind.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.adapters.reserved_space import ReservedSpace
from holdfast.adapters.state_file import write_atomic
from holdfast.version import WIRE
from holdfast.vocabulary import Status

_RESERVED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the file says. ``fresh`` is False where it may not be believed; ``why`` says why not."""

    status: Status
    fresh: bool
    why: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def drained(self) -> bool:
        return bool(self.detail.get("drained"))

    @property
    def findings(self) -> list[dict[str, Any]]:
        found = self.detail.get("findings")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    @property
    def blind(self) -> list[str]:
        """The probes that gave no answer."""
        silent = self.detail.get("blind")
        return [one for one in silent if isinstance(one, str)] if isinstance(silent, list) else []


def path_in(run: Path) -> Path:
    return run / "verdict"


def render(status: Status, *, expires_s: int, boot_id: str, detail: dict[str, Any]) -> str:
    """The file's text. Fits the hook's two ``read`` calls: line 2 holds no line break."""
    body = json.dumps({"status": status.value, **detail}, ensure_ascii=True)
    return f"{status.value} {expires_s} {boot_id} {WIRE}\n{body}\n"


def reserve_for(run: Path) -> ReservedSpace:
    """Room for verdicts where the run folder's filesystem is full: without a fresh one the hooks would
    not know a bad node."""
    return ReservedSpace(run, "verdict", size=_RESERVED_BYTES, count=2)


def write(path: Path, text: str, reserve: ReservedSpace | None = None) -> None:
    """Replace the file in one step, readable by everybody. Raises OSError."""
    if reserve is None:
        write_atomic(path, text, mode=0o644, durable=False)
    else:
        reserve.write(path, text, mode=0o644)


def read(path: Path, *, boot_id: str, uptime_s: float) -> Published:
    """The verdict; never raises. What cannot be believed is blind."""
    try:
        first, second = path.read_text(errors="replace").split("\n")[:2]
        status, expires, boot, wire = first.split(" ")
        detail = json.loads(second)
        word = Status(status)
        deadline = int(expires)
    except FileNotFoundError:
        return Published(status=Status.BLIND, fresh=False, why="there is no verdict")
    except OSError as error:
        said = " ".join(str(error).split())[:200]
        return Published(status=Status.BLIND, fresh=False, why=f"unreadable verdict: {said}")
    except (ValueError, RecursionError):
        return Published(status=Status.BLIND, fresh=False, why=_foreign(path))
    why = ""
    if not isinstance(detail, dict) or detail.get("status") != word.value:
        why = _foreign(path)
    elif wire != WIRE:
        why = f"verdict of another format ({wire[:40]})"
    elif boot != boot_id:
        why = "verdict of another boot"
    elif uptime_s > deadline + 1:
        why = f"verdict expired {uptime_s - deadline:.0f} s ago"
    if why:
        return Published(status=Status.BLIND, fresh=False, why=why, detail=_table(detail))
    return Published(status=word, fresh=True, detail=_table(detail))


def _foreign(path: Path) -> str:
    return (
        f"not a verdict file: {path}; a running agent writes it anew at its next pass, so see that one "
        "runs and that nothing else writes there"
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
