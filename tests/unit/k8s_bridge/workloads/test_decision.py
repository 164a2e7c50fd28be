"""When a workload is restarted, and which of its pods are evicted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.vocabulary import KubeName
from k8s_bridge.config import WorkloadSettings
from k8s_bridge.workloads.decision import (
    CONTINUED_S,
    OLD_S,
    Continue,
    Decision,
    Diagnosed,
    Look,
    Restart,
    Withheld,
    decide,
)
from k8s_bridge.workloads.kinds import JOB, JOB_SET, PYTORCH_JOB
from k8s_bridge.workloads.node_faults import NodeFault
from k8s_bridge.workloads.objects import Ended, Pod, Workload
from k8s_bridge.workloads.record import Past, RestartRecord, short

NOW = 1_800_000_000.0
BAD = KubeName("node-0")
GPU = NodeFault(code="XID79", key="uid-0 XID79 1", fatal=True, closed=True)
DISK = NodeFault(code="DISK_FULL", key="uid-0 DISK_FULL 1", fatal=False, closed=True)

JOB_0 = Workload(kind=JOB, namespace="team", name="train", uid="job-0", version="7")
PYTORCH = replace(JOB_0, kind=PYTORCH_JOB)


def diagnose(messages: tuple[str, ...]) -> Diagnosed:
    for word, found in {"gpu": ("C04", "hardware"), "typo": ("P01", "user")}.items():
        if word in messages:
            return Diagnosed(*found, messages.index(word))
    return Diagnosed("N01", "network")


def look(*, now: float = NOW, fault: NodeFault | None = None, **settings: float) -> Look:
    faults = {} if fault is None else {BAD: fault}
    chosen = WorkloadSettings(namespaces=("team",), **settings)  # type: ignore[arg-type]
    return Look(faults=faults, diagnose=diagnose, settings=chosen, now=now)


def pod(i: int, generation: int = 0, **fields: object) -> Pod:
    made = Pod(
        name=f"train-{i}",
        uid=f"{generation:04}-{i:04}-uid",
        owner=JOB_0.uid,
        node=KubeName(f"node-{i}"),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


PODS = tuple(pod(i) for i in range(3))


def ended(message: str, *, restarted: bool = False, at: float = NOW - 5) -> tuple[Ended, ...]:
    return (Ended(container="main", exit_code=1, message=message, restarted=restarted, at=at),)


def restart(decision: Decision) -> Restart:
    assert isinstance(decision, Restart), decision
    return decision


def after(decision: Decision, workload: Workload = JOB_0) -> Workload:
    """The workload as the next look reads it: through the annotation's text."""
    record = RestartRecord.load(restart(decision).record.dump())
    assert record == restart(decision).record
    return replace(workload, record=record)


def test_a_fatal_fault_under_one_pod_restarts_all_of_them() -> None:
    made = restart(decide(JOB_0, PODS, look(fault=GPU)))
    assert made.pods == PODS
    assert made.record.pods == {short(p.uid) for p in PODS}
    assert made.record.incident == "XID79 on Node node-0, under pod train-0"
    assert made.record.past == (Past(NOW, GPU.key),)


def test_without_a_fault_nothing_happens() -> None:
    assert decide(JOB_0, PODS, look()) is None
    elsewhere = look(fault=GPU)
    assert decide(JOB_0, PODS[1:], elsewhere) is None


@pytest.mark.parametrize(
    "fields", [{"phase": "Failed"}, {"terminating": True}, {"ended": ended("")}], ids=str
)
def test_a_fault_that_lets_pods_finish_counts_for_a_pod_that_is_lost(
    fields: dict[str, object],
) -> None:
    assert decide(JOB_0, PODS, look(fault=DISK)) is None
    lost = replace(pod(0), **fields)  # type: ignore[arg-type]
    made = restart(decide(JOB_0, (lost, *PODS[1:]), look(fault=DISK)))
    assert PODS[1] in made.pods


