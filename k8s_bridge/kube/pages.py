"""Lists of the API server in JSON, page by page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from k8s_bridge.kube.api import Requests

PAGE = 250
"""Objects for each answer; each page is reduced before the next one is fetched."""

Json = Mapping[str, Any]


def pages(get: Callable[[Mapping[str, str]], Json], query: Mapping[str, str]) -> Iterator[Json]:
    """All pages. ``get``: the answer to one query."""
    query = {"limit": str(PAGE), **query}
    while True:
        page = get(query)
        yield page
        more = (page.get("metadata") or {}).get("continue")
        if not more:
            return
        query = {**query, "continue": str(more)}


def items(api: Requests, path: str, selector: str) -> Iterator[Json]:
    """The objects at ``path`` that a label selector selects. Raises ``KubeError``."""
    for page in pages(lambda query: api.request("GET", path, query), {"labelSelector": selector}):
        yield from page.get("items") or ()
