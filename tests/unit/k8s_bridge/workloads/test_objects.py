"""What is read of workloads and pods, from the API's JSON."""

from __future__ import annotations

from typing import Any

import pytest

from k8s_bridge.workloads.kinds import JOB, JOB_SET, OPT_IN, OPT_IN_KCOVER, PYTORCH_JOB, Kind
from k8s_bridge.workloads.objects import Ended, opted_in, pod_of, workload_of


def item(**fields: Any) -> dict[str, Any]:
    meta = {"namespace": "team", "name": "train", "uid": "u", "resourceVersion": "9"}
    return {"metadata": {**meta, **fields.pop("metadata", {})}, **fields}


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({OPT_IN: "true"}, True),
        ({OPT_IN_KCOVER: "true"}, True),
        ({OPT_IN: "true", OPT_IN_KCOVER: "false"}, True),
        ({OPT_IN: "false", OPT_IN_KCOVER: "true"}, False),
        ({OPT_IN: ""}, False),
        ({OPT_IN: "True"}, False),
        ({}, False),
    ],
)
def test_who_asks_for_it(labels: dict[str, str], wanted: bool) -> None:
    assert opted_in(labels) is wanted


@pytest.mark.parametrize(
    ("kind", "fields", "active"),
    [
        (JOB, {}, True),
        (JOB, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, False),
        (JOB, {"status": {"conditions": [{"type": "Failed", "status": "False"}]}}, True),
        (JOB, {"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, False),
        (JOB, {"spec": {"suspend": True}}, False),
        (JOB, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        (JOB_SET, {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}, False),
        (JOB_SET, {"status": {"conditions": [{"type": "StartupPolicyCompleted", "status": "True"}]}}, True),
        (PYTORCH_JOB, {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}, False),
        (PYTORCH_JOB, {"status": {"conditions": [{"type": "Restarting", "status": "True"}]}}, True),
        (PYTORCH_JOB, {"spec": {"runPolicy": {"suspend": True}}}, False),
    ],
)  # fmt: skip
def test_a_workload_is_active_until_its_controller_says_otherwise(
    kind: Kind, fields: dict[str, Any], active: bool
) -> None:
    assert workload_of(kind, item(**fields)).active is active


def test_a_record_that_is_none_is_none() -> None:
    notes = {"annotations": {"holdfast.dev/restart": "not JSON"}}
    assert workload_of(JOB, item(metadata=notes)).record is None


def status(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "main", **state}]}


ENDED = {"terminated": {"exitCode": 1, "message": "m", "finishedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("found", "restarted", "failed"),
    [
        (status(state=ENDED), False, True),
        (status(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ENDED), False, True),
        (status(state={"running": {}}, lastState=ENDED), True, False),
    ],
)
def test_the_last_end_of_a_container(found: dict[str, Any], restarted: bool, failed: bool) -> None:
    pod = pod_of(item(status=found))
    assert pod.ended == (
        Ended(container="main", exit_code=1, message="m", at=1767225600.0, restarted=restarted),
    )
    assert pod.failed is failed


def test_a_container_that_ended_well_did_not_fail() -> None:
    pod = pod_of(item(status=status(state={"terminated": {"exitCode": 0}})))
    assert pod.ended == ()
    assert not pod.failed


def test_only_a_controller_owns_a_pod() -> None:
    owners = [{"uid": "other"}, {"uid": "job", "controller": True}]
    assert pod_of(item(metadata={"ownerReferences": owners})).owner == "job"
    assert pod_of(item(metadata={"ownerReferences": owners[:1]})).owner == ""


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("DeletionByTaintManager", True),
        ("DeletionByPodGC", True),
        ("EvictionByEvictionAPI", False),
        ("TerminationByKubelet", False),
        ("PreemptionByScheduler", False),
    ],
)
def test_which_disruptions_come_from_the_node(reason: str, lost: bool) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    assert pod_of(item(status={"conditions": [condition]})).lost is lost


def test_a_pod_without_anything_is_none_of_these() -> None:
    pod = pod_of({})
    assert (pod.node, pod.owner, pod.ended, pod.finished, pod.failed) == (
        None,
        "",
        (),
        False,
        False,
    )
