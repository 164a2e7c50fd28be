"""Heartbeats as datagrams, each with an HMAC: no user can write one, and what does not fit is dropped."""

from __future__ import annotations

import hmac
import json
import math
from pathlib import Path
from typing import Any

from holdfast.adapters import safe_file
from holdfast.policy.node_death.heartbeat import Heartbeat
from holdfast.vocabulary import SlurmName

MAX_BYTES = 2048
KEYS = (Path("/etc/slurm/slurm.key"), Path("/etc/munge/munge.key"))
"""What Slurm's daemons share already: the key of auth/slurm, and that of munge."""

_MAC_BYTES = 32
_LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 65536
_MOST_VIEWS = 16
_MOST_CHARS = 253
_DOWN_CHARS = 16


class KeyProblem(Exception):
    """There is no key that only root and Slurm can read; the text says why."""


def read_key(path: str, cluster: str) -> bytes:
    """The key of the heartbeats, derived from a file that users cannot read.

    ``path`` empty: the first of ``KEYS`` that exists. Slurm's own key is never used itself, and each
    cluster has another one. Raises ``KeyProblem``.
    """
    chosen = Path(path) if path else next((key for key in KEYS if key.exists()), None)
    if chosen is None:
        raise KeyProblem(f"no key file: neither of {', '.join(map(str, KEYS))} exists")
    try:
        with safe_file.open_secret(chosen).file as file:
            secret = file.read(_MOST_KEY_BYTES)
    except OSError as error:
        raise KeyProblem(f"{chosen}: {error.strerror or error}") from None
    if len(secret) < _LEAST_KEY_BYTES:
        raise KeyProblem(f"{chosen}: shorter than {_LEAST_KEY_BYTES} bytes")
    return hmac.digest(secret, b"holdfast node_death 1 " + cluster.encode(), "sha256")


def encode(beat: Heartbeat, key: bytes) -> bytes:
    views = {name: round(view, 2) for name, view in beat.views.items()}
    head = [beat.sender, beat.to, beat.run, beat.tick, beat.echo_run, beat.echo_tick, views]
    body = json.dumps(head, separators=(",", ":")).encode()
    return hmac.digest(key, body, "sha256") + body


def decode(data: bytes, key: bytes) -> Heartbeat | None:
    """The heartbeat, or None if it is not one of this cluster."""
    mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
    if len(data) > MAX_BYTES or not hmac.compare_digest(mac, hmac.digest(key, body, "sha256")):
        return None
    try:
        return _beat(json.loads(body))
    except (ValueError, TypeError, RecursionError):
        return None


def _beat(fields: Any) -> Heartbeat:
    """Raises ValueError and TypeError: agents of another version may send other fields."""
    sender, to, run, tick, echo_run, echo_tick, views = fields
    texts, numbers = (sender, to, run, echo_run), (tick, echo_tick)
    if not all(isinstance(text, str) and len(text) <= _MOST_CHARS for text in texts):
        raise ValueError("not a text")
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("not a number")
    if not isinstance(views, dict) or len(views) > _MOST_VIEWS:
        raise ValueError("not a table")
    seen = {SlurmName(str(name)): float(view) for name, view in views.items()}
    if not all(map(math.isfinite, seen.values())):
        raise ValueError("not a time")
    return Heartbeat(
        sender=SlurmName(sender),
        to=SlurmName(to),
        run=run,
        tick=tick,
        echo_run=echo_run,
        echo_tick=echo_tick,
        views=seen,
    )


def proof(key: bytes, name: str, run: str, by: str) -> str:
    """Goes into the Reason of a node that is set DOWN: only an agent of the cluster can write it."""
    text = "\n".join(("down", name, run, by))
    return hmac.digest(key, text.encode(), "sha256").hex()[:_DOWN_CHARS]


def is_proof(key: bytes, name: str, run: str, by: str, given: str) -> bool:
    return hmac.compare_digest(proof(key, name, run, by).encode(), given.encode())
