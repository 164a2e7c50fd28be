"""``holdfast status``: nodes, jobs, budget, kill switches and bridge on one screen."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.cli.commands.status.command import Slow, report
from holdfast.cli.commands.status.text import page
from holdfast.cli.site_config import SiteConfig
from holdfast.drain_status import drain_status
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import QueuedJob, SlurmNode
from holdfast.slurm.parse.squeue import queue
from holdfast.vocabulary import NodeState, SlurmName

DATA = Path(__file__).parents[5] / "data" / "slurm" / "24.11"
AT = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)
DRAINED = (NodeState.IDLE, NodeState.DRAIN)


def node(name: str, *states: NodeState, reason: str = "") -> SlurmNode:
    return SlurmNode(
        name=SlurmName(name),
        states=frozenset(states),
        reason=reason,
        reason_user="root" if reason else "",
        reason_at=AT if reason else None,
    )


NODES = [
    *(node(f"w-{number}", NodeState.ALLOCATED) for number in range(40)),
    node("w-40", *DRAINED, reason="holdfast:XID79: GPU 2 fell off"),
    node("w-41", *DRAINED, reason="holdfast:DISK_FULL: / is full"),
    node("w-42", *DRAINED, reason="holdfast:KUBE_CORDON: cordoned"),
    node("w-43", *DRAINED, reason="new fan"),
]


def job(number: int, state: str = "RUNNING", restarts: int = 0, reason: str = "None") -> QueuedJob:
    return QueuedJob(
        job=str(number), state=state, state_reason=reason, restarts=restarts, user="alice", name="a"
    )


def shown(tmp_path: Path, width: int | None = None, **parts: Any) -> str:
    nodes = parts.pop("nodes", NODES)
    rows = None if nodes is None else [(one, drain_status(one)) for one in nodes]
    silent = parts.pop("silent", "")
    jobs = parts.pop("jobs", [job(1), job(2, "PENDING", 3, "JobHeldUser"), job(3, restarts=1)])
    found = SiteConfig(path=tmp_path / "holdfast.yaml")
    document = report(found, rows, None if silent else jobs, Slow(**parts), silent)
    return page(document, [row for row in rows or () if row[1].out_of_service], width)


def test_everything_is_on_one_screen(tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off/all").touch()
    rows = [
        {"name": "w-1", "rating": "lemon", "kill_switches": ["all"]},
        {"name": "w-2", "rating": "good", "kill_switches": ["all", "gpu_xid"]},
    ]
    for width in (80, 120):
        text = shown(tmp_path, width, rows=rows, pending=0)
        words = [
            line for line in text.splitlines() if str(tmp_path) not in line
        ]  # a path stays whole
        assert max(map(len, words)) <= width
        assert len(text.splitlines()) <= 45
    text = shown(tmp_path, rows=rows, pending=0)
    assert "44 nodes: 40 in service (40 allocated), 4 out of service" in text
    assert "2 by holdfast-agent" in text
    assert "1 by holdfast-bridge" in text
    assert "1 by other" in text
    assert "budget    2 of 4 nodes, of these 1 of 2 for faults that users can cause" in text
    assert "2 running, 1 pending; 2 requeued before, 1 held" in text
    assert "lemon     w-1 (holdfast history)" in text
    assert "switch    off/all on w-[1-2]" in text
    assert "switch    off/gpu_xid on w-2" in text
    assert f"here      kill switch {tmp_path}/off/all is on" in text
    drained = "1 node drained for a kubectl cordon; Slurm and Kubernetes are consistent"
    assert f"bridge    {drained}" in text
    assert "new fan" in text
    jobs = [line.split() for line in text.splitlines() if "alice" in line]
    assert [(row[0], row[-1]) for row in jobs] == [("2", "3"), ("3", "1")], "most restarts first"


def test_what_is_not_known_here_is_not_shown_as_healthy(tmp_path: Path) -> None:
    text = shown(tmp_path, history_problem="no answer in 40 s", bridge_problem="no kubeconfig")
    assert "lemons    not known here: no answer in 40 s" in text
    assert "switches  of other nodes not known here: no answer in 40 s" in text
    assert "bridge    1 node drained for a kubectl cordon; not known here: no kubeconfig" in text
    text = shown(tmp_path, silent="timed out", nodes=None, pending=2)
    assert "slurm     does not answer" in text
    assert "in service" not in text
    assert "bridge    2 changes pending (holdfast bridge --plan): does it run?" in text


def test_the_nodes_are_shown_without_a_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shlex.quote(str(DATA))
    for tool, script in (
        (
            "scontrol",
            f'case "$*" in *--json) cat {data}/nodes.json ;; *) cat {data}/nodes.txt ;; esac',
        ),
        ("squeue", "echo slurm_load_jobs error: Zero Bytes were transmitted >&2; exit 1"),
    ):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    why = "squeue: exit status 1: slurm_load_jobs error: Zero Bytes were transmitted"
    assert main.main(["status"]) == 1
    captured = capsys.readouterr()
    assert "nodes     4 nodes: 1 in service" in captured.out
    assert f"jobs      not known here: {why}\n" in captured.out
    assert "slurm     does not answer" not in captured.out
    assert captured.err == f"holdfast status: Slurm does not answer: {why}\n"
    assert main.main(["status", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["out_of_service"]] == ["n2", "n3", "n4"]
    assert (document["jobs"], document["slurm_problem"]) == (None, why)
    assert document["budget"]["used"] >= 0


def test_a_problem_of_the_configuration_is_said_once(tmp_path: Path) -> None:
    line = "holdfast.yaml:1: slrum: unknown section"
    found = SiteConfig(path=tmp_path / "holdfast.yaml", problems={line: None})
    for problem, words in ((line, "the configuration is invalid"), ("no answer", "no answer")):
        text = page(report(found, [], [], Slow(bridge_problem=problem), ""), [])
        assert f"bridge    not known here: {words}" in text.splitlines()[-1]


def test_many_requeued_jobs_are_cut(tmp_path: Path) -> None:
    text = shown(tmp_path, jobs=[job(number, restarts=1) for number in range(100)])
    assert "and 80 more" in text
    assert len([line for line in text.splitlines() if "alice" in line]) == 20


def test_a_row_of_the_queue_is_read_whatever_the_jobs_name_is() -> None:
    """Names as squeue of 24.11.5 and 26.05.5 prints them: with all bytes of the user's."""
    forged = "x\x1e\n4711\x1fRUNNING\x1fNone\x1f99\x1falice\x1fof another user"
    rows = [
        ("7_[1-3]", "PENDING", "Priority", "0", "alice", "a b\x1fc\nd"),
        ("8", "RUNNING", "None", "2", "bob", forged),
    ]
    text = "".join("\x1f77".join(row) + "\x1e77\n" for row in rows)
    first, second = queue(text, "77")
    assert (first.job, first.restarts, first.name) == ("7_[1-3]", 0, "a b\x1fc\nd")
    assert (second.job, second.user, second.name) == ("8", "bob", forged)
    assert queue("", "77") == []


