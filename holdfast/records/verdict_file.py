"""The verdict file, in which the agent publishes the state of its node. One writer, any number of
readers.

Line 1 is for sh: ``STATUS EXPIRES_UPTIME_S BOOT_ID holdfast/1``. Line 2 is JSON. The file is
written by rename, so a reader never sees half of it. A verdict that is missing, expired or of
another boot counts as blind.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.adapters import safe_file
from holdfast.adapters.reserved_space import ReservedSpace
from holdfast.adapters.state_file import write_atomic
from holdfast.version import WIRE
from holdfast.vocabulary import Status

_RESERVED_BYTES = 64 << 10
_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The file's content. ``fresh``: it is valid now; ``why``: why it is not."""

    status: Status
    fresh: bool
    why: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def drained(self) -> bool:
        return bool(self.detail.get("drained"))

    @property
    def own_drain(self) -> dict[str, Any]:
        """The record of the agent's own drain that is set; empty: there is none."""
        return _table(_table(self.detail.get("decision")).get("made"))

    @property
    def findings(self) -> list[dict[str, Any]]:
        found = self.detail.get("findings")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    @property
    def blind(self) -> list[str]:
        """The probes that gave no answer."""
        probes = self.detail.get("blind")
        return (
            [name for name in probes if isinstance(name, str)] if isinstance(probes, list) else []
        )


def path_in(run: Path) -> Path:
    return run / "verdict"


def render(status: Status, *, expires_s: int, boot_id: str, detail: dict[str, Any]) -> str:
    """The file's text. Line 2 holds no line break, so that the hook can read it with two ``read``
    calls."""
    body = json.dumps({"status": status.value, **detail}, ensure_ascii=True)
    return f"{status.value} {expires_s} {boot_id} {WIRE}\n{body}\n"


def reserve_for(run: Path) -> ReservedSpace:
    """Space reserved for verdicts in case the run folder's filesystem is full: without a fresh
    verdict the hooks could not recognize a bad node."""
    return ReservedSpace(run, "verdict", size=_RESERVED_BYTES, count=2)


def write(path: Path, text: str, reserve: ReservedSpace | None = None) -> None:
    """Replace the file in one step, readable for all users. Raises OSError."""
    if reserve is None:
        write_atomic(path, text, mode=0o644, durable=False)
    else:
        reserve.write(path, text, mode=0o644)


def read(path: Path, *, boot_id: str, uptime_s: float) -> Published:
    """The verdict; an invalid one is blind. Never raises."""
    try:
        text = safe_file.read_bytes(path, max_bytes=_MAX_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return _blind("there is no verdict")
    except OSError as error:
        return _blind(f"unreadable verdict: {' '.join(str(error).split())[:200]}")
    return parse(text, boot_id=boot_id, uptime_s=uptime_s) or _blind(_foreign(path))


def parse(text: str, *, boot_id: str, uptime_s: float) -> Published | None:
    """The verdict in a file's text, which is blind if it no longer counts; ``None``: the text is no verdict.
    Pure."""
    try:
        first, second = text.split("\n")[:2]
        status, expires, boot, wire = first.split(" ")
        detail = json.loads(second)
        word, deadline = Status(status), int(expires)
    except (ValueError, RecursionError):
        return None
    if not isinstance(detail, dict) or detail.get("status") != word.value:
        return None
    why = ""
    if wire != WIRE:
        why = f"verdict of another format ({wire[:40]})"
    elif boot != boot_id:
        why = "verdict of another boot"
    elif uptime_s > deadline + 1:
        why = f"verdict expired {uptime_s - deadline:.0f} s ago"
    if why:
        return Published(status=Status.BLIND, fresh=False, why=why, detail=detail)
    return Published(status=word, fresh=True, detail=detail)


def _blind(why: str) -> Published:
    return Published(status=Status.BLIND, fresh=False, why=why)


def _foreign(path: Path) -> str:
    return (
        f"not a verdict file: {path}; a running agent replaces it at its next pass. Check that the agent "
        "runs and that no other program writes to this file"
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
