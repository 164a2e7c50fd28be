"""``holdfast explain`` and ``holdfast nodes`` on real recordings: who, why, and what gives it back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from holdfast import commands
from holdfast.adapters.slurm import SlurmNode
from holdfast.console import table
from holdfast.explain_files import local_verdict, read_journal
from holdfast.owner import Owner, standing
from holdfast.vocabulary import NodeState, SlurmName

DATA = Path(__file__).parents[2] / "data" / "slurm" / "24.11"
JOB = json.loads((DATA / "job.json").read_text())["jobs"][0]["job_id"]


def node(*states: NodeState, reason: str = "", user: str = "root") -> SlurmNode:
    return SlurmNode(
        name=SlurmName("n1"), states=frozenset(states), reason=reason, reason_user=user
    )


@pytest.mark.parametrize(
    ("states", "reason", "owner", "back"),
    [
        ((NodeState.IDLE,), "", Owner.NOBODY, ""),
        ((NodeState.IDLE,), "holdfast:XID79: left over", Owner.NOBODY, ""),
        ((NodeState.IDLE, NodeState.DRAIN), "holdfast:XID79: x", Owner.AGENT, "Reboot the node"),
        ((NodeState.IDLE, NodeState.DRAIN), "holdfast:KUBE_CORDON: x", Owner.BRIDGE, "uncordon"),
        ((NodeState.IDLE, NodeState.DRAIN), "swap DIMM", Owner.OTHER, "Only root"),
        ((NodeState.IDLE, NodeState.DRAIN), "", Owner.OTHER, "Only root"),
        ((NodeState.DOWN,), "Not responding", Owner.SLURM, "Slurm's own"),
        ((NodeState.IDLE, NodeState.NOT_RESPONDING), "", Owner.SLURM, "Slurm's own"),
        ((NodeState.DRAIN,), "Kill task failed", Owner.SLURM, "Slurm's own"),
        ((NodeState.DRAIN,), "holdfast:XID54: power", Owner.AGENT, "A person"),
    ],
)
def test_owner_and_way_back(
    states: tuple[NodeState, ...], reason: str, owner: Owner, back: str
) -> None:
    found = standing(node(*states, reason=reason))
    assert found.owner is owner
    assert back in found.undo
    assert found.out is (owner is not Owner.NOBODY)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scontrol that answers with a recording, a configuration, and this node's files."""
    tool = tmp_path / "scontrol"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"*nodes*n[1-4]*--json|*nodes*n\\[*--json) cat {DATA}/nodes.json ;;\n"
        f"'show nodes --oneliner') cat {DATA}/nodes.txt ;;\n"
        f"*job*{JOB}*--json) cat {DATA}/job.json ;;\n"
        f"*job*--json) cat {DATA}/job-unknown.json ;;\n"
        "*job*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;\n"
        "*--json) echo '{\"nodes\": []}' ;;\n"
        "*) echo 'Node zz not found'; exit 1 ;;\n"
        "esac\n"
    )
    tool.chmod(0o755)
    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("b-1\n")
    (tmp_path / "proc/uptime").write_text("100.5 1.0\n")
    (tmp_path / "run").mkdir()
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"slurm: {{bin: {tmp_path}}}\npaths: {{run: {tmp_path}/run, procfs: {tmp_path}/proc}}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.delenv("HOLDFAST_CHECKPOINTS", raising=False)
    return tmp_path


