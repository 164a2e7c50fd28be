"""Both encodings of a Node lead to the same view, and no bytes lead to a wrong one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k8s_bridge.kube.protobuf import messages
from k8s_bridge.kube.protobuf.fields import MAGIC, Incomplete, UnknownForm
from k8s_bridge.kube.protobuf.stream import NodeList, watch_events
from k8s_bridge.model.snapshot import project
from k8s_bridge.names import CONDITIONS, FIELD_MANAGER, KEEP_CORDONED, ORIGIN, RECORD, TAINT
from tests.unit.k8s_bridge.kube import encoding

TEXT = st.text(max_size=150)
TIMES = st.sampled_from(
    ["", "2026-11-20T12:00:00Z", "2026-11-20T12:00:01Z", "2099-01-01T00:00:00Z"]
)
NAMES = st.text("abcdefgh-0123456789", min_size=1, max_size=200)
LABELS = st.dictionaries(
    st.sampled_from(
        ["topology.nebius.com/tier-1", "holdfast.dev/slurm-state", "holdfast.dev/rules"]
    )
    | st.builds("feature.node.kubernetes.io/{}".format, NAMES),
    TEXT,
    max_size=6,
)
NOTES = st.dictionaries(st.sampled_from([RECORD, ORIGIN, KEEP_CORDONED, "other/key"]), TEXT)
TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from([TAINT, "nvidia.com/gpu", "a"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        },
        optional={
            "value": st.text(min_size=1, max_size=150),
            "timeAdded": TIMES.filter(bool),
        },
    ).map(
        lambda row: {key: row[key] for key in ("key", "value", "effect", "timeAdded") if key in row}
    ),
    max_size=3,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([*CONDITIONS, "Ready", "NebiusGPUError"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": TEXT,
            "message": TEXT,
            "lastTransitionTime": TIMES,
        }
    ),
    max_size=5,
)
WROTE = st.sampled_from(
    [
        {"f:spec": {"f:unschedulable": {}}},
        {"f:spec": {"f:taints": {".": {}}}},
        {"f:metadata": {"f:labels": {"f:note": {}}}},
        {"f:metadata": {"f:annotations": {'f:"f:taints"': {}}}},
    ]
)
MANAGERS = st.lists(
    st.fixed_dictionaries(
        {"manager": st.sampled_from([FIELD_MANAGER, "kubectl"]), "fieldsV1": WROTE}
    ),
    max_size=3,
)
IMAGES = st.lists(
    st.fixed_dictionaries(
        {"names": st.lists(TEXT, max_size=2), "sizeBytes": st.integers(0, 1 << 40)}
    ),
    max_size=4,
)
NODES = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": NAMES,
                "uid": NAMES,
                "resourceVersion": st.integers(0, 1 << 60).map(str),
                "labels": LABELS,
                "annotations": NOTES,
                "managedFields": MANAGERS,
            }
        ),
        "spec": st.fixed_dictionaries({"unschedulable": st.booleans(), "taints": TAINTS}),
        "status": st.fixed_dictionaries({"conditions": ROWS, "images": IMAGES}),
    }
)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@settings(deadline=None)
@given(NODES)
def test_a_node_is_seen_as_in_json(node: dict[str, Any]) -> None:
    data = encoding.node_object(node)
    assert messages.is_object(data)
    assert project(messages.decode(data)) == project(json.loads(json.dumps(node)))
    meta = node["metadata"]
    assert messages.identity(data) == (meta["name"], meta["uid"], meta["resourceVersion"])


@settings(deadline=None)
@given(st.lists(NODES, max_size=4), st.integers(1, 3000))
def test_a_list_is_read_while_it_arrives(nodes: list[dict[str, Any]], size: int) -> None:
    listed = NodeList(pieces(encoding.node_list(nodes, "4711"), size))
    assert [project(found) for found in listed.nodes()] == [project(node) for node in nodes]
    assert listed.version == "4711"


@settings(deadline=None)
@given(st.lists(NODES, max_size=4), st.integers(1, 3000))
def test_events_survive_any_chunks(nodes: list[dict[str, Any]], size: int) -> None:
    stream = b"".join(
        encoding.watch_frame("MODIFIED", encoding.node_object(node)) for node in nodes
    )
    seen = list(watch_events(pieces(stream, size)))
    assert [kind for kind, _ in seen] == ["MODIFIED"] * len(nodes)
    assert [project(messages.decode(thing)) for _, thing in seen] == [
        project(node) for node in nodes
    ]


NODE: dict[str, Any] = {
    "metadata": {"name": "c0", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}},
    "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize("end", range(0, len(encoding.node_object(NODE)) - 8, 7))
def test_a_node_that_is_cut_is_an_error(end: int) -> None:
    whole = encoding.node_object(NODE)
    with pytest.raises(UnknownForm):
        messages.decode(whole[:end])


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(UnknownForm):
        messages.decode(data)
    with pytest.raises(UnknownForm):
        messages.decode(MAGIC + data)


def test_a_list_whose_end_is_missing_is_not_taken_for_all_nodes() -> None:
    data = encoding.node_list([NODE] * 3, "7")
    with pytest.raises(Incomplete):
        list(NodeList(pieces(data[:-40], 64)).nodes())


def test_a_list_of_something_else_is_an_error() -> None:
    for data in (encoding.failure(500, "InternalError", "etcd"), b'{"kind":"NodeList","items":[]}'):
        with pytest.raises(UnknownForm):
            list(NodeList([data]).nodes())


def test_a_taint_with_a_field_of_a_later_release_is_not_read() -> None:
    """The list of taints is written back whole: what was not read would be removed."""
    taint = encoding.taint({"key": "a", "effect": "NoExecute"}) + encoding.field(9, "new")
    data = encoding.whole(
        "Node",
        encoding.field(1, encoding.meta(NODE["metadata"]))
        + encoding.field(2, encoding.field(5, taint)),
    )
    with pytest.raises(UnknownForm, match="taint"):
        messages.decode(data)


def test_a_failure_is_decoded() -> None:
    found = messages.decode(encoding.failure(409, "Conflict", "the object has been modified: " * 9))
    assert (found["code"], found["reason"]) == (409, "Conflict")
    assert found["message"].startswith("the object has been modified")


def test_an_event_of_an_absurd_length_is_an_error() -> None:
    with pytest.raises(UnknownForm):
        list(watch_events([b"\xff\xff\xff\xff1234"]))
