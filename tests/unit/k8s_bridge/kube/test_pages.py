"""Lists of several pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k8s_bridge.kube.pages import PAGE, items, pages

PAGES: list[dict[str, Any]] = [
    {"metadata": {"continue": "a"}, "items": [{"n": 1}, {"n": 2}]},
    {"metadata": {"continue": "b"}, "items": None},
    {"metadata": None, "items": [{"n": 3}]},
]


class Server:
    def __init__(self) -> None:
        self.asked: list[Mapping[str, str] | None] = []

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        assert (method, path, body) == ("GET", "/things", None)
        self.asked.append(query)
        return PAGES[len(self.asked) - 1]


def test_every_page_is_asked_for_where_the_one_before_ended() -> None:
    server = Server()
    assert [item["n"] for item in items(server, "/things", "a=b")] == [1, 2, 3]
    first = {"limit": str(PAGE), "labelSelector": "a=b"}
    assert server.asked == [first, {**first, "continue": "a"}, {**first, "continue": "b"}]


def test_a_page_is_fetched_when_the_one_before_has_been_used() -> None:
    server = Server()
    found = pages(lambda query: server.request("GET", "/things", query), {})
    assert next(found) is PAGES[0]
    assert len(server.asked) == 1