def test_each_query_of_the_queue_has_a_mark_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\nfor w; do :; done\nprintf "%s\\n" "$w" >>"$0.log"\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for _ in range(2):
        assert SlurmCli(10).queue() == []
    one, other = (tmp_path / "squeue.log").read_text().rstrip("\n").split("\n")
    assert one != other
    assert re.fullmatch(r"JobArrayID:\x1f[0-9a-f]{16},.*,Name:\x1e[0-9a-f]{16}", one)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_command_goes_on_with_defaults(
    tmp_path: Path,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = shlex.quote(str(DATA))
    (tmp_path / "scontrol").write_text(
        f'#!/bin/sh\ncase "$*" in *--json) cat {data}/nodes.json ;; *) cat {data}/nodes.txt ;; esac\n'
    )
    (tmp_path / "squeue").write_text(
        "#!/bin/sh\nfor w; do :; done\nf=$(printf '\\037')${w##*Name:?} r=$(printf '\\036')${w##*Name:?}\n"
        'printf "%s\\n" "9${f}RUNNING${f}None${f}2${f}bob${f}x$r"\n'
    )
    for tool in ("scontrol", "squeue"):
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "holdfast.yaml").write_text(
        "slurm: {timeout_s: no}\nnode: {budget: {max_nodes: x}}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main.main(["status", *words]) == 2
    captured = capsys.readouterr()
    problems = [line for line in captured.err.splitlines() if "using defaults" in line]
    assert len(problems) == 2, captured.err
    if words:
        document = json.loads(captured.out)
        assert [row["name"] for row in document["out_of_service"]] == ["n2", "n3", "n4"]
        assert document["jobs"]["requeued"][0]["restarts"] == 2
    else:
        assert "4 nodes: 1 in service" in captured.out
        assert "bob" in captured.out
