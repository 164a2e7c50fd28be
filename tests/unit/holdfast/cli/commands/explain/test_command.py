"""``holdfast explain`` and ``holdfast nodes`` on real recordings: who, why, and what returns a node."""

from __future__ import annotations

import json
import os
import shlex
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.cli.commands.explain.command import node_with_kubernetes
from holdfast.cli.commands.explain.files import agent_report, local_verdict, read_journal
from holdfast.cli.commands.explain.job_text import job_page
from holdfast.cli.commands.explain.node_text import kubernetes_lines, node_page
from holdfast.cli.commands.nodes import as_json
from holdfast.config.schema import PathsConfig
from holdfast.drain_status import drain_status
from holdfast.text.tables import table
from holdfast.vocabulary import Action, NodeState
from slurm_hooks.agent.drain.record import plain
from tests.unit.holdfast.drain_examples import made, node

DATA = Path(__file__).parents[5] / "data" / "slurm" / "24.11"
QUOTED = shlex.quote(str(DATA))  # the checkout may lie in a folder whose name has a blank
JOB = json.loads((DATA / "job.json").read_text())["jobs"][0]["job_id"]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scontrol that answers with a recording, a configuration, and this node's files."""
    tool = tmp_path / "scontrol"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"*nodes*n[1-4]*--json|*nodes*n\\[*--json) cat {QUOTED}/nodes.json ;;\n"
        f"'show nodes --oneliner') cat {QUOTED}/nodes.txt ;;\n"
        f"*job*{JOB}*--json) cat {QUOTED}/job.json ;;\n"
        f"*job*--json) cat {QUOTED}/job-unknown.json ;;\n"
        f"*job*7_1*--oneliner) echo 'JobId={JOB} ArrayJobId=7 ArrayTaskId=1 JobName=a' ;;\n"
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


N2 = "holdfast:XID79: GPU 3 fell off the bus boot=abcdef01 gpu=3"
N2_AT = 1795230003


