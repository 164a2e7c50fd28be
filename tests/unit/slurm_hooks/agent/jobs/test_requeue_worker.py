"""When the agent decides that jobs on its node cannot continue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_hooks.agent.jobs.requeue_worker import work_lost

MADE = {"code": "MOUNT_HUNG"}


@pytest.mark.parametrize(
    ("first", "made", "severity", "answer"),
    [
        ("bad 130 b-1 holdfast/1", MADE, "fatal", True),
        ("bad 130 b-1 holdfast/1", MADE, "warn", False),
        ("bad 130 b-1 holdfast/1", None, "fatal", False),
        ("bad 99 b-1 holdfast/1", MADE, "fatal", False),
        ("bad 130 b-0 holdfast/1", MADE, "fatal", False),
        ("suspect 130 b-1 holdfast/1", MADE, "fatal", False),
    ],
)
def test_work_is_lost_with_a_fresh_fatal_verdict_and_the_agents_own_drain(
    tmp_path: Path, first: str, made: object, severity: str, answer: bool
) -> None:
    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n")
    (tmp_path / "proc/uptime").write_text("110.5 1.0\n")
    detail = {
        "status": first.split()[0],
        "node": "n1",
        "findings": [{"code": "MOUNT_HUNG", "severity": severity}],
        "decision": {"action": "drain", "made": made},
    }
    (tmp_path / "verdict").write_text(f"{first}\n{json.dumps(detail)}\n")
    assert work_lost(tmp_path, tmp_path / "proc") is answer


def test_without_a_verdict_work_is_not_lost(tmp_path: Path) -> None:
    assert work_lost(tmp_path, tmp_path) is False
