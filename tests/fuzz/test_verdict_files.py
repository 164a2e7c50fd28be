"""Broken verdict files: no reader crashes, none believes them, and no node leaves service by one."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.vocabulary import Context, Status
from slurm_hooks import gate, machine, verdict_file
from slurm_hooks.verdict_file import Published
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
    """Well-formed JSON with something else in it than the agent writes."""
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
def test_no_reader_crashes_or_takes_bad_for_good(tmp_path: Path, seed: int) -> None:
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
def test_what_is_too_deep_or_too_long_is_blind(tmp_path: Path, detail: str) -> None:
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
    """A node whose slow path is the real gate; no Slurm answers there."""
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
def test_the_gate_refuses_by_no_broken_verdict(
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
        assert gate.answer(context) == 0, data
    bad = good.replace("ok ", "bad ", 1).replace('"status": "ok"', '"status": "bad"')
    for _ in range(100):
        data = _garbage(chance, bad)
        path.write_bytes(data)
        gate.answer(context)
    assert "Traceback" not in capfd.readouterr().err


def test_the_sh_hook_lets_no_healthy_node_go(tmp_path: Path) -> None:
    """150 broken verdicts, each by the real hook: 0, by itself or by the slow path that it asks."""
    (tmp_path / "run" / "ended").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "python"
    slow.write_text("#!/bin/sh\nexit 0\n")
    slow.chmod(0o755)
    prolog = tmp_path / "prolog"
    prolog.symlink_to(HOOK)
    chance = random.Random(7)
    text = verdict_file.render(
        Status.OK,
        expires_s=int(machine.uptime_s()) + 600,
        boot_id=machine.boot_id(),
        detail={**ABOUT, "findings": []},
    )
    env = {"HOLDFAST_RUN": str(tmp_path / "run"), "HOLDFAST_HOME": str(tmp_path)}
    for turn in range(150):
        data = _garbage(chance, text if turn % 2 else text.replace("ok ", "suspect ", 1))
        (tmp_path / "run" / "verdict").write_bytes(data)
        done = subprocess.run([os.fspath(prolog)], env=env, capture_output=True, check=False)
        assert done.returncode == 0, data
        assert done.stderr == b"", data
