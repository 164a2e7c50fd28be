"""Truncated histories, job baselines and hooks' notes: complete parts are read, the rest is
counted."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from holdfast.history import store
from holdfast.history.event import Event
from slurm_hooks.agent.job_runs import hook_notes
from slurm_hooks.agent.job_runs.run_store import RunStore
from slurm_hooks.agent.job_runs.runs import JobRun, Runs
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.outcome.attempt_end import NOT_STARTED, facts
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.past_attempts import past
from tests.fuzz.garbage import DEEP, LONG, NUMBERS, broken, cut_short, noise, wrong_documents

BOOT = "b007b007-0000-4000-8000-000000000000"
EVENTS = [
    Event(t=float(n), event="finding", node="worker-0", boot_id=BOOT, code="XID79", gpu=3)
    for n in range(4)
]


# --- history --------------------------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path) -> Path:
    for event in EVENTS:
        line = json.dumps(event.record()).encode() + b"\n"
        store.append(tmp_path, "worker-0", line, max_bytes=1 << 20)
    return tmp_path


def test_a_truncated_history_loses_only_its_last_line(history: Path) -> None:
    path = store.file_of(history, "worker-0")
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        read = store.read(history)
        whole = data[:end].count(b"\n") + (end > 0 and data[end : end + 1] == b"\n")
        assert len(read.events) == whole, end
        assert read.events == EVENTS[:whole], end
        assert read.problems == (), end


def test_a_line_appended_after_an_incomplete_one_is_complete(history: Path) -> None:
    path = store.file_of(history, "worker-0")
    path.write_bytes(path.read_bytes()[:-7])
    line = (
        json.dumps({"t": 9.0, "event": "returned_to_service", "node": "worker-0"}).encode() + b"\n"
    )
    store.append(history, "worker-0", line, max_bytes=1 << 20)
    assert [event.t for event in store.read(history).events] == [0.0, 1.0, 2.0, 9.0]


def test_no_garbage_hides_a_history(history: Path) -> None:
    chance = random.Random(3)
    path = store.file_of(history, "worker-0")
    good = path.read_bytes().splitlines()
    rubbish = [
        *(broken(chance, good[0]).replace(b"\n", b" ") + b"}{" for _ in range(200)),
        *(noise(chance).replace(b"\n", b" ").replace(b"\r", b" ") + b"\xff" for _ in range(200)),
        DEEP.encode(),
        b'{"t": Infinity, "event": "finding"}',
        b'{"t": true, "event": "finding"}',
        b'{"t": 1, "event": 7}',
        f'{{"t": {LONG}, "event": "finding"}}'.encode(),
        b"null",
    ]
    lines = [*good, *rubbish]
    chance.shuffle(lines)
    path.write_bytes(b"\n".join(lines) + b"\n")
    read = store.read(history)
    assert sorted(event.t for event in read.events) == [event.t for event in EVENTS]
    assert all(math.isfinite(event.t) for event in read.events)


# --- baselines of jobs ----------------------------------------------------------------------------


@pytest.fixture
def run_store(tmp_path: Path) -> RunStore:
    run = JobRun(job=7, restarts=1, started_s=5.0, uid=2001, gpus=frozenset({0, 3}), baseline_s=6.0)
    RunStore(tmp_path, BOOT).save(Runs(runs={run.key: run}))
    return RunStore(tmp_path, BOOT)


def test_a_truncated_baseline_is_not_used(run_store: RunStore) -> None:
    text = run_store.path.read_text()
    assert list(run_store.load()[0].runs) == [(7, 1)]
    for part in cut_short(text):
        run_store.path.write_text(part)
        ledger, problem = run_store.load()
        assert ledger == Runs(), part
        assert problem.startswith(f"{run_store.path}: "), part
        assert "\n" not in problem, part


def test_no_invalid_baseline_stops_the_agent(run_store: RunStore) -> None:
    for what, text in wrong_documents(json.loads(run_store.path.read_text())):
        run_store.path.write_text(text)
        try:
            ledger, problem = run_store.load()
        except Exception as error:
            raise AssertionError(what) from error
        assert "\n" not in problem, what
        assert not problem or ledger == Runs(), what
        for run in ledger.runs.values():
            assert type(run.job) is int, what
            assert math.isfinite(run.started_s), what
            assert run.ended_s is None or math.isfinite(run.ended_s), what


# --- notes of the sh hook -------------------------------------------------------------------------

NOTE = "holdfast-job/1 start 4711 2 1234.56 b007b007-0000-4000-8000-000000000000 2001 0,2-4 - - end"


def test_a_truncated_note_is_invalid(tmp_path: Path) -> None:
    words = NOTE.replace("holdfast-job/1", hook_notes.WIRE)
    path = tmp_path / "4711.start"
    for part in cut_short(words):
        path.write_text(part)
        assert isinstance(hook_notes.read(path), str), part
    path.write_text(words)
    assert isinstance(hook_notes.read(path), hook_notes.HookNote)


def test_no_garbage_in_a_note_is_accepted(tmp_path: Path) -> None:
    chance, path = random.Random(4), tmp_path / "4711.start"
    words = NOTE.replace("holdfast-job/1", hook_notes.WIRE).split()
    for _ in range(1500):
        said = list(words)
        at = chance.choice([2, 3, 4, 6, 7, 8])
        said[at] = chance.choice([*NUMBERS, "inf", "nan", "-0", "0-99999", "1e400", "9" * 400])
        path.write_bytes(" ".join(said).encode("utf-8", "surrogateescape"))
        found = hook_notes.read(path)
        if isinstance(found, hook_notes.HookNote):
            assert math.isfinite(found.at_s), said
            assert found.at_s >= 0, said
            assert found.job < 2**64, said
        else:
            assert "\n" not in found, said
            assert len(found) < 500, said


# --- journals of jobs -----------------------------------------------------------------------------

ATTEMPT: list[dict[str, object]] = [
    {"event": "attempt", "attempt": 1, "restarts": 0, "job_start": 5.0, "nodes": "w-[0-1]"},
    {"event": "checkpoint", "chosen": {"path": "/x", "step": 4, "reason": ""}, "rejected": []},
    {"event": "step_start"},
    {"event": "step_end", "exit_code": 1, "terminated": False},
    {"event": "evidence", "faults": [], "fingerprint": "x", "progressed": None, "suspects": ["w"]},
    {"event": "finish", "exit_code": 1, "why": "z"},
]


@pytest.mark.parametrize("at", range(len(ATTEMPT)))
def test_no_invalid_journal_keeps_a_job_from_its_checkpoints(tmp_path: Path, at: int) -> None:
    path = tmp_path / "job-7.jsonl"
    for what, text in wrong_documents({"t": 1.0, **ATTEMPT[at]}):
        lines = [json.dumps({"t": 1.0, **event}) for event in ATTEMPT]
        lines[at] = text.replace("\n", " ")
        path.write_text("\n".join(lines) + "\n")
        try:
            found = past(Journal(path, lambda: 9.0, restarts=1, job_start=9.0).events())
            facts(JobSnapshot(job=None, faults=()), NOT_STARTED, found, 2)
        except Exception as error:
            raise AssertionError(what) from error
        assert len(found) <= 2, what