def verdict(cluster: Path, first: str = "bad 130 b-1 holdfast/1", name: str = "n2") -> None:
    finding = {"code": "XID79", "severity": "fatal", "subject": "GPU-3", "detail": "fell off"}
    detail = {"node": name, "findings": [finding], "decision": {"action": "drain", "reason": "r"}}
    (cluster / "run" / "verdict").write_text(f"{first}\n{json.dumps(detail)}\n")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = commands.main(words)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_node_of_ours(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict(cluster)
    status, out, _ = run(capsys, "explain", "n2")
    assert status == 0
    assert "n2: out of service (IDLE+DRAIN)" in out
    assert "Holdfast's agent on this node (user root)" in out
    assert "XID79: GPU has fallen off the bus" in out
    assert "verdict   bad" in out
    assert "XID79 fatal on GPU-3: fell off" in out
    assert "decision  drain: r" in out
    assert "Reboot the node" in out


def test_a_node_in_service_elsewhere(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict(cluster)  # of n2, while we ask for n1
    status, out, _ = run(capsys, "explain", "n1", "--json")
    report = json.loads(out)
    assert status == 0
    assert (report["owner"], report["out"], report["verdict"]) == ("nobody", False, None)


def test_a_humans_node(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explain", "n4")
    assert status == 0
    assert "a person or another tool" in out
    assert "Holdfast never undoes what it did not do" in out


@pytest.mark.parametrize("what", ["zz", "a b", "99999", "-5"])
def test_what_slurm_does_not_know_is_one_line(
    cluster: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    status, out, err = run(capsys, "explain", what)
    assert status == 1
    assert out == ""
    assert len(err.splitlines()) == 1
    assert what in err


def journal(folder: Path) -> None:
    (folder / ".holdfast").mkdir(parents=True)
    events = [
        {"t": 1, "event": "attempt", "attempt": 1, "restarts": 0, "nodes": "n[1-2]"},
        {"t": 2, "event": "checkpoint", "attempt": 1, "chosen": None, "rejected": []},
        {"t": 3, "event": "step_end", "attempt": 1, "exit_code": 137, "first_death": "n2: killed"},
        {"t": 4, "event": "decision", "attempt": 1, "action": "requeue", "why": "bad node n2"},
        {"t": 5, "event": "attempt", "attempt": 2, "restarts": 1, "nodes": "n[1,3]"},
        {
            "t": 6,
            "event": "checkpoint",
            "chosen": {"path": "/c/40.pt", "step": 40},
            "rejected": [1],
        },
    ]
    text = "\n".join(map(json.dumps, events)) + '\n{"torn'
    (folder / ".holdfast" / f"job-{JOB}.jsonl").write_text(text)


def test_a_job_with_its_journal(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal(cluster / "ckpt")
    status, out, _ = run(capsys, "explain", str(JOB), "--checkpoints", str(cluster / "ckpt"))
    assert status == 0
    assert "RUNNING" in out
    assert "exit 137: n2: killed" in out
    assert "bad node n2" in out
    assert "step 40" in out
    assert "holdfast-agent" in out  # the node that it left, and who drained it


def test_a_job_that_slurm_forgot_is_told_from_its_journal(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(cluster / "ckpt")
    (cluster / "ckpt/.holdfast" / f"job-{JOB}.jsonl").rename(
        cluster / "ckpt/.holdfast/job-77777.jsonl"
    )
    words = ("explain", "77777", "--checkpoints", str(cluster / "ckpt"), "--json")
    status, out, _ = run(capsys, *words)
    report = json.loads(out)
    assert status == 0
    assert report["job"] is None
    assert [attempt["decision"] for attempt in report["attempts"]] == ["requeue", None]


def test_nodes_lists_and_filters(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "nodes")
    assert status == 0
    assert len(out.splitlines()) == 5  # a newline in a reason must not break the table
    status, out, _ = run(capsys, "nodes", "--out", "--json")
    assert [(n["name"], n["owner"]) for n in json.loads(out)] == [
        ("n2", "holdfast-agent"),
        ("n3", "other"),
        ("n4", "other"),
    ]
    assert run(capsys, "nodes", "zz")[0] == 1


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("bad 130 b-1 holdfast/1", ""),
        ("bad 50 b-1 holdfast/1", "expired 50 s ago"),
        ("bad 130 b-0 holdfast/1", "before the last boot"),
        ("bad soon b-1 holdfast/1", "cannot be told"),
    ],
)
def test_a_verdict_that_may_not_be_believed_is_blind(cluster: Path, first: str, why: str) -> None:
    verdict(cluster, first)
    found = local_verdict(cluster / "run", cluster / "proc", "n2")
    assert found is not None
    assert found["status"] == ("blind" if why else "bad")
    assert why in found["why_not"]


@pytest.mark.parametrize(
    "text", ["", "bad", "bad 1 b holdfast/1", "bad 1 b holdfast/1\n[]", "\n{}"]
)
def test_a_broken_verdict_file_is_no_verdict(cluster: Path, text: str) -> None:
    (cluster / "run" / "verdict").write_text(text)
    assert local_verdict(cluster / "run", cluster / "proc", "n2") is None


def test_a_journal_is_found_near_the_working_folder(tmp_path: Path) -> None:
    journal(tmp_path / "run" / "ckpt")
    found = read_journal(JOB, None, tmp_path)
    assert found is not None
    assert len(found.attempts) == 2
    assert read_journal(JOB, None, None) is None
    assert read_journal(JOB + 1, tmp_path / "run/ckpt", tmp_path) is None


def test_a_table_lines_up_and_folds_newlines() -> None:
    assert table([("A", "B"), ("x\ny", "")]) == "A    B\nx y"


def test_nodes_with_their_lemon_scores(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = cluster / "holdfast.yaml"
    config.write_text(config.read_text().replace("paths: {", f"paths: {{history: {cluster}/h, "))
    status, out, err = run(capsys, "nodes", "--lemons")
    assert status == 0
    assert "no lemon scores" in err, "nothing was written down yet"
    assert out.splitlines()[0].split()[:2] == ["NODE", "PAST"]
    (cluster / "h").mkdir()
    drained = [
        {"t": time.time() - days * 86400, "event": "drained", "node": "n2", "code": "XID79"}
        for days in (1, 5)
    ]
    (cluster / "h" / "n2.jsonl").write_text("".join(json.dumps(one) + "\n" for one in drained))
    _, out, err = run(capsys, "nodes", "--lemons")
    assert err == ""
    past = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    assert (past["n1"], past["n2"]) == ("-", "lemon")
    _, out, _ = run(capsys, "nodes", "--lemons", "--json")
    rows = {row["name"]: row["lemon"] for row in json.loads(out)}
    assert rows["n1"] is None
    assert rows["n2"]["says"] == "lemon"
    _, out, _ = run(capsys, "nodes", "--json")
    assert "lemon" not in json.loads(out)[0]
