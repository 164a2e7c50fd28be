"""``holdfast history`` on real files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters import jsonl
from holdfast.cli.main import main
from holdfast.errors import UsageError
from holdfast.history import store, subject
from slurm_hooks.cli import history

DAY = 86400.0
NOW = time.time()


class Cluster:
    """A history folder that several nodes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, node: str, event: str, days_ago: float = 1.0, **facts: Any) -> None:
        record = {"t": NOW - days_ago * DAY, "event": event, "node": node, **facts}
        store.append(self.folder, node, jsonl.encode(record), max_bytes=1 << 20)

    def gpus(self, node: str, *uuids: str, days_ago: float = 20) -> None:
        listed = [
            {"gpu": n, "gpu_uuid": uuid, "serial": f"S{uuid[4:]}"} for n, uuid in enumerate(uuids)
        ]
        self.note(node, "inventory", days_ago, gpus=listed)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    config = tmp_path / "holdfast.yaml"
    config.write_text(f"paths: {{history: {tmp_path}/shared}}\n")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    return Cluster(tmp_path / "shared")


def output(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(["history", *words]) == status
    return capsys.readouterr().out


def test_a_nodes_page_shows_events_counts_and_score(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("worker-3", "GPU-aaaa1111", "GPU-bbbb2222")
    for days_ago in (9, 4):
        about = {"code": "XID79", "gpu": 1, "gpu_uuid": "GPU-bbbb2222", "action": "reboot"}
        cluster.note("worker-3", "finding_opened", days_ago, detail="GPU 1 fell off", **about)
        cluster.note("worker-3", "drained", days_ago, detail="drained: holdfast:XID79", **about)
        cluster.note("worker-3", "finding_closed", days_ago - 0.5, open_s=43200.0, **about)
    page = output(capsys, "worker-3")
    assert page.startswith("worker-3: lemon, lemon score 0.")
    assert "2 drains are enough" in page
    assert "2      XID79  GPU-bbbb2222" in page
    assert page.count("XID79 on GPU 1: GPU 1 fell off") == 2
    assert "XID79 on GPU 1 after 12 h" in page
    found = json.loads(output(capsys, "worker-3", "--json"))
    assert (found["kind"], found["rating"], found["counts"]["drains"]) == ("node", "lemon", 2)
    assert [event["event"] for event in found["events"]][:2] == ["inventory", "finding_opened"]
    late = json.loads(output(capsys, "worker-3", "--json", "--since", "5d"))
    assert len(late["events"]) == 3
    assert late["score"] == found["score"], "what is shown does not change the score"


def test_a_gpu_keeps_its_history_when_it_moves(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("worker-1", "GPU-aaaa1111")
    cluster.note("worker-1", "finding_opened", 9, code="XID48", gpu=0, gpu_uuid="GPU-aaaa1111")
    cluster.gpus("worker-2", "GPU-aaaa1111", days_ago=5)
    cluster.note("worker-2", "finding_opened", 3, code="XID48", gpu=0, gpu_uuid="GPU-aaaa1111")
    for word in ("GPU-aaaa1111", "GPU-aaaa", "Saaaa1111"):
        found = json.loads(output(capsys, word, "--json"))
        assert (found["kind"], found["name"]) == ("gpu", "GPU-aaaa1111")
        opened = [e["node"] for e in found["events"] if e["event"] == "finding_opened"]
        assert opened == ["worker-1", "worker-2"]
        assert found["counts"]["faults"] == 2
    node = json.loads(output(capsys, "worker-2", "--json"))
    assert node["counts"]["faults"] == 2, "the node has this GPU now, and its history counts"


def test_an_event_of_the_whole_node_shows_on_its_gpus_page(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("w", "GPU-aaaa1111")
    about = {"code": "XID79", "gpu": 0, "gpu_uuid": "GPU-aaaa1111", "action": "reboot"}
    cluster.note("w", "finding_opened", 3, **about)
    cluster.note("w", "drained", 2, detail="drained: holdfast:XID79", **about)
    page = output(capsys, "GPU-aaaa1111")
    assert "  node drained  " in page
    assert "node drained" not in output(capsys, "w")
    assert "1 hardware fault (" in page
    assert "1 drain (" in page
    assert "0 repairs by a person" in page
    assert "1 GPU\n" in page


def test_the_faults_of_a_replaced_gpu_do_not_count_for_the_node(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("w", "GPU-aaaa1111", "GPU-bbbb2222")
    cluster.note("w", "drained", 9, code="XID79", gpu=0, gpu_uuid="GPU-aaaa1111")
    cluster.note("w", "drained", 8, code="XID79", gpu=0, gpu_uuid="GPU-aaaa1111")
    assert json.loads(output(capsys, "w", "--json"))["rating"] == "lemon"
    replaced = {"gpu_uuid": "GPU-cccc3333", "replaced_uuid": "GPU-aaaa1111", "gpu": 0}
    cluster.note("w", "gpu_replaced", 2, **replaced)
    cluster.gpus("w", "GPU-cccc3333", "GPU-bbbb2222", days_ago=2)
    node = json.loads(output(capsys, "w", "--json"))
    assert (node["rating"], node["counts"]["drains"]) == ("good", 0)
    assert json.loads(output(capsys, "GPU-aaaa1111", "--json"))["rating"] == "lemon"
    assert json.loads(output(capsys, "GPU-cccc3333", "--json"))["counts"]["repairs"] == 0


def test_another_machine_under_the_same_name_inherits_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("w", "GPU-aaaa1111")
    cluster.note("w", "drained", 9, code="XID79", action="reboot")
    cluster.note("w", "drained", 8, code="XID79", action="reboot")
    cluster.note("w", "machine_replaced", 7)
    cluster.gpus("w", "GPU-dddd4444", days_ago=7)
    found = json.loads(output(capsys, "w", "--json"))
    assert (found["rating"], found["counts"]["drains"]) == ("good", 0)
    assert len(found["events"]) == 5, "the events are still shown"


def _death(cluster: Cluster, days_ago: float, mode: str) -> None:
    """As a neighbour's agent records it, in its own file."""
    record = {"event": "finding_opened", "node": "w", "code": "NODE_DEATH", "mode": mode}
    about = {"check": "node_death", "subject": "node", "severity": "fatal", "detail": "silent"}
    line = {"t": NOW - days_ago * DAY, **record, **about}
    store.append(cluster.folder, "neighbour", jsonl.encode(line), max_bytes=1 << 20)


def test_a_death_that_a_neighbour_saw_is_the_dead_nodes_and_not_that_of_its_successor(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.gpus("w", "GPU-aaaa1111")
    for days_ago in (9.0, 8.0, 7.5):
        _death(cluster, days_ago, "drain")
    assert json.loads(output(capsys, "w", "--json"))["counts"]["faults"] == 3
    cluster.note("w", "machine_replaced", 7)
    cluster.gpus("w", "GPU-dddd4444", days_ago=7)
    assert json.loads(output(capsys, "w", "--json"))["counts"]["faults"] == 0


def test_a_death_in_mode_observe_is_among_what_would_have_been_drained(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.note("w", "boot", 3)
    _death(cluster, 2, "observe")
    (row,) = json.loads(output(capsys, "--observed", "--json"))
    assert (row["node"], row["code"], row["check"]) == ("w", "NODE_DEATH", "node_death")


def test_all_nodes_are_listed_the_worst_first(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.note("good", "boot")
    for days_ago in (2, 4, 6):
        cluster.note("bad", "finding_opened", days_ago, code="XID48", action="reset-gpu")
        cluster.note("bad", "drained", days_ago, code="XID48", action="reset-gpu")
    head, first, second = output(capsys).splitlines()
    assert head.split()[:3] == ["NODE", "SCORE", "RATING"]
    assert first.split()[:6] == ["bad", "0.60", "lemon", "3", "3", "XID48"]
    assert second.split()[:3] == ["good", "0.00", "good"]
    rows = json.loads(output(capsys, "--json"))
    assert [row["name"] for row in rows] == ["bad", "good"]


def test_invalid_lines_are_reported_once_and_hide_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.note("w", "boot")
    path = store.file_of(cluster.folder, "w")
    path.write_bytes(path.read_bytes() + b"{half\n\xff\xfe\n")
    before = path.read_bytes()
    assert main(["history", "w"]) == 0
    out, err = capsys.readouterr()
    assert "booted" in out
    # A thread that another test has left behind may print too.
    lines = [line for line in err.splitlines() if "history" in line]
    assert lines == ["holdfast history: 2 invalid lines skipped"]
    assert path.read_bytes() == before


def test_an_unknown_name_exits_1_with_a_hint(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "nowhere"]) == 1
    assert "`holdfast history` lists the nodes" in capsys.readouterr().err
    cluster.gpus("w", "GPU-aaaa1111", "GPU-aaaa2222")
    assert main(["history", "GPU-aaaa"]) == 1, "two GPUs begin so"
    assert main(["history", "w", "--since", "yesterday"]) == 2
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert "use 30m, 12h, 7d, 4w or 2026-11-21" in line


def test_since() -> None:
    assert history.since_of("2d", 1e9) == 1e9 - 2 * DAY
    assert history.since_of("90m", 1e9) == 1e9 - 5400
    assert abs(history.since_of("2001-09-09", 0) - 1e9) < 2 * DAY
    for wrong in ("", "7", "7y", "-1d", "99999-01-01"):
        with pytest.raises(UsageError):
            history.since_of(wrong, 1e9)


def test_a_thousand_nodes_are_ranked(cluster: Cluster) -> None:
    events = []
    for number in range(1000):
        cluster.folder.mkdir(exist_ok=True)
        name, uuid = f"w{number}", f"GPU-{number:08d}"
        lines = jsonl.encode(
            {"t": NOW, "event": "inventory", "node": name, "gpus": [{"gpu": 0, "gpu_uuid": uuid}]}
        )
        fault = {"t": NOW - 1, "event": "drained", "node": name, "code": "XID79", "gpu_uuid": uuid}
        lines += b"".join(jsonl.encode({**fault, "t": NOW - n * 3600}) for n in range(20))
        store.append(cluster.folder, name, lines, max_bytes=1 << 20)
    events = store.read(cluster.folder).events
    assert len(events) == 21_000
    assert len(subject.ranking(events, NOW)) == 1000


def test_what_observe_mode_would_have_drained(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"code": "XID79", "check": "gpu_xid", "subject": "node", "severity": "fatal"}
    cluster.note("worker-1", "finding_opened", 10, mode="observe", **about)
    cluster.note("worker-1", "finding_closed", 9, **about)
    cluster.note("worker-2", "finding_opened", 2, mode="observe", detail="GPU 3 fell off", **about)
    cluster.note("worker-3", "finding_opened", 2, mode="drain", **about)
    page = output(capsys, "--observed")
    assert page.startswith("1 node would have been drained since ")
    assert "worker-2" in page
    assert "worker-1" not in page
    rows = json.loads(output(capsys, "--observed", "--since", "4w", "--json"))
    assert {row["node"] for row in rows} == {"worker-1", "worker-2"}
    assert "no check that only reports" in output(capsys, "worker-3", "--observed")
    output(capsys, "worker-9", "--observed", status=1)


def test_kill_switches_of_all_nodes_are_listed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        cluster.note(f"worker-{number}", "agent_started", 2, on=["all"])
    cluster.note("worker-1", "kill_switches", 1, on=[])
    page = output(capsys)
    assert "kill switch all is on: worker-[0,2]" in page
    rows = {row["name"]: row["kill_switches"] for row in json.loads(output(capsys, "--json"))}
    assert rows == {"worker-0": ["all"], "worker-1": [], "worker-2": ["all"]}
    assert "switches  on: all" in output(capsys, "worker-0")
    assert "none is on" in output(capsys, "worker-1")


def test_with_an_invalid_configuration_the_defaults_are_used(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = cluster.folder.parent / "holdfast.yaml"
    config.write_text("paths: {history: relative}\n")
    assert main(["history"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len([line for line in err if "using defaults" in line]) == 1
