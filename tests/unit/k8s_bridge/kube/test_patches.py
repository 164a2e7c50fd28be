"""Requests and streams: patches that change only the bridge's fields, streams that are cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k8s_bridge.kube import patches
from k8s_bridge.kube.api import Edit, KubeGone, KubeUnavailable
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.model.snapshot import Condition, project
from k8s_bridge.names import ORIGIN, TAINT
from k8s_bridge.names import RECORD as ANNOTATION
from tests.unit.k8s_bridge.fake_cluster import NOON

RECORD = BridgeRecord(
    origin=Origin.SLURM, reason="holdfast:XID79: x", by="root", at=NOON, cordon=True
)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda b: b"\n" not in b)), st.data())
def test_lines_survive_any_chunks(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line for line in lines if line.strip()]
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert list(patches.lines(chunks)) == lines


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"type": "ERROR", "object": {"code": 410, "message": "too old"}}', KubeGone),
        ('{"type": "ERROR", "object": {"code": 500, "reason": "Expired"}}', KubeGone),
        ('{"type": "ERROR", "object": {"code": 500, "message": "etcd"}}', KubeUnavailable),
        ('{"type": "ADDED"}', KubeUnavailable),
        ('{"type": "ADDED", "obj', KubeUnavailable),
        ("[]", KubeUnavailable),
    ],
)
def test_a_watch_that_ends_in_error(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        patches.watch_event(line.encode())


def test_a_bookmark_moves_the_version_and_nothing_else() -> None:
    line = '{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}'
    seen = patches.watch_event(line.encode())
    assert (seen.node, seen.version) == (None, "77")


def test_a_patch_names_the_version_it_was_made_for() -> None:
    theirs = {"key": "a", "effect": "NoExecute", "timeAdded": "2026-11-20T12:00:00Z"}
    raw = {"metadata": {"name": "c0", "resourceVersion": "5"}, "spec": {"taints": [theirs]}}
    edit = Edit(unschedulable=True, taint="XID79", record=RECORD)
    own = {"key": TAINT, "value": "XID79", "effect": "NoSchedule"}
    assert patches.edit_patch(project(raw), edit) == {
        "metadata": {
            "resourceVersion": "5",
            "annotations": {ORIGIN: "slurm", ANNOTATION: RECORD.dump()},
        },
        "spec": {"unschedulable": True, "taints": [theirs, own]},
    }


def test_the_last_taint_and_the_record_are_removed() -> None:
    own = {"key": TAINT, "value": "XID79", "effect": "NoSchedule"}
    notes = {ANNOTATION: RECORD.dump()}
    raw = {
        "metadata": {"name": "c0", "resourceVersion": "6", "annotations": notes},
        "spec": {"unschedulable": True, "taints": [own]},
    }
    edit = Edit(unschedulable=False, untaint=True, forget=True)
    assert patches.edit_patch(project(raw), edit) == {
        "metadata": {"resourceVersion": "6", "annotations": {ANNOTATION: None}},
        "spec": {"unschedulable": None, "taints": None},
    }


def test_no_change_is_no_patch() -> None:
    bare = project({"metadata": {"name": "c0"}})
    assert patches.edit_patch(bare, Edit(unschedulable=False, untaint=True)) == {}


def test_the_status_patch_has_only_the_bridges_conditions_and_label() -> None:
    assert patches.status_patch([], "idle", NOON) == {
        "metadata": {"labels": {"holdfast.dev/slurm-state": "idle"}}
    }
    patch = patches.status_patch(
        [Condition(type="A", status="True", reason="r", message="m")], None, NOON
    )
    assert [row["type"] for row in patch["status"]["conditions"]] == ["A"]
    assert "metadata" not in patch


@settings(deadline=None)
@given(st.text(max_size=300), st.booleans(), st.booleans())
def test_a_record_survives_its_annotation(reason: str, cordon: bool, taint: bool) -> None:
    record = BridgeRecord(
        origin=Origin.SLURM, reason=reason, by="root", at=NOON, cordon=cordon, taint=taint
    )
    assert BridgeRecord.load(record.dump()) == record


@settings(deadline=None)
@given(st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_an_invalid_annotation_is_no_record(garbage: object) -> None:
    text = garbage if isinstance(garbage, str) else json.dumps(garbage)
    assert BridgeRecord.load(text) is None


def test_a_bare_node_can_be_read() -> None:
    view = project({"metadata": {"name": "c0"}, "spec": None, "status": None})
    assert (view.name, view.unschedulable, view.record) == ("c0", False, None)