def verdict(
    cluster: Path, first: str = "bad 130 b-1 holdfast/1", name: str = "n2", **decision: Any
) -> None:
    finding = {"code": "XID79", "severity": "fatal", "subject": "GPU-3", "detail": "fell off"}
    detail = {
        "status": first.split()[0],
        "node": name,
        "at": N2_AT + 60.5,
        "findings": [finding, {**finding, "code": "IB_FLAP", "left_s": 600.0, "mode": "observe"}],
        "facts": {"GPUs": "7 of 8 answer", "mounts": "2 OK"},
        "decision": {"action": "drain", "reason": "r", **decision},
    }
    (cluster / "run" / "verdict").write_text(f"{first}\n{json.dumps(detail)}\n")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main.main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_node_that_holdfast_drained(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = replace(made(Action.REBOOT, N2), at=datetime.fromtimestamp(N2_AT, timezone.utc))
    why = "out of service for XID79: waits for a reboot (a new boot id)"
    verdict(cluster, made=plain(record), why=why)
    status, out, _ = run(capsys, "explain", "n2")
    assert status == 0
    assert f"decision  drain: {why}" in out
    assert "facts     GPUs 7 of 8 answer; mounts 2 OK" in out
    assert "(mode observe: does not drain); counts until" in out
    assert out.count("mode observe") == 1
    assert "history   no events yet" in out
    assert "n2: out of service (IDLE+DRAIN)" in out
    assert "Holdfast's agent on this node (user root)" in out
    assert "XID79: GPU has fallen off the bus" in out
    assert "verdict   bad" in out
    assert "XID79 fatal on GPU-3: fell off" in out
    assert "return    Reboot the node; then its agent's re-check" in out


def test_a_reservation_shows_its_creator_and_no_time() -> None:
    states = (NodeState.IDLE, NodeState.RESERVED, NodeState.MAINTENANCE)
    there = node(*states, user="")
    page = node_page(
        {
            **as_json(there, drain_status(there)),
            "slurm_problem": "",
            "kill_switches": [],
            "fault": None,
            "how_to_resume": "",
            "verdict": None,
        }
    )
    assert "owner     the creator of its reservation (scontrol show reservation)\n" in page


@pytest.mark.parametrize(
    ("reason", "lines"),
    [
        (
            "holdfast:KUBE_RULE: x rule=spot-aws jobs=leave until=1795230003 at=1",
            (
                "owner     probably Holdfast's bridge, for the rule spot-aws (reason text only)",
                "jobs      the machine is going to be stopped: jobs of holdfast run leave before 2026-",
                "return    If Holdfast drained it: it returns when the rule spot-aws no longer matches.",
            ),
        ),
        (
            "holdfast:KUBE_RULE: x rule=karpenter jobs=leave at=1",
            ("jobs      the machine is going to be stopped: jobs of holdfast run leave\n",),
        ),
        (
            "holdfast:KUBE_CORDON: x at=1",
            ("owner     probably Holdfast's bridge, for a kubectl cordon (reason text only)",),
        ),
    ],
)
def test_a_drain_of_the_bridge_says_for_what_and_what_jobs_do(
    reason: str, lines: tuple[str, ...]
) -> None:
    there = node(NodeState.IDLE, NodeState.DRAIN, reason=reason)
    status = drain_status(there)
    assert status.reason is not None
    page = node_page(
        {
            **as_json(there, status),
            "slurm_problem": "",
            "kill_switches": [],
            "fault": None,
            "how_to_resume": status.undo,
            "verdict": None,
            "reason_fields": dict(status.reason.pairs),
        }
    )
    assert [line for line in lines if line not in page] == []
    assert ("jobs      " in page) == ("jobs=leave" in reason)


def test_a_decision_from_before_the_return_is_marked(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict(cluster, "ok 130 b-1 holdfast/1", "n1", action="none", why="drained by root (x)")
    detail = cluster / "run" / "verdict"
    first, _, rest = detail.read_text().partition("\n")
    detail.write_text(f"{first}\n{json.dumps({**json.loads(rest), 'drained': True})}\n")
    _, out, _ = run(capsys, "explain", "n1")
    assert "n1: in service" in out
    assert "decision  none: drained by root (x) (before it returned to service)" in out


def test_the_verdict_of_an_older_agent_confirms_nothing_and_is_shown(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict(cluster)
    _, out, _ = run(capsys, "explain", "n2")
    assert "owner     probably Holdfast's agent (reason text only) (user root)" in out
    assert "decision  drain: r" in out
    assert "return    If Holdfast drained it: Reboot the node" in out


@pytest.mark.parametrize("broken", [{"reason": 5}, [], "x", {"at": "soon"}])
def test_an_unreadable_record_confirms_nothing(
    cluster: Path, capsys: pytest.CaptureFixture[str], broken: object
) -> None:
    verdict(cluster, made=broken)
    status, out, _ = run(capsys, "explain", "n2")
    assert status == 0
    assert "probably Holdfast's agent" in out


def test_a_typed_reason_is_a_persons_on_the_node_itself(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict(cluster, made=None, why="drained by root, not by Holdfast")
    _, out, _ = run(capsys, "explain", "n2")
    assert "owner     a person or another tool (user root)" in out
    assert "Reboot the node" not in out


def test_a_problem_of_the_configuration_is_said_once(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (cluster / "holdfast.yaml").open("a") as config:
        config.write("slrum: {}\n")
    status, out, err = run(capsys, "explain", "n2")
    assert status == 2
    assert (out + err).count("unknown section") == 1
    assert "kubernetes not known here: the configuration is invalid\n" in out


def silence(cluster: Path) -> None:
    tool = cluster / "scontrol"
    tool.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")


def test_the_verdict_is_shown_while_slurm_does_not_answer(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silence(cluster)
    verdict(cluster)
    status, out, err = run(capsys, "explain", "n2")
    assert status == 1
    assert out.startswith("n2: Slurm does not answer\n  facts     GPUs 7 of 8 answer")
    assert "finding   XID79 fatal" in out
    assert "Slurm does not answer: " in err
    status, out, _ = run(capsys, "explain", "n2", "--json")
    assert (status, json.loads(out)["out_of_service"], json.loads(out)["verdict"]["status"]) == (
        1,
        None,
        "bad",
    )


def test_the_journal_is_shown_while_slurm_does_not_answer(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silence(cluster)
    journal(cluster / "ckpt")
    status, out, _ = run(capsys, "explain", str(JOB), "--checkpoints", str(cluster / "ckpt"))
    assert status == 1
    assert f"job {JOB}: Slurm does not answer" in out
    assert "bad node n2" in out


def test_an_invalid_configuration_is_reported_last_and_defaults_apply(
    cluster: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster / "holdfast.yaml").write_text("slurm: {timeout_s: no}\n")
    monkeypatch.setattr("holdfast.adapters.command.PATH", str(cluster))
    monkeypatch.setenv("PATH", f"{cluster}:{os.environ['PATH']}")
    status, out, err = run(capsys, "explain", "n2")
    assert status == 2
    assert "n2: out of service" in out
    assert "history   not readable here (paths.history)" in out
    assert "the configuration is invalid, using defaults: " in err


def test_the_controller_names_the_command_and_reads_the_shared_history(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "explain", "n2")
    assert "verdict   only on the node itself (by ssh or kubectl exec): holdfast explain n2" in out
    assert "on the node itself (by ssh or kubectl exec): holdfast history n2" in out
    config = cluster / "holdfast.yaml"
    config.write_text(config.read_text().replace("paths: {", f"paths: {{history: {cluster}/h, "))
    (cluster / "h").mkdir()
    about = {"node": "n2", "code": "XID79", "gpu": 3, "gpu_uuid": "GPU-3", "action": "reboot"}
    events = [
        {"event": "finding_opened", "detail": "old", **about, "code": "XID48"},
        {"event": "finding_closed", **about, "code": "XID48"},
        {"event": "finding_opened", "detail": "fell off", **about},
        {"event": "drained", "detail": "drained: holdfast:XID79", **about},
    ]
    began = time.time() - 600
    lines = [json.dumps({"t": began + at, **one}) + "\n" for at, one in enumerate(events)]
    (cluster / "h" / "n2.jsonl").write_text("".join(lines))
    _, out, _ = run(capsys, "explain", "n2")
    assert "open      XID79 on GPU 3: fell off, since" in out
    assert "XID48" not in out
    assert "1 drain (" in out
    assert "(holdfast history n2)" in out


def test_a_node_in_service_elsewhere(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict(cluster)  # of n2, while n1 is explained
    status, out, _ = run(capsys, "explain", "n1", "--json")
    report = json.loads(out)
    assert status == 0
    assert (report["owner"], report["out_of_service"], report["verdict"]) == ("nobody", False, None)


def test_a_node_that_a_person_drained(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explain", "n4")
    assert status == 0
    assert "a person or another tool" in out
    assert "resume it manually: scontrol update" in out


@pytest.mark.parametrize("what", ["zz", "a b", "99999", "99999_2", "-5"])
def test_an_unknown_name_is_one_line(
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
        {"t": 3, "event": "step_end", "attempt": 1, "exit_code": 137, "how": "n2: killed"},
        {
            "t": 3.5,
            "event": "evidence",
            "attempt": 1,
            "cause_text": "NCCL WARN timeout",
            "faults": [
                {
                    "node": "n2",
                    "code": "XID79",
                    "detail": "gone",
                    "fatal": True,
                    "out_of_service": True,
                }
            ],
        },
        {"t": 4, "event": "decision", "attempt": 1, "action": "requeue", "why": "bad node n2"},
        {"t": 5, "event": "attempt", "attempt": 2, "restarts": 1, "nodes": "n[1,3]"},
        {
            "t": 6,
            "event": "checkpoint",
            "chosen": {"path": "/c/40.pt", "step": 40},
            "rejected": [1],
        },
        {"t": 7, "event": "slow", "why": "the job has become slower: 0.7 steps/s"},
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
    assert "verdict at the end of attempt 1: n2 XID79 (fatal, out of service): gone" in out
    assert "cause in the output of attempt 1: NCCL WARN timeout" in out
    assert "in attempt 2: the job has become slower: 0.7 steps/s" in out
    assert "step 40" in out
    assert "holdfast-agent" in out  # the node of its first attempt, and who drained it


def test_an_array_task_is_found_by_squeues_name(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "explain", "7_1", "--json")
    assert (status, json.loads(out)["job_id"]) == (0, JOB)


@pytest.mark.parametrize(("array_task", "name"), [("", "12"), ("9_3", "9_3"), ("12+0", "12")])
def test_the_page_of_a_held_job_shows_how_to_release_it(array_task: str, name: str) -> None:
    job = {
        "name": "train", "user": "alice", "state": "PENDING", "state_reason": "JobHeldUser",
        "restarts": 1, "requeue": True, "nodes": "", "excluded": "", "array_task": array_task,
    }  # fmt: skip
    report = {
        "job_id": 12, "job": job, "journal": None, "attempts": [], "incidents": [], "report": None,
        "nodes": [], "slurm_problem": "", "accounting": None, "kill_switches": [],
    }  # fmt: skip
    assert f"  release   scontrol release {name}, once" in job_page(report)


def test_a_job_that_slurm_does_not_know_is_shown_from_its_journal(
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
    assert len(out.splitlines()) == 6  # a newline in a reason must not break the table
    assert out.startswith("4 nodes: 1 in service (1 ")
    assert "3 out of service (2 by other, 1 by holdfast-agent)" in out
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
        ("bad 130 b-0 holdfast/1", "another boot"),
    ],
)
def test_an_outdated_verdict_is_blind(cluster: Path, first: str, why: str) -> None:
    verdict(cluster, first)
    found = local_verdict(cluster / "run", cluster / "proc", "n2")
    assert found is not None
    assert found["status"] == ("blind" if why else "bad")
    assert why in found["expired_reason"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bad",
        "bad 1 b holdfast/1",
        "bad 1 b holdfast/1\n[]",
        "\n{}",
        'good 1 b holdfast/1\n{"status": "good"}',
        'ok 1 b holdfast/1\n{"status": "bad"}',
        "ok 1 b holdfast/1\n{}",
        'ok 1 b holdfast/1 more\n{"status": "ok"}',
        'ok soon b-1 holdfast/1\n{"status": "ok"}',
    ],
)
def test_an_invalid_verdict_file_is_no_verdict(cluster: Path, text: str) -> None:
    (cluster / "run" / "verdict").write_text(text)
    assert local_verdict(cluster / "run", cluster / "proc", "n2") is None


def test_a_verdict_of_another_format_counts_as_for_the_hooks(cluster: Path) -> None:
    verdict(cluster, "bad 130 b-1 holdfast/2")
    found = local_verdict(cluster / "run", cluster / "proc", "n2")
    assert found is not None
    assert (found["status"], found["expired"]) == ("blind", True)
    assert "of another format (holdfast/2)" in found["expired_reason"]
    report = agent_report(found)
    assert report is None or not report.fresh


def test_a_verdict_whose_age_is_unknown_is_blind(cluster: Path) -> None:
    verdict(cluster, "bad 130 b-1 holdfast/1")
    (cluster / "proc" / "uptime").unlink()
    found = local_verdict(cluster / "run", cluster / "proc", "n2")
    assert found is not None
    assert (found["status"], found["expired_reason"]) == ("blind", "its age is unknown")


def test_a_journal_is_found_near_the_working_folder(tmp_path: Path) -> None:
    journal(tmp_path / "run" / "ckpt")
    found = read_journal(JOB, None, tmp_path)
    assert found is not None
    assert len(found.attempts) == 2
    assert read_journal(JOB, None, None) is None
    assert read_journal(JOB + 1, tmp_path / "run/ckpt", tmp_path) is None


def test_a_table_is_aligned_and_has_no_newlines_in_cells() -> None:
    assert table([("A", "B"), ("x\ny", "")]) == "A    B\nx y"


def test_nodes_with_their_lemon_scores(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = cluster / "holdfast.yaml"
    config.write_text(config.read_text().replace("paths: {", f"paths: {{history: {cluster}/h, "))
    status, out, err = run(capsys, "nodes", "--lemons")
    assert status == 0
    assert "no lemon scores: no events recorded yet" in err
    assert out.splitlines()[1].split()[:2] == ["NODE", "PAST"]
    (cluster / "h").mkdir()
    drained = [
        {"t": time.time() - days * 86400, "event": "drained", "node": "n2", "code": "XID79"}
        for days in (1, 5)
    ]
    (cluster / "h" / "n2.jsonl").write_text("".join(json.dumps(one) + "\n" for one in drained))
    _, out, err = run(capsys, "nodes", "--lemons")
    assert err == ""
    past = {line.split()[0]: line.split()[1] for line in out.splitlines()[1:]}
    assert (past["n1"], past["n2"]) == ("-", "lemon")
    _, out, _ = run(capsys, "nodes", "--lemons", "--json")
    rows = {row["name"]: row["lemon"] for row in json.loads(out)}
    assert rows["n1"] is None
    assert rows["n2"]["rating"] == "lemon"
    _, out, _ = run(capsys, "nodes", "--json")
    assert "lemon" not in json.loads(out)[0]


KUBE = {
    "slurm": "worker-1",
    "kubernetes": "computeinstance-1",
    "mapped_to": "computeinstance-1",
    "kill_switches": [],
    "claimed_by": ["worker-1"],
    "cordoned": True,
    "cordoned_by": "kubectl-cordon",
    "taint": None,
    "record": None,
    "conditions": [
        {"type": "HoldfastSlurmReady", "status": "True", "reason": "x", "message": "a\x1bb"}
    ],
    "changes": [{"change": "DrainInSlurm", "blocked_by_kill_switch": True}],
    "how_to_uncordon": "kubectl uncordon computeinstance-1 ends the cordon of kubectl-cordon.",
}


def test_the_kubernetes_side_of_a_node() -> None:
    assert kubernetes_lines(KUBE).splitlines() == [
        "  kubernetes Node computeinstance-1: cordoned by kubectl-cordon",
        r"  condition HoldfastSlurmReady=True: a\x1bb",
        "  pending   DrainInSlurm (blocked by a kill switch); it stays: does the bridge run?",
        "  uncordon  kubectl uncordon computeinstance-1 ends the cordon of kubectl-cordon.",
    ]
    gone = {**KUBE, "kubernetes": None}
    assert "Node computeinstance-1 does not exist" in kubernetes_lines(gone)
    assert kubernetes_lines(None, "no kubeconfig") == "  kubernetes not known here: no kubeconfig"


def test_a_node_is_found_by_its_name_in_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def node_report(slurm: object, name: str, paths: object) -> dict[str, Any] | None:
        asked.append(name)
        return {"kind": "node", "name": name} if name == "worker-1" else None

    monkeypatch.setattr("holdfast.cli.commands.explain.command.node_report", node_report)
    monkeypatch.setattr("holdfast.cli.commands.explain.kubernetes.look", lambda name: (KUBE, ""))
    found = node_with_kubernetes(None, "computeinstance-1", PathsConfig())  # type: ignore[arg-type]
    assert asked == ["computeinstance-1", "worker-1"]
    assert found == {
        "kind": "node", "name": "worker-1", "kubernetes": KUBE, "kubernetes_problem": "",
    }  # fmt: skip
