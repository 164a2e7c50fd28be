from __future__ import annotations

import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.policy.node_death.heartbeat import Heartbeat
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.node_death import wire

KEY = b"k" * 32
BEAT = Heartbeat(
    sender=SlurmName("worker-1"),
    to=SlurmName("worker-2"),
    run="0a1b",
    tick=7,
    echo_run="2c3d",
    echo_tick=5,
    views={SlurmName("worker-3"): 1.25, SlurmName("worker-0"): -1.0},
)


def signed(body: object) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return hmac.digest(KEY, data, "sha256") + data


def test_what_is_sent_is_received() -> None:
    assert wire.decode(wire.encode(BEAT, KEY), KEY) == BEAT


def test_nobody_without_the_key_can_write_one() -> None:
    data = wire.encode(BEAT, KEY)
    assert wire.decode(data, b"x" * 32) is None
    for at in (0, 31, 32, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        assert wire.decode(bytes(changed), KEY) is None
    assert wire.decode(data[:-1], KEY) is None
    assert wire.decode(b"", KEY) is None


FIELDS: list[Any] = ["a", "b", "r", 1, "s", 2, {"c": 0.5}]


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"\xff\xfe",
        b"[" * 1000,
        {},
        [],
        FIELDS[:-1],
        [*FIELDS, 1],
        [1, *FIELDS[1:]],
        ["x" * 300, *FIELDS[1:]],
        [*FIELDS[:3], "1", *FIELDS[4:]],
        [*FIELDS[:-1], []],
        [*FIELDS[:-1], {"c": "x"}],
        [*FIELDS[:-1], {"c": None}],
        [*FIELDS[:-1], {str(n): 1 for n in range(50)}],
        b'["a","b","r",1,"s",2,{"c":NaN}]',
        b'["a","b","r",1,"s",2,{"c":1e999}]',
    ],
)
def test_what_another_version_sends_is_dropped(body: object) -> None:
    assert wire.decode(signed(FIELDS), KEY) is not None
    assert wire.decode(signed(body), KEY) is None


def test_a_large_datagram_is_dropped() -> None:
    long = [*FIELDS[:-1], {"c" * 250 + str(n): 1.0 for n in range(10)}]
    assert wire.decode(signed(long), KEY) is None


def test_the_proof_names_node_run_and_author() -> None:
    given = wire.proof(KEY, "worker-2", "0a1b", "worker-1")
    assert wire.is_proof(KEY, "worker-2", "0a1b", "worker-1", given)
    assert not wire.is_proof(KEY, "worker-3", "0a1b", "worker-1", given)
    assert not wire.is_proof(KEY, "worker-2", "ffff", "worker-1", given)
    assert not wire.is_proof(b"x" * 32, "worker-2", "0a1b", "worker-1", given)
    assert not wire.is_proof(KEY, "worker-2", "0a1b", "worker-1", "\u00e9")


def test_the_key_is_derived_and_differs_between_clusters(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"s" * 1024)
    file.chmod(0o400)
    key = wire.read_key(str(file), "one")
    assert len(key) == 32
    assert key != wire.read_key(str(file), "two")


@pytest.mark.parametrize(("mode", "text"), [(0o640, b"s" * 64), (0o604, b"s" * 64), (0o600, b"s")])
def test_a_key_that_others_can_read_or_guess_is_refused(
    tmp_path: Path, mode: int, text: bytes
) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    file.chmod(mode)
    with pytest.raises(wire.KeyProblem, match=str(file)):
        wire.read_key(str(file), "demo")


def test_a_folder_a_pipe_and_a_missing_file_are_no_key(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("", "pipe", "missing"):
        with pytest.raises(wire.KeyProblem):
            wire.read_key(str(tmp_path / name) if name else str(tmp_path), "demo")
