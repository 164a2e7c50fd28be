"""``holdfast nodes``: a summary, rows for equal nodes, and a broken configuration."""

from __future__ import annotations

import json
import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands.nodes import node_table, summary
from holdfast.drain_status import drain_status
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName

DATA = Path(__file__).parents[4] / "data" / "slurm" / "24.11"
AT = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)


def node(number: int, *states: NodeState, reason: str = "") -> SlurmNode:
    return SlurmNode(
        name=SlurmName(f"worker-{number}"),
        states=frozenset(states),
        reason=reason,
        reason_user="root" if reason else "",
        reason_at=AT + timedelta(seconds=number) if reason else None,
    )


def cluster() -> list[SlurmNode]:
    drained = (NodeState.IDLE, NodeState.DRAIN)
    return [
        *(node(number, NodeState.IDLE) for number in range(0, 300)),
        *(node(number, NodeState.ALLOCATED) for number in range(300, 490)),
        *(node(number, *drained, reason="rack 7") for number in range(490, 498)),
        node(498, *drained, reason="holdfast:XID79: GPU 2 fell off boot=1 gpu=2"),
        node(499, *drained, reason="holdfast:XID79: GPU 3 fell off boot=2 gpu=3"),
    ]


@pytest.mark.parametrize("width", [80, 120, None])
def test_500_nodes_fit_on_one_screen(width: int | None) -> None:
    rows = [(one, drain_status(one)) for one in cluster()]
    text = node_table(rows, None, width)
    lines = text.splitlines()
    assert len(lines) <= 24
    assert width is None or max(map(len, lines)) <= width
    words = text.split()
    assert "worker-[0-299]" in words
    assert "worker-[490-497]" in words
    assert words.count("holdfast:XID79:") == 2


def test_a_row_for_each_node_if_asked() -> None:
    rows = [(one, drain_status(one)) for one in cluster()]
    assert len(node_table(rows, each=True).splitlines()) == 501


def test_nodes_of_equal_text_and_different_scores_have_their_own_rows() -> None:
    rows = [(one, drain_status(one)) for one in cluster()[:3]]
    scores = {"worker-1": {"rating": "lemon", "score": 0.6}}
    lines = node_table(rows, scores).splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "worker-[0,2]", "worker-1"]


def test_the_row_has_the_time_of_the_first_of_them() -> None:
    rows = [(one, drain_status(one)) for one in cluster()[490:498]]
    assert f"{AT.astimezone() + timedelta(seconds=490):%H:%M:%S}" in node_table(rows)


def test_the_summary_counts_states_and_owners() -> None:
    assert summary([(one, drain_status(one)) for one in cluster()]) == (
        "500 nodes: 490 in service (300 idle, 190 allocated), "
        "10 out of service (8 by other, 2 by holdfast-agent)"
    )
    assert summary([]) == "0 nodes: 0 in service, 0 out of service"


def test_a_broken_configuration_and_kill_switches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "scontrol"
    data = shlex.quote(str(DATA))
    tool.write_text(
        f'#!/bin/sh\ncase "$*" in *--json) cat {data}/nodes.json ;; *) cat {data}/nodes.txt ;; esac\n'
    )
    tool.chmod(0o755)
    config = tmp_path / "holdfast.yaml"
    config.write_text("slurm: {timeout_s: no}\npaths: {run: x}\n")
    (tmp_path / "off").mkdir()
    (tmp_path / "off/all").touch()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    status = main.main(["nodes"])
    captured = capsys.readouterr()
    assert status == 2, captured.err
    assert captured.out.startswith("4 nodes: ")
    assert f"kill switch {tmp_path}/off/all is on" in captured.out
    assert len(captured.err.splitlines()) == 2
    assert all("using defaults" in line for line in captured.err.splitlines())
    assert main.main(["nodes", "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)) == 4
