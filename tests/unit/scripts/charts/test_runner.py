"""scripts/hold_against runs the scripts of a worker through every state, and finds what is wrong there.

Soperator's part is a small program here that behaves like its check runner: a failing check ends the
prolog with 1. The real one is run by scripts/hold_against; its answers are in the record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from charts import runner
from charts.errors import NotHeld

from holdfast.cli.commands.render import render_text

RECORD = Path(__file__).parents[3] / "data/deploy/soperator.json"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")


@pytest.fixture
def scripts() -> Mapping[str, str]:
    values = yaml.safe_load(render_text("soperator"))["slurmScripts"]
    extra = values.pop("extra")
    own = {name: "#!/bin/sh\nexit 0\n" for name in extra if name.startswith("soperator_")}
    entries = [json.loads(file["config"]) for file in extra.values()]
    rest = {name: file["content"] for name, file in extra.items()}
    return {**rest, **values, **own, "checks.json": json.dumps(entries)}


def test_a_bad_node_refuses_the_job_and_nothing_else_does(
    scripts: Mapping[str, str], tmp_path: Path
) -> None:
    found = runner.answers(scripts, tmp_path, "wrapper")
    assert set(found) == set(runner.STATES)
    refused = {state for state, answers in found.items() if answers["prolog"]}
    assert refused == {"bad", "stale and bad"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("0 | 10)", "*)", "crash of the hook: exit statuses"),
        ("timeout -k 5 25 ", "timeout -k 5 0 ", "hang: did not end"),
        ("[ $? -eq 10 ]", "[ $? -eq 11 ]", "bad: exit statuses"),
        (
            "run_hook /opt",
            "scontrol update NodeName=worker-0 State=drain\nrun_hook /opt",
            "scontrol",
        ),
    ],
)
def test_a_wrapper_that_is_wrong_is_found(
    scripts: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    old: str, new: str, problem: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "_LONGEST_S", 6.0)
    # As before it was repaired: any status but 0 counted as bad.
    wrong = scripts["prolog.sh"].replace(old, new)
    if old == "0 | 10)":
        wrong = wrong.replace("[ $? -eq 10 ]", "[ $? -ne 0 ]")
    assert wrong != scripts["prolog.sh"]
    with pytest.raises(NotHeld, match=problem):
        runner.answers({**scripts, "prolog.sh": wrong}, tmp_path, "wrapper")


def test_the_record_has_the_answers_of_every_release() -> None:
    record = json.loads(RECORD.read_text())
    assert set(record["answers"]) == set(record["releases"])
    for gates in record["answers"].values():
        for hooks in ("wrapper", "runner"):
            answers = gates[hooks]
            assert set(answers) == set(runner.STATES)
            refused = {state for state, statuses in answers.items() if statuses["prolog"]}
            assert refused == {"bad", "stale and bad"}
            assert not any(statuses["hc_program"] for statuses in answers.values())
