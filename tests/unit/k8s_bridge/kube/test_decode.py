"""Decoding without the names of images: as ``json.loads``, whatever the names are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s_bridge.kube.decode import decode, decode_if

NAMES = st.text(alphabet='"}],:[{\\ a1é', max_size=12) | st.sampled_from(
    ['"images":[', "}]", "}]}}", '\\"', ',"status":{}', "cr.example.org/a@sha256:0f"]
)
IMAGES = st.lists(
    st.fixed_dictionaries({"names": st.lists(NAMES, max_size=3), "sizeBytes": st.integers(0, 9)}),
    max_size=3,
)


def node(name: str, images: list[dict[str, Any]]) -> dict[str, Any]:
    status = {"nodeInfo": {"bootID": name}, "images": images, "features": {}}
    notes = {"note": '{"images":[{"x":1}]}', name: "}]"}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {}, "status": status}


def as_sent(value: object) -> bytes:
    """As the API server writes it: no spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@given(st.lists(st.tuples(NAMES, IMAGES), max_size=4))
def test_only_the_images_may_be_missing(rows: list[tuple[str, list[dict[str, Any]]]]) -> None:
    page = {"kind": "NodeList", "items": [node(name, images) for name, images in rows]}
    decoded = decode(as_sent(page))
    for item, (_, images) in zip(decoded["items"], rows, strict=True):
        assert item["status"]["images"] in ([], images)
        item["status"]["images"] = images
    assert decoded == page


def test_the_images_of_a_page_are_not_decoded() -> None:
    images = [{"names": [f"cr.example.org/{i}", f"b@sha256:{i:064x}"]} for i in range(50)]
    page = {"items": [node(f"n-{i}", images) for i in range(3)] + [node("n-3", [])]}
    assert [item["status"]["images"] for item in decode(as_sent(page))["items"]] == [[]] * 4


def test_a_list_of_another_form_is_decoded_whole() -> None:
    odd = {"images": [{"layers": [{"size": 1}], "names": ["a"]}], "status": "kept"}
    assert decode(as_sent(odd)) == odd


@pytest.mark.parametrize("text", [b'{"images":[', b'{"images":[{"names":["}]', b"", b"{"])
def test_invalid_json_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|Unterminated"):
        decode(text)


LISTED = (
    b'{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"x"},"items":[{"a":"Word"}]}'
)


def test_the_items_of_a_list_are_decoded_where_they_have_the_word() -> None:
    assert decode_if(LISTED, b"Word") == json.loads(LISTED)
    without = decode_if(LISTED, b"Other")
    assert without == {**json.loads(LISTED), "items": []}


@pytest.mark.parametrize(
    "data",
    [
        b'{"items":[{"a":1}],"metadata":{"resourceVersion":"9"}}',
        b'{"metadata":{},"b":{"items":[{"a":1}]},"items":[]}',
        b'{"metadata":{}}',
    ],
)
def test_the_head_of_a_list_is_never_lost(data: bytes) -> None:
    assert decode_if(data, b"Word").get("metadata") == json.loads(data).get("metadata")