def test_a_node_that_still_takes_pods_is_waited_for() -> None:
    decision = decide(JOB_0, PODS, look(fault=replace(GPU, closed=False)))
    assert isinstance(decision, Withheld)
    assert decision.why.endswith("the Node still takes new pods (cordon it)")


def test_an_incident_of_the_cluster_restarts_nothing() -> None:
    decision = decide(JOB_0, PODS, look(fault=replace(GPU, withheld="one incident")))
    assert isinstance(decision, Withheld)
    assert decision.why == "XID79 on Node node-0, under pod train-0: one incident"


def test_a_hardware_message_restarts_without_any_fault_of_the_node() -> None:
    made = restart(decide(JOB_0, (pod(0, ended=ended("gpu")), *PODS[1:]), look()))
    assert made.record.incident == (
        "pod train-0 failed on Node node-0: C04 in its termination message"
    )


def test_the_messages_of_all_pods_are_judged_together() -> None:
    pods = [pod(i, ended=ended("timeout" if i != 3 else "gpu")) for i in range(5)]
    made = restart(decide(JOB_0, pods, look()))
    assert made.record.incident.startswith("pod train-3 failed on Node node-3: C04")


def test_who_failed_first_is_asked_first() -> None:
    asked: list[tuple[str, ...]] = []

    def first(messages: tuple[str, ...]) -> Diagnosed:
        asked.append(messages)
        return Diagnosed("C04", "hardware")

    pods = [pod(i, ended=ended(f"m{i}", at=NOW - i)) for i in range(3)]
    made = restart(decide(JOB_0, pods, replace(look(), diagnose=first)))
    assert asked == [("m2", "m1", "m0")]
    assert made.record.incident.startswith("pod train-2 ")


@pytest.mark.parametrize("message", ["typo", "timeout", ""])
def test_no_other_failure_is_restarted(message: str) -> None:
    failed = pod(0, ended=ended(message), phase="Failed")
    assert decide(JOB_0, (failed, *PODS[1:]), look()) is None


def test_a_user_error_on_a_faulty_node_is_not_restarted_but_its_neighbour_is() -> None:
    wrong = pod(0, ended=ended("typo"), phase="Failed")
    assert decide(JOB_0, (wrong, *PODS[1:]), look(fault=GPU)) is None
    beside = pod(3, node=BAD)
    assert restart(decide(JOB_0, (wrong, beside), look(fault=GPU))).pods == (beside,)


def test_pods_that_were_created_after_the_failure_are_left() -> None:
    """Their controller has replaced them all before the bridge looked."""
    failed = pod(0, phase="Failed", ended=ended("gpu", at=NOW - 9))
    replaced = [pod(i, 1, created=NOW - 5) for i in range(3)]
    assert decide(JOB_0, (failed, *replaced), look()) is None
    assert decide(JOB_0, (failed, *replaced), look(fault=GPU)) is not None, "a new pod is there"
    assert decide(JOB_0, (failed, *replaced[1:]), look(fault=GPU)) is None
    hangs = pod(1, created=NOW - 900)
    assert restart(decide(JOB_0, (failed, hangs, replaced[0]), look())).pods == (hangs, replaced[0])


def test_nothing_is_restarted_where_nothing_runs() -> None:
    failed = [pod(i, phase="Failed", ended=ended("gpu")) for i in range(3)]
    assert decide(JOB_0, failed, look(fault=GPU)) is None
    assert decide(JOB_0, [pod(0, lost=True, terminating=True)], look()) is None


def test_a_container_that_runs_again_counts_for_a_while() -> None:
    again = ended("gpu", restarted=True)
    pods = (pod(0, ended=again), *PODS[1:])
    restart(decide(JOB_0, pods, look()))
    assert decide(JOB_0, pods, look(now=NOW + OLD_S)) is None
    unknown = (replace(again[0], at=None),)
    assert decide(JOB_0, (pod(0, ended=unknown),), look()) is None


