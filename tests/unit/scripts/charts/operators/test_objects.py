"""Objects of two moments are compared without what the server counts."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from charts.errors import NotHeld
from charts.operators.objects import Kind, differences, everything, must_be_equal
from testbed.kube.local import ApiServer


class Server:
    """Answers as kubectl does."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self._items = items

    def kubectl(self, verb: str, *_: str) -> str:
        return (
            "configmaps\nevents\n"
            if verb == "api-resources"
            else json.dumps({"items": self._items})
        )


def config_map(name: str, text: str, version: str, **metadata: Any) -> dict[str, Any]:
    own = {"name": name, "namespace": "n", "resourceVersion": version, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": {"a": text}}


def seen(*items: dict[str, Any]) -> Any:
    return everything(cast("ApiServer", Server(*items)))


def test_versions_and_the_records_of_helm_are_no_difference() -> None:
    release = config_map("sh.helm.release.v1.soperator.v2", "x", "3")
    before = seen(config_map("one", "x", "1"))
    after = seen(config_map("one", "x", "2", generation=4), release)
    assert differences(before, after) == []
    must_be_equal("after the removal", before, after)


def test_a_changed_an_added_and_a_removed_object_are_named() -> None:
    before = seen(config_map("one", "x", "1"), config_map("two", "x", "1"))
    after = seen(config_map("one", "y", "1"), config_map("three", "x", "1"))
    names = [f"ConfigMap/n/{name}" for name in ("one", "three", "two")]
    assert differences(before, after) == names
    with pytest.raises(
        NotHeld, match=r"after the removal: ConfigMap/n/one\.data\.a was x and is y; "
    ):
        must_be_equal("after the removal", before, after)


def test_labels_and_annotations_count() -> None:
    before = seen(config_map("one", "x", "1", labels={"a": "b"}))
    with pytest.raises(NotHeld, match=r"labels\.a was b and is None"):
        must_be_equal("now", before, seen(config_map("one", "x", "1", labels={})))


def test_a_kind_without_a_schema_has_the_plural_that_kubernetes_makes() -> None:
    names = [
        Kind(group="g", version="v1", kind=kind).crd["metadata"]["name"]
        for kind in ("DaemonSet", "HelmRepository")
    ]
    assert names == ["daemonsets.g", "helmrepositories.g"]
