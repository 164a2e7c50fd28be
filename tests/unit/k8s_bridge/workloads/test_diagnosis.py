"""Termination messages are diagnosed by Holdfast's own program, once each, and never for long."""

from __future__ import annotations

import json
import sys
import time

import pytest

from k8s_bridge.workloads import diagnosis
from k8s_bridge.workloads.diagnosis import MOST_IN_A_LOOK, UNKNOWN, Diagnoses

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages for which a process was started: one that knows nothing."""
    messages: list[str] = []
    answer = json.dumps({"cause": {"code": "X", "class": "unknown", "line": 1}})
    code = f"import sys; sys.stdin.read(); print({answer!r})"

    def program(*words: str) -> list[str]:
        messages.append(" ".join(words))
        return [sys.executable, "-I", "-S", "-c", code]

    monkeypatch.setattr(diagnosis, "own_program", program)
    return messages


def test_the_class_of_the_cause_and_its_code() -> None:
    diagnoses = Diagnoses()
    assert diagnoses.of((ECC,)) == ("C04", "hardware", 0)
    assert diagnoses.of(("ModuleNotFoundError: No module named 'nump'",)).cause == "user"
    assert diagnoses.of(("all is well",)).cause == "unknown"


def test_the_message_with_the_cause_is_found_among_those_of_all_ranks() -> None:
    timeout = "Watchdog caught collective operation timeout"
    messages = ("step 1\r\nstep 2\n\n", "", f"saving\n{ECC}\n\n", timeout)
    assert Diagnoses().of(messages) == ("C04", "hardware", 2)


def test_each_message_is_diagnosed_once(started: list[str]) -> None:
    diagnoses = Diagnoses()
    assert [diagnoses.of((one,)) for one in "aab"] == [("X", "unknown", 0)] * 3
    assert started == ["holdfast diagnose --json -"] * 2


def test_a_look_starts_a_limited_number_of_processes(started: list[str]) -> None:
    diagnoses = Diagnoses()
    found = [diagnoses.of((f"message {i}",)) for i in range(MOST_IN_A_LOOK + 5)]
    assert len(started) == MOST_IN_A_LOOK
    assert found[-5:] == [UNKNOWN] * 5
    diagnoses.begin()
    assert diagnoses.of((f"message {MOST_IN_A_LOOK}",)) == ("X", "unknown", 0)


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(60)", "print('no JSON')", "print('[]')", "raise SystemExit(2)"],
)
def test_a_diagnosis_that_fails_or_hangs_is_unknown(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(diagnosis, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(
        diagnosis, "own_program", lambda *_: [sys.executable, "-I", "-S", "-c", code]
    )
    begun = time.monotonic()
    assert Diagnoses().of(("x",)) == UNKNOWN
    assert time.monotonic() - begun < 30
