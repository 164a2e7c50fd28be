"""Worker pods that Kubernetes is going to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import KubeGone, KubeUnavailable
from k8s_bridge.model.disruption import Disruption, disruption_of
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import RuleSettings
from k8s_bridge.worker_pods.disruptions import Disruptions, ending, is_wanted

AT, LATER = "2026-11-20T12:00:00Z", "2026-11-20T12:05:00Z"
NOON = 1_795_176_000.0
Json = dict[str, Any]


def pod(name: str, reason: str = "", *, until: str = LATER, version: str = "7") -> Json:
    meta = {"name": name, "resourceVersion": version}
    if not reason:
        return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    row = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": AT,
    }
    return {
        "metadata": {**meta, "deletionTimestamp": until},
        "spec": {"terminationGracePeriodSeconds": 300},
        "status": {"conditions": [row]},
    }


def test_when_a_pod_ends_and_why() -> None:
    assert disruption_of(pod("a")) is None
    found = disruption_of(pod("a", "PreemptionByScheduler"))
    assert found == Disruption(reason="PreemptionByScheduler", since=NOON, until=NOON + 300)


def test_a_pod_that_is_not_deleted_yet_has_its_grace_period() -> None:
    one = pod("a", "DeletionByTaintManager")
    del one["metadata"]["deletionTimestamp"]
    one["spec"]["terminationGracePeriodSeconds"] = 60
    found = disruption_of(one)
    assert found is not None
    assert found.until == NOON + 60


@pytest.mark.parametrize(
    "change", [{"status": "False"}, {"type": "Ready"}, {"lastTransitionTime": "soon"}]
)
def test_what_does_not_end_a_pod(change: Json) -> None:
    one = pod("a", "EvictionByEvictionAPI")
    one["status"]["conditions"][0].update(change)
    assert disruption_of(one) is None


def test_the_text_of_a_pod_is_one_short_line() -> None:
    found = disruption_of(pod("a", "x\n" * 100))
    assert found is not None
    assert found.reason.isprintable()
    assert len(found.reason) <= 60


class Api:
    """A namespace of two pages, and what happens afterwards."""

    def __init__(self, *streams: list[tuple[str, Json]]) -> None:
        self.streams = list(streams)
        self.pages: list[Json] = [
            {"metadata": {"resourceVersion": "10", "continue": "x"}, "items": [pod("w-0")]},
            {"metadata": {"resourceVersion": "10"}, "items": [pod("w-1", "Evicted")]},
        ]
        self.asked: list[str] = []

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> Json:
        raise AssertionError("only lists and watches")

    def listed(self, path: str, query: Mapping[str, str], word: str) -> Json:
        assert (path, word) == ("/api/v1/namespaces/slurm/pods", "DisruptionTarget")
        assert query["limit"] == "100"
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        if name:
            items = [pod for page in self.pages for pod in page["items"]]
            found = [pod for pod in items if pod["metadata"]["name"] == name]
            return {"metadata": {"resourceVersion": "10"}, "items": found}
        return self.pages["continue" in query]

    def watch(self, path: str, version: str) -> Iterator[tuple[str, Json]]:
        self.asked.append(version)
        if not self.streams:
            raise KubeGone("too old")
        yield from self.streams.pop(0)


def follow(api: Api) -> tuple[Disruptions, list[int]]:
    sizes: list[int] = []
    watched = Disruptions(api, "slurm", lambda: sizes.append(len(watched.found())))
    watched.follow()
    return watched, sizes


def test_a_list_and_then_each_change() -> None:
    api = Api(
        [
            ("MODIFIED", pod("w-0", "DeletionByTaintManager", version="11")),
            ("MODIFIED", pod("w-0", "DeletionByTaintManager", version="12")),
            ("BOOKMARK", {"metadata": {"resourceVersion": "19"}}),
            ("DELETED", pod("w-1", "Evicted", version="20")),
        ]
    )
    watched, sizes = follow(api)
    assert api.asked == ["10"]
    assert watched.found().keys() == {"w-0"}
    assert sizes == [1, 2, 1], "an event that changes nothing wakes nobody"


def test_a_pod_that_is_replaced_under_its_name_is_not_disrupted() -> None:
    watched, _ = follow(Api([("DELETED", pod("w-1", "Evicted")), ("ADDED", pod("w-1"))]))
    assert not watched.found()


def test_a_version_that_has_expired_ends_the_watch_and_changes_nothing() -> None:
    api = Api()
    watched, _ = follow(api)
    assert watched.found().keys() == {"w-1"}
    api.pages = [{"metadata": {"resourceVersion": "30"}, "items": [pod("w-7", "Evicted")]}]
    watched.follow()
    assert watched.found().keys() == {"w-7"}, "listed again"


def test_a_silent_api_server_changes_nothing_and_the_watch_goes_on_where_it_was() -> None:
    class Silent(Api):
        silent = True

        def watch(self, path: str, version: str) -> Iterator[tuple[str, Json]]:
            if self.silent:
                self.asked.append(version)
                yield "BOOKMARK", {"metadata": {"resourceVersion": "15"}}
                raise KubeUnavailable("no answer")
            yield from super().watch(path, version)

    api = Silent([("DELETED", pod("w-1", "Evicted"))])
    watched = Disruptions(api, "slurm", lambda: None)
    with pytest.raises(KubeUnavailable):
        watched.follow()
    assert watched.found().keys() == {"w-1"}
    api.silent = False
    api.pages = []  # ten thousand pods are not listed again
    watched.follow()
    assert api.asked == ["10", "15"]
    assert not watched.found()


def test_pods_are_read_only_where_a_rule_looks_at_them() -> None:
    off = (RuleSettings(use="worker-pod-disrupted", mode=RuleMode.OFF),)
    assert is_wanted(BridgeConfig(worker_pods_namespace="slurm"))
    assert not is_wanted(BridgeConfig())
    assert not is_wanted(BridgeConfig(worker_pods_namespace="slurm", rules=off))
    assert ending(Api(), BridgeConfig()) == {}
    wanted = BridgeConfig(worker_pods_namespace="slurm")
    assert ending(Api(), wanted).keys() == {"w-1"}
    assert ending(Api(), wanted, "w-1").keys() == {"w-1"}
    assert ending(Api(), wanted, "w-0") == {}


def test_the_rule_needs_to_know_where_the_pods_are() -> None:
    drains = (RuleSettings(use="worker-pod-disrupted", mode=RuleMode.DRAIN),)
    with pytest.raises(
        ValueError, match="worker-pod-disrupted in mode drain needs worker_pods_nam"
    ):
        BridgeConfig(rules=drains)
