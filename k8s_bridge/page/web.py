"""The page over HTTP: ``/`` is the page, ``/state`` its data, ``/node?name=NAME`` one node. All read-only.

The page has its style and its program in itself and asks nobody but this server; the header
Content-Security-Policy makes the browser hold to that, whatever text comes from users.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping

from holdfast.render.templates import render
from holdfast.text.printable import values
from k8s_bridge.endpoints.http_server import Request, Response, Route
from k8s_bridge.page.cells import KINDS
from k8s_bridge.page.sections import Sections

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_MOST_SECTIONS = 32


def routes(sections: Sections, *, cluster: str) -> Mapping[str, Route]:
    """The paths of the page."""
    text = page(cluster)
    body = text.encode()
    whole = Response(
        body=body,
        kind="text/html; charset=utf-8",
        headers={"Content-Security-Policy": policy(text), "X-Frame-Options": "DENY"},
        zipped=gzip.compress(body, 9),
    )
    return {
        "/": lambda _: whole,
        "/state": lambda request: _state(sections, request),
        "/node": lambda request: _node(sections, request),
    }


def page(cluster: str) -> str:
    """The page's HTML. The name of the cluster is the only value in it; the browser asks for the rest."""
    return render("k8s_bridge", "page.html.j2", {"cluster": cluster, "kinds": list(KINDS.items())})


def policy(text: str) -> str:
    """The Content-Security-Policy of that page: its own style and program by their hashes, and its data."""
    hashes: dict[str, list[str]] = {"style": [], "script": []}
    for kind, content in _INLINE.findall(text):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    return (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; style-src {' '.join(hashes['style'])}; "
        f"script-src {' '.join(hashes['script'])}"
    )


def _state(sections: Sections, request: Request) -> Response:
    """``run`` and ``have=NAME:VERSION,…`` name what the browser has."""
    have: dict[str, int] = {}
    if request.query.get("run") == sections.run:
        for pair in request.query.get("have", "").split(",")[:_MOST_SECTIONS]:
            name, _, version = pair.partition(":")
            if version.isascii() and version.isdigit() and len(version) < 16:
                have[name] = int(version)
    return Response(body=sections.answer(have), kind="application/json")


def _node(sections: Sections, request: Request) -> Response:
    found = sections.node(request.query.get("name", ""))
    status = 200 if found else 404
    body = json.dumps(values(found) if found else {"problem": "no such node"}).encode()
    return Response(body=body, kind="application/json", status=status)
