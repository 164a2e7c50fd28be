"""The status page's data: what is shown, what is sent again, and what it costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.node_names import natural
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import SlurmName
from k8s_bridge.endpoints.http_server import Request
from k8s_bridge.model.changes import Change, DrainInSlurm, Isolate, UndrainInSlurm
from k8s_bridge.model.ownership import cordon_reason, rule_reason
from k8s_bridge.names import SLURM
from k8s_bridge.page import cells, sections, web
from k8s_bridge.page.board import Board
from k8s_bridge.rules.catalogue import BUILT_IN
from tests.unit.k8s_bridge.page.fleet import HOSTILE, LETTERS, NOON, Fleet


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "AT_MOST_EACH_S", 0.0)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    found = Fleet(40)
    monkeypatch.setattr(found.sources, "asked", lambda: None)
    return found


def read_all(fleet: Fleet) -> None:
    fleet.sources.read_topology()
    fleet.sources.read_jobs()
    fleet.sources.read_lemons()


def state(fleet: Fleet, **have: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.sections.answer(have))
    return found


def data(fleet: Fleet) -> dict[str, Any]:
    return {name: part["data"] for name, part in state(fleet)["sections"].items()}


def test_each_state_has_its_letter_in_the_order_of_the_topology(fleet: Fleet) -> None:
    read_all(fleet)
    found = data(fleet)
    assert found["states"][:13] == LETTERS
    assert found["nodes"]["names"][:3] == ["worker-0", "worker-1", "worker-2"]
    assert found["nodes"]["groups"] == [["leaf-0", "spine-0", 32], ["leaf-1", "spine-0", 8]]
    summary = found["summary"]
    assert summary["counts"]["F"] == 2
    assert sum(summary["counts"].values()) == summary["total"] == summary["mapped"] == 40
    assert summary["budget"] == {"used": 2, "allowed": 4, "by_users": 0, "allowed_by_users": 2}


def test_faults_come_with_what_to_do_and_nodes_with_who_drained_them(fleet: Fleet) -> None:
    found = data(fleet)
    assert [(row["code"], row["nodes"]) for row in found["faults"]][:2] == [
        ("XID79", 1),
        ("XID48", 1),
    ]
    assert all(row["runbook"] and row["title"] for row in found["faults"])
    rows = {found["nodes"]["names"][row[0]]: row for row in found["out"]}
    assert set(rows) == {f"worker-{i}" for i in range(3, 12)}
    assert rows["worker-4"][3:] == [
        "holdfast-agent", "root", int((NOON - timedelta(minutes=4)).timestamp()), True,
    ]  # fmt: skip
    assert rows["worker-6"][3:5] == ["other", "anna"]
    assert rows["worker-11"][2:4] == ["cordoned in Kubernetes, not drained in Slurm", "kubernetes"]


def test_jobs_have_the_time_between_their_runs(fleet: Fleet) -> None:
    read_all(fleet)
    jobs = data(fleet)["jobs"]
    assert jobs["states"] == {"running": 3, "pending": 1}
    assert (jobs["held"], jobs["requeued"], jobs["problem"]) == (1, 3, "")
    rows = {row["job"]: row for row in jobs["rows"]}
    assert (rows["4000"]["waited_s"], rows["4000"]["code"]) == (372, "XID79")
    assert rows["4000"]["waiting_since"] is None
    assert rows["4001"]["waiting_since"] == 1000.0
    assert rows["4002_7"]["waited_s"] is None


def test_lemons_come_from_accounting_where_no_history_is_shared(fleet: Fleet) -> None:
    read_all(fleet)
    lemons = data(fleet)["lemons"]
    assert (lemons["source"], lemons["problem"]) == ("accounting", "")
    assert [(row["name"], row["count"]) for row in lemons["rows"]] == [("worker-3", 4)]
    fleet.sources._history = lambda: [
        {"name": "worker-9", "rating": "lemon", "score": 0.7, "rating_description": "two drains"},
        {"name": "worker-1", "rating": "good", "score": 0.1},
    ]
    fleet.sources.read_lemons()
    lemons = data(fleet)["lemons"]
    assert lemons["source"] == "history"
    assert [row["name"] for row in lemons["rows"]] == ["worker-9"]


def test_what_cannot_be_read_says_so_and_the_rest_stays(fleet: Fleet) -> None:
    read_all(fleet)
    fleet.slurm.silent = True
    read_all(fleet)
    found = data(fleet)
    assert "no answer in 10 s" in found["jobs"]["problem"]
    assert "no history is shared" in found["lemons"]["problem"]
    assert len(found["jobs"]["rows"]) == 3
    assert found["nodes"]["groups"][0][0] == "leaf-0"
    fleet.health.silent(SLURM, "scontrol: no answer in 10 s")
    assert state(fleet)["sides"]["slurm"]["ok"], "within the grace time"


def test_only_what_changed_is_sent_again(fleet: Fleet) -> None:
    first = state(fleet)
    have = {name: part["v"] for name, part in first["sections"].items()}
    assert state(fleet, **have)["sections"] == {}
    fleet.tell()
    assert state(fleet, **have)["sections"] == {}, "a pass without a change"
    fleet.drain(20, "holdfast:XID79: y")
    fleet.tell()
    changed = state(fleet, **have)["sections"]
    assert set(changed) == {"states", "out", "faults", "summary", "events"}
    assert changed["states"]["data"][20] == "F"


def test_versions_of_another_run_of_the_bridge_mean_nothing(fleet: Fleet) -> None:
    routes = web.routes(fleet.sections, cluster="c")

    def names(run: str, have: str) -> set[str]:
        answer = routes["/state"](Request(query={"run": run, "have": have}))
        return set(json.loads(answer.body)["sections"])

    every = names("", "")
    have = ",".join(f"{name}:1" for name in every)
    assert names("another", have) == every
    assert names(fleet.sections.run, have) == set()
    assert names(fleet.sections.run, "states:x,:,nodes:-1,out:" + "9" * 99) == every


def test_events_are_told_once_and_a_storm_is_one_line() -> None:
    fleet, board = Fleet(400), Board()
    board.seen([], fleet.views, (), NOON)
    changes = [
        Isolate(kube=view, cordon=True, taint="XID79", record=None)  # type: ignore[arg-type]
        for view in fleet.views
    ]
    for _ in range(3):  # the same plan again, as its writes take some passes
        board.seen([], fleet.views, changes, NOON)
    (event,) = board.look().events
    assert (event.count, event.text) == (400, "cordon and taint XID79 in Kubernetes")
    fleet.board.seen(fleet.nodes, fleet.views, (), NOON)
    for i in range(300):
        fleet.drain(i, f"holdfast:XID79: GPU fell off number {i}")
    fleet.tell()
    assert len(fleet.board.look().events) < 20, "each node has a text of its own"


def test_an_event_says_what_a_node_is_drained_and_returned_for() -> None:
    fleet, board = Fleet(4), Board()
    view = fleet.views[0]

    def said(change: Change) -> str:
        board.seen([], fleet.views, (change,), NOON)
        return board.look().events[-1].text

    node = fleet.nodes[0]
    by_rule = replace(node, reason=rule_reason("spot-aws", NOON))
    by_cordon = replace(node, reason=cordon_reason(NOON))
    rule = BUILT_IN["spot-aws"]
    assert said(DrainInSlurm(slurm=node, kube=view, rule=rule)) == "drain in Slurm: rule spot-aws"
    assert said(DrainInSlurm(slurm=node, kube=view)) == "drain in Slurm: cordoned in Kubernetes"
    undrained = said(UndrainInSlurm(slurm=by_rule, kube=view))
    assert undrained == "undrain in Slurm: rule spot-aws matches no more"
    undrained = said(UndrainInSlurm(slurm=by_cordon, kube=view))
    assert undrained == "undrain in Slurm: uncordoned in Kubernetes"


def test_a_node_is_found_by_either_name(fleet: Fleet) -> None:
    routes = web.routes(fleet.sections, cluster="c")
    for name in ("worker-3", "computeinstance-3"):
        found = json.loads(routes["/node"](Request(query={"name": name})).body)
        assert found["name"] == "worker-3"
        assert found["kubernetes"]["name"] == "computeinstance-3"
        assert found["title"]
        assert "reboot" in found["runbook"]
    assert routes["/node"](Request(query={"name": "../etc"})).status == 404


def test_text_of_users_is_data_and_never_part_of_the_page(fleet: Fleet) -> None:
    routes = web.routes(fleet.sections, cluster=HOSTILE)
    answer = routes["/"](Request())
    text = answer.body.decode()
    assert "<img" not in text
    assert "{{ 7 * 7 }}" in text, "rendered as it is, not as a template"
    assert "&lt;img src=x" in text
    body = routes["/state"](Request()).body.decode()
    assert "\x1b" not in body
    assert "\u202e" not in body
    assert json.loads(body)["sections"]["out"]


def test_the_page_may_load_and_run_nothing_but_itself(fleet: Fleet) -> None:
    answer = web.routes(fleet.sections, cluster="c")["/"](Request())
    text, policy = answer.body.decode(), answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'")
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]{44}'", policy)) == 2
    assert "unsafe" not in policy
    assert not re.search(r"https?://|//[a-z]", re.sub(r"(?m)^\s*//.*$|[^:]// .*$", "", text))
    assert " style=" not in text
    assert not re.search(r"\son[a-z]+=", text), "no handler in an attribute"
    assert "innerHTML" not in text


def test_nodes_without_a_topology_are_in_order_of_their_names() -> None:
    names = ["gpu-b-2", "gpu-a-10", "gpu-a-9", "login"]
    found = cells.layout(names, (), natural)
    assert found.names == ["gpu-a-9", "gpu-a-10", "gpu-b-2", "login"]
    assert found.groups == [("gpu-a", "", 2), ("gpu-b", "", 1), ("login", "", 1)]
    partly = cells.layout(names, [Group(name="s0", nodes=("login", "gone"))], natural)
    assert partly.groups == [("s0", "", 1), ("in no group", "", 3)]


def test_the_judge_does_not_grow_with_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_MOST_KNOWN", 100)
    judge = cells.Judge()
    for number in range(1000):
        node = SlurmNode(name=SlurmName("a"), states=frozenset(), reason=str(number))
        assert judge.letter(node, None) == cells.UNKNOWN
    assert len(judge._letters) <= 102
