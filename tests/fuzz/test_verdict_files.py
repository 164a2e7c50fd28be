"""Damaged verdict files: no reader crashes or accepts them, and none causes a drain."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.records import verdict_file
from holdfast.records.verdict_file import Published
from holdfast.vocabulary import Context, Status
from slurm_hooks.hooks import decision
from slurm_hooks.node import machine
from tests.fuzz.garbage import (
    DEEP,
    NUMBERS,
    STRANGE,
    VERDICT_FILES,
    broken,
    cut_short,
    noise,
    with_value,
    without,
)

HOOK = Path(__file__).parents[2] / "slurm_hooks" / "hook"
BOOT, UPTIME_S = "b007b007-0000-4000-8000-000000000000", 1000.0
FINDING = {
    "code": "XID79", "severity": "fatal", "subject": "GPU-3", "detail": "GPU 3 fell off", "action": "reboot",
    "gpu": 3, "cause": True, "check": "gpu_xid", "mode": "drain", "since": 1.0,
}  # fmt: skip
ABOUT = {
    "node": "worker-0", "at": 1.0, "boot_id": BOOT, "findings": [FINDING], "blind": [], "drained": False,
    "decision": {"action": "none", "reason": ""}, "problem": "", "version": "1", "agent_pid": 1,
}  # fmt: skip
SEEDS = range(3)


def whole(status: Status) -> str:
    return verdict_file.render(status, expires_s=int(UPTIME_S) + 60, boot_id=BOOT, detail=ABOUT)


def read(path: Path) -> Published:
    return verdict_file.read(path, boot_id=BOOT, uptime_s=UPTIME_S)


def _first_line(chance: random.Random, text: str) -> str:
    """A first line with a field that is none, or one too few or too many."""
    first, _, rest = text.partition("\n")
    fields = first.split(" ")
    what = chance.randrange(4)
    if what == 0:
        fields[chance.randrange(4)] = chance.choice([*NUMBERS, "OK", "Bad", "good", "holdfast/2"])
    elif what == 1:
        del fields[chance.randrange(4)]
    elif what == 2:
        fields.insert(chance.randrange(5), chance.choice(["", "x", "bad", "ok"]))
    else:
        chance.shuffle(fields)
    return f"{' '.join(fields)}\n{rest}"


def _second_line(chance: random.Random, text: str) -> str:
    """Valid JSON with content that the agent does not write."""
    first, _, rest = text.partition("\n")
    document = json.loads(rest)
    key = chance.choice(sorted(document))
    document = (
        without(document, (key,))
        if chance.random() < 0.2
        else with_value(document, (key,), chance.choice(STRANGE))
    )
    document = chance.choice([document, document, document, chance.choice(STRANGE)])
    return f"{first}\n{json.dumps(document)}\n"


def _garbage(chance: random.Random, text: str) -> bytes:
    what = chance.randrange(5)
    if what == 0:
        return noise(chance, 600)
    if what == 1:
        return text[: chance.randrange(len(text))].encode()
    if what == 2:
        return broken(chance, text.encode())
    if what == 3:
        return _first_line(chance, text).encode("utf-8", "surrogateescape")
    return _second_line(chance, text).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_reader_crashes_or_reads_bad_as_ok(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "verdict"
    for turn in range(VERDICT_FILES // len(SEEDS)):
        status = (Status.OK, Status.BAD, Status.SUSPECT)[turn % 3]
        data = _garbage(chance, whole(status))
        path.write_bytes(data)
        said = read(path)
        assert said.status in (status, Status.BLIND), data
        assert said.fresh == (said.status is not Status.BLIND), data
        assert all(isinstance(found, dict) for found in said.findings), data
        assert all(isinstance(probe, str) for probe in said.blind), data
        assert "\n" not in said.why, data
        assert len(said.why) < 400, data
        assert "unpack" not in said.why, data


def test_every_beginning_of_a_verdict_is_blind(tmp_path: Path) -> None:
    path, text = tmp_path / "verdict", whole(Status.BAD)
    for part in cut_short(text):
        path.write_text(part)
        assert read(path).status is Status.BLIND, part


@pytest.mark.parametrize(
    "detail", [DEEP, f'{{"findings": {DEEP}', "{" + '"a":{' * 50_000, "9" * 9999]
)
def test_nesting_or_length_beyond_the_limit_is_blind(tmp_path: Path, detail: str) -> None:
    path = tmp_path / "verdict"
    path.write_text(f"bad 2000 {BOOT} holdfast/1\n{detail}\n")
    assert read(path).status is Status.BLIND


def test_a_folder_a_socket_and_a_file_that_nobody_may_read(tmp_path: Path) -> None:
    assert read(tmp_path).status is Status.BLIND
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert read(tmp_path / "loop").status is Status.BLIND
    assert read(tmp_path / "verdict" / "below").status is Status.BLIND


# --- the hooks ------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with the real slow path, and a Slurm that does not answer."""
    run, empty = tmp_path / "run", tmp_path / "empty"
    run.mkdir()
    empty.mkdir()
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"paths: {{run: {run}, state: {tmp_path / 'state'}}}\nslurm: {{bin: {empty}, timeout_s: 1}}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    return run