def test_a_pod_that_kubernetes_removes_because_of_its_node_is_lost() -> None:
    gone = pod(0, lost=True, terminating=True)
    made = restart(decide(JOB_0, (gone, *PODS[1:]), look()))
    assert made.pods == PODS[1:], "a pod that ends already is not evicted"


def test_succeeded_pods_are_left_and_their_nodes_do_not_matter() -> None:
    done = pod(0, phase="Succeeded")
    assert decide(JOB_0, (done, *PODS[1:]), look(fault=GPU)) is None
    other = pod(3, node=BAD)
    assert restart(decide(JOB_0, (done, other), look(fault=GPU))).pods == (other,)


def test_failed_pods_keep_their_logs_unless_the_controller_needs_their_names() -> None:
    failed = pod(0, phase="Failed")
    pods = (failed, *PODS[1:])
    assert restart(decide(JOB_0, pods, look(fault=GPU))).pods == PODS[1:]
    assert restart(decide(PYTORCH, pods, look(fault=GPU))).pods == pods
    assert restart(decide(replace(JOB_0, kind=JOB_SET), pods, look(fault=GPU))).pods == PODS[1:]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_a_bridge_that_was_killed_continues_with_the_pods_that_are_left(left: int) -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    decision = decide(workload, PODS[-left:], look(fault=GPU, now=NOW + 30))
    assert isinstance(decision, Continue)
    assert decision.pods == PODS[-left:]


def test_pods_of_the_next_attempt_are_never_evicted_for_the_same_incident() -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    ending = tuple(replace(p, terminating=True) for p in PODS)
    assert decide(workload, ending, look(fault=GPU)) is None
    new = tuple(pod(i, 1, node=KubeName(f"node-{i + 1}")) for i in range(3))
    assert decide(workload, (*ending, *new), look(fault=GPU, now=NOW + 5)) is None
    mixed = decide(workload, (*new, PODS[0]), look(fault=GPU, now=NOW + 5))
    assert isinstance(mixed, Continue)
    assert mixed.pods == (PODS[0],)


def test_pods_that_return_to_the_bad_node_are_not_restarted_for_it_again() -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    back = tuple(pod(i, 1) for i in range(3))
    decision = decide(workload, back, look(fault=GPU, now=NOW + 7200))
    assert isinstance(decision, Withheld)
    assert decision.why.endswith("its pods were restarted for this incident already")


def test_an_old_incident_does_not_hide_a_new_one() -> None:
    known = [Past(NOW - 7200, GPU.key)]
    both = replace(look(fault=GPU), faults={BAD: GPU, KubeName("node-1"): replace(GPU, key="new")})
    made = restart(decide(JOB_0, PODS, both, known))
    assert made.record.key == "new"


def test_a_failed_pod_that_a_job_keeps_is_no_new_incident() -> None:
    failed = pod(0, phase="Failed", ended=ended("gpu"))
    workload = after(decide(JOB_0, (failed, *PODS[1:]), look()))
    new = tuple(pod(i, 1) for i in range(3))
    for later in (10, CONTINUED_S + 1, 86399):
        assert decide(workload, (failed, *new), look(now=NOW + later)) is None


def test_another_fault_is_another_incident_after_the_back_off() -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    new = tuple(pod(i, 1) for i in range(3))
    other = replace(GPU, code="XID48", key="uid-0 XID48 2")
    early = decide(workload, new, look(fault=other, now=NOW + 59))
    assert isinstance(early, Withheld)
    assert "60 s after the last one" in early.why
    made = restart(decide(workload, new, look(fault=other, now=NOW + 60)))
    assert made.pods == new
    assert made.count == 2


