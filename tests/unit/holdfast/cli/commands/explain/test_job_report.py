"""The incidents in ``holdfast explain JOB``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands.explain.files import local_report
from holdfast.cli.commands.explain.job_text import job_page
from holdfast.records.incidents import Incident

REPORT: dict[str, Any] = {
    "kind": "job",
    "job_id": 7,
    "job": None,
    "journal": None,
    "attempts": [],
    "nodes": [],
    "incidents": [],
    "report": None,
    "slurm_problem": "",
    "accounting": None,
    "kill_switches": [],
}


def page(*entries: Incident, report: dict[str, Any] | None = None) -> str:
    return job_page(
        {**REPORT, "incidents": [entry.record() for entry in entries], "report": report}
    )


def test_an_application_xid_is_attributed_to_the_job() -> None:
    text = page(Incident(code="XID13", node="worker-1", gpu=2, step="0", count=3, at=1700000000))
    assert "incident  XID13 (" in text
    assert "on worker-1 GPU 2, step 0, 3 times" in text
    assert "attributed to the job" in text


def test_a_broken_gpu_is_attributed_to_the_node() -> None:
    text = page(Incident(code="XID79", node="worker-0", gpu=5, run=2, at=1700000000))
    assert "on worker-0 GPU 5, run 2" in text
    assert "attributed to the node" in text


def test_a_job_without_incidents_shows_none() -> None:
    assert "incident " not in page()


def test_this_nodes_report_adds_counters_and_leftovers() -> None:
    own = {
        "node": "worker-1",
        "run": 0,
        "evaluated": True,
        "not_evaluated_reason": "",
        "counters": [
            {"count": 4, "title": "NVLink replays", "subject": "GPU-1", "attribution": "node"}
        ],
        "leftovers": [{"pid": 50, "command": "sleep 300", "fate": "ended"}],
    }
    text = page(report=own)
    assert "report    worker-1, run 0: complete" in text
    assert "counter   4 NVLink replays on GPU-1: attributed to the node" in text
    assert "leftover  pid 50 (sleep 300): ended" in text
    skipped = page(
        report={**own, "evaluated": False, "not_evaluated_reason": "its user asked for no checks"}
    )
    assert "not evaluated: its user asked for no checks" in skipped


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff"])
def test_an_invalid_report_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/7.json").write_bytes(text.encode("latin-1"))
    assert local_report(tmp_path, 7) is None
    assert local_report(tmp_path, 8) is None


def test_a_valid_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/7.json").write_text(json.dumps({"job": 7}))
    assert local_report(tmp_path, 7) == {"job": 7}