@pytest.mark.parametrize("context", [Context.PROLOG, Context.EPILOG])
def test_the_slow_path_refuses_no_node_because_of_a_damaged_verdict(
    node: Path, context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    """A healthy node stays in service, a bad one stays bad or becomes blind; nothing is raised."""
    chance, path = random.Random(context.value), node / "verdict"
    good = verdict_file.render(
        Status.OK,
        expires_s=int(machine.uptime_s()) + 600,
        boot_id=machine.boot_id(),
        detail={**ABOUT, "findings": []},
    )
    for _ in range(100):
        data = _garbage(chance, good)
        path.write_bytes(data)
        assert decision.answer(context) == 0, data
    bad = good.replace("ok ", "bad ", 1).replace('"status": "ok"', '"status": "bad"')
    for _ in range(100):
        data = _garbage(chance, bad)
        path.write_bytes(data)
        decision.answer(context)
    assert "Traceback" not in capfd.readouterr().err


def _believable(data: bytes, path: Path) -> bool:
    """Whether the first line alone is a fresh verdict that keeps the node in service.

    The hook splits words as sh does and reads the second line only of a bad verdict.
    """
    first = " ".join(data.decode("utf-8", "replace").partition("\n")[0].split())
    status = first.partition(" ")[0]
    path.write_text(f'{first}\n{{"status": "{status}"}}\n')
    found = verdict_file.read(path, boot_id=machine.boot_id(), uptime_s=machine.uptime_s())
    return found.status in (Status.OK, Status.SUSPECT)


@pytest.fixture
def asked_prolog(tmp_path: Path) -> Path:
    """The real hook as a prolog; its slow path notes that it was asked, and refuses the node."""
    (tmp_path / "run" / "ended").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "python"
    slow.write_text(f"#!/bin/sh\n: >{tmp_path}/asked\nexit 10\n")
    slow.chmod(0o755)
    prolog = tmp_path / "prolog"
    prolog.symlink_to(HOOK)
    return prolog


@pytest.mark.parametrize("status", ["ok", "suspect", "bad"])
def test_the_sh_hook_accepts_no_damaged_verdict(asked_prolog: Path, status: str) -> None:
    """50 broken verdicts of each status. The hook by itself refuses no node; and it lets a job
    start without asking only where the first line says so. ``decision``, which it asks, is tested
    above."""
    folder = asked_prolog.parent
    chance = random.Random(f"7 {status}")
    text = verdict_file.render(
        Status(status),
        expires_s=int(machine.uptime_s()) + 600,
        boot_id=machine.boot_id(),
        detail={**ABOUT, "findings": []},
    )
    env = {"HOLDFAST_RUN": str(folder / "run"), "HOLDFAST_HOME": str(folder)}
    answers = set()
    for _ in range(50):
        data = _garbage(chance, text)
        (folder / "run" / "verdict").write_bytes(data)
        (folder / "asked").unlink(missing_ok=True)
        done = subprocess.run([os.fspath(asked_prolog)], env=env, capture_output=True, check=False)
        asked = (folder / "asked").exists()
        assert done.returncode == (10 if asked else 0), data
        assert asked or _believable(data, folder / "read"), data
        assert done.stderr == b"", data
        answers.add(done.returncode)
    assert answers == ({10} if status == "bad" else {0, 10}), "both answers were seen"