def test_the_back_off_doubles_and_the_limit_holds() -> None:
    workload, now = JOB_0, NOW
    for count, wait_s in enumerate((0, 60, 120)):
        pods = tuple(pod(i, count) for i in range(3))
        fault = replace(GPU, key=f"incident {count}")
        if wait_s:
            early = decide(workload, pods, look(fault=fault, now=now + wait_s - 1))
            assert isinstance(early, Withheld)
        now += wait_s
        workload = after(decide(workload, pods, look(fault=fault, now=now)), workload)
    pods = tuple(pod(i, 9) for i in range(3))
    spent = decide(workload, pods, look(fault=GPU, now=now + 7200))
    assert isinstance(spent, Withheld)
    assert "3 restarts within 86400 s, the limit of bridge.workloads.max_restarts" in spent.why
    restart(decide(workload, pods, look(fault=GPU, now=now + 86400 + 1)))


def test_what_the_bridge_knows_counts_where_the_annotation_was_removed() -> None:
    """Its owner can write it."""
    known = [Past(NOW - 7200 * i, f"k{i}") for i in (3, 2, 1)]
    decision = decide(JOB_0, PODS, look(fault=GPU), known)
    assert isinstance(decision, Withheld)
    assert "limit" in decision.why
    same = decide(JOB_0, PODS, look(fault=GPU), [Past(NOW - 7200, GPU.key)])
    assert isinstance(same, Withheld)


def test_restarts_that_are_told_twice_count_once() -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    assert workload.record is not None
    new = tuple(pod(i, 1) for i in range(3))
    other = replace(GPU, key="other")
    made = decide(workload, new, look(fault=other, now=NOW + 61), workload.record.past)
    assert restart(made).count == 2


def test_a_forged_record_reaches_no_other_pod_and_no_other_time() -> None:
    """An owner can name pods in it; those of others are never among ``pods``."""
    forged = RestartRecord(at=NOW, incident="x", key="x", pods=frozenset({short("foreign-uid-0")}))
    assert decide(replace(JOB_0, record=forged), PODS, look()) is None
    future = RestartRecord(at=NOW + 1e9, incident="x", key="x", past=(Past(NOW + 1e9, "x"),) * 3)
    restart(decide(replace(JOB_0, record=future), PODS, look(fault=GPU)))


def test_a_pod_that_could_not_be_evicted_counts_again_after_an_hour() -> None:
    workload = after(decide(JOB_0, PODS, look(fault=GPU)))
    later = look(fault=replace(GPU, key="other"), now=NOW + CONTINUED_S)
    restart(decide(workload, PODS, later))


def test_a_workload_that_is_not_active_is_left() -> None:
    assert decide(replace(JOB_0, active=False), PODS, look(fault=GPU)) is None


GOOD = {
    "at": "2026-11-20T12:00:00+00:00",
    "incident": "x",
    "key": "x",
    "pods": ["a"],
    "past": [[1.5, "x"]],
}


def test_an_annotation_that_is_a_record() -> None:
    record = RestartRecord.load(json.dumps(GOOD))
    assert record == RestartRecord(
        at=1795176000.0, incident="x", key="x", pods=frozenset("a"), past=(Past(1.5, "x"),)
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "[]", "null", "{}", "[" * 9000),
        json.dumps({**GOOD, "at": "x"}),
        json.dumps({**GOOD, "at": 1.0}),
        json.dumps({**GOOD, "pods": 3}),
        json.dumps({**GOOD, "past": [1]}),
        json.dumps({**GOOD, "past": [[float("nan"), "x"]]}),
        json.dumps({**GOOD, "past": [["1e999", "x"]]}),
    ],
)
def test_an_annotation_that_is_no_record_counts_as_none(text: str) -> None:
    assert RestartRecord.load(text) is None


def test_a_large_workload_fits_into_an_annotation() -> None:
    pods = [pod(i, uid=f"{i:08x}-1234-5678-9abc-def012345678") for i in range(10_000)]
    made = restart(decide(JOB_0, pods, look(fault=GPU)))
    assert len(made.record.pods) == 10_000
    assert len(made.record.dump()) < 256 * 1024
