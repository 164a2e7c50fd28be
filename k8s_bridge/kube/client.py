"""The Kubernetes API. The official client is used only for access: addresses, certificates, tokens.

Its models are not used: Nodes are asked for in the API server's protobuf encoding and reduced to the needed
fields while they arrive, so that ten thousand of them take tens of megabytes, not gigabytes. Where the
answer is JSON (a proxy may allow nothing else), it is decoded page by page.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import Any, NamedTuple

from holdfast.adapters.log import Log
from holdfast.errors import UsageError
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube import library, patches
from k8s_bridge.kube.access import Right
from k8s_bridge.kube.api import (
    Edit,
    KubeConflict,
    KubeError,
    KubeFailed,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeRefused,
    KubeUnauthorized,
    KubeUnavailable,
    WatchEvent,
)
from k8s_bridge.kube.decode import decode, decode_if
from k8s_bridge.kube.pages import pages
from k8s_bridge.kube.protobuf import messages
from k8s_bridge.kube.protobuf.fields import Incomplete, UnknownForm
from k8s_bridge.kube.protobuf.stream import NodeList, watch_events
from k8s_bridge.kube.short_requests import Limits, ShortRequests
from k8s_bridge.model.changes import NodeEvent
from k8s_bridge.model.snapshot import Condition, KubeNode, is_newer, project
from k8s_bridge.names import FIELD_MANAGER

log = Log("bridge")

CHUNK = 1 << 16
"""Bytes that are read at once from a long answer."""
WATCH_S = 50
"""The server ends a watch after this time; the next one continues from there."""
SILENCE_S = 90.0
"""A watch without an event or an end in this time has a dead connection."""
ATTEMPTS = 5
"""Attempts for one optimistic write before it is postponed to the next plan."""

_NODES = "/api/v1/nodes"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_JSON = "application/json"
_EITHER = f"{messages.MEDIA_TYPE}, {_JSON}"
_EITHER_STREAM = f"{messages.MEDIA_TYPE};stream=watch, {_JSON}"
_MERGE, _STRATEGIC = (
    f"application/{kind}+json" for kind in ("merge-patch", "strategic-merge-patch")
)

_ERRORS: Mapping[int, type[KubeError]] = {
    404: KubeNotFound,
    409: KubeConflict,
    410: KubeGone,
    422: KubeInvalid,
}
"""HTTP status → what it means. Any other 4xx: ``KubeRefused``."""


class Forms(NamedTuple):
    """Media types: of the body that is sent, and of the answers that are accepted."""

    sent: str = _JSON
    accepted: str = _JSON


_LISTED = Forms(accepted=_EITHER)
_WATCHED = Forms(accepted=_EITHER_STREAM)
_PLAIN = Forms()


class KubeApi:
    """One cluster's API server. Thread-safe: the watch runs beside the writes."""

    def __init__(self, policy: BridgeConfig):
        """Raises ``UsageError`` when there is no usable access; does not connect yet."""
        self._policy = policy
        self._client = library.api_client(policy.kubeconfig)
        self._short = self._short_requests()
        self._written: dict[KubeName, KubeNode] = {}
        """Nodes from the answers to writes, until the watch has reported them."""
        self._protobuf = True

    def list_nodes(self) -> tuple[list[KubeNode], str]:
        """All Nodes. In protobuf all at once, as the API server has them in memory; each is reduced before
        the next one is read.
        """
        with self._answer("GET", _NODES, self._selector(), None, _LISTED) as response:
            if _is_protobuf(response):
                listed = NodeList(response.stream(CHUNK))
                nodes = [project(node) for node in listed.nodes()]
                return nodes, listed.version
        return self._list_json()

    def _list_json(self) -> tuple[list[KubeNode], str]:
        """All Nodes, page by page."""
        nodes: list[KubeNode] = []
        version = ""
        for page in pages(partial(self._call, "GET", _NODES), self._selector()):
            nodes += [project(item) for item in page.get("items") or ()]
            version = str((page.get("metadata") or {}).get("resourceVersion", ""))
        return nodes, version

    def watch_nodes(self, version: str) -> Iterator[WatchEvent]:
        """One stream of changes.

        Ends when the server ends it; raises ``KubeGone`` when the version has expired.
        """
        query = {**_watch(version), **self._selector()}
        with self._answer("GET", _NODES, query, None, _WATCHED, SILENCE_S) as response:
            if _is_protobuf(response):
                for kind, thing in watch_events(response.stream(CHUNK)):
                    yield self._known(kind, thing) or patches.event_of(kind, messages.decode(thing))
            else:
                for line in patches.lines(response.stream(CHUNK)):
                    yield patches.watch_event(line)

    def _known(self, kind: str, thing: bytes) -> WatchEvent | None:
        """The event of a Node that this version, or a newer one, is known of: the watch reports each write
        of the bridge too.
        """
        if not self._written or kind not in ("ADDED", "MODIFIED"):
            return None
        name, uid, version = messages.identity(thing)
        known = self._written.get(KubeName(name))
        if known is None:
            return None
        newer = known.uid == uid and is_newer(known.version, version)
        if not newer:  # no event of an older version follows
            self._written.pop(known.name, None)
        if newer or (known.uid, known.version) == (uid, version):
            return WatchEvent(node=known, gone=False, version=version)
        return None

    def node(self, name: KubeName) -> KubeNode:
        """The present Node."""
        return project(self._call("GET", f"{_NODES}/{name}", forms=_LISTED))

    def edit(self, seen: KubeNode, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        """One strategic merge patch with the version that was seen. The server answers 409 if the Node has
        another one, and 422 or 403 if a policy denies the patch: these two are never mistaken for
        each other.
        """
        for _ in range(ATTEMPTS):
            edit = decide(seen)
            patch = patches.edit_patch(seen, edit) if edit else {}
            if not patch:
                return seen
            try:
                return self._patch(f"{_NODES}/{seen.name}", patch)
            except KubeConflict:
                seen = self.node(seen.name)
        raise KubeConflict(f"node {seen.name}: written by others {ATTEMPTS} times in a row")

    def patch_status(
        self, name: KubeName, conditions: Sequence[Condition], label: str | None
    ) -> KubeNode:
        """Only the bridge's conditions and label, by strategic merge patch. A Node's status subresource
        takes labels too.
        """
        patch = patches.status_patch(conditions, label, datetime.now(timezone.utc))
        return self._patch(f"{_NODES}/{name}/status", patch)

    def create_events(self, node: KubeNode | None, events: Iterable[NodeEvent]) -> None:
        """Events in ``default``, as a Node has no namespace."""
        for event in events:
            body = patches.event(node, event, socket.gethostname(), datetime.now(timezone.utc))
            try:
                self._call("POST", _EVENTS, body=body)
            except KubeConflict:
                pass  # created before the bridge was last killed

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        """One request about another object than a Node, and its answer. A PATCH is a merge patch."""
        if method == "PATCH":
            query = {"fieldManager": FIELD_MANAGER, **(query or {})}
        forms = Forms(_MERGE) if method == "PATCH" else _PLAIN
        return self._call(method, path, query, body, forms)

    def listed(self, path: str, query: Mapping[str, str], word: str) -> dict[str, Any]:
        """One page of a list of other objects than Nodes, in JSON."""
        with self._answer("GET", path, query) as response:
            found: dict[str, Any] = decode_if(response.data, word.encode())
            return found

    def watch(self, path: str, version: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """One stream of changes of other objects than Nodes, in JSON."""
        with self._answer("GET", path, _watch(version), None, _PLAIN, SILENCE_S) as response:
            for line in patches.lines(response.stream(CHUNK)):
                yield patches.watch_message(line, path.rpartition("/")[2])

    def may(self, right: Right) -> bool:
        """Has this account the right? A SelfSubjectAccessReview, which every account may create."""
        wanted = {name: value for name, value in right._asdict().items() if value}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        answer = self._call("POST", _REVIEWS, body=body)
        return (answer.get("status") or {}).get("allowed") is True

    def _selector(self) -> dict[str, str]:
        return {"labelSelector": self._policy.node_selector} if self._policy.node_selector else {}

    def _patch(self, path: str, body: object, kind: str = _STRATEGIC) -> KubeNode:
        query = {"fieldManager": FIELD_MANAGER}
        node = project(self._call("PATCH", path, query, body, Forms(kind, _EITHER)))
        self._written[node.name] = node
        return node

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        forms: Forms = _PLAIN,
    ) -> dict[str, Any]:
        what = f"{method} {path}"
        with self._failures(what):
            data = self._data(method, path, query or {}, body, forms)
            answer = messages.decode(data) if messages.is_object(data) else decode(data)
            if not isinstance(answer, dict):
                raise KubeUnavailable(f"{what}: the answer is not an object")
            return answer

    def _data(
        self, method: str, path: str, query: Mapping[str, str], body: object, forms: Forms
    ) -> bytes:
        """The answer to a short request."""
        if self._short is None:
            with self._answer(method, path, query, body, forms) as response:
                data: bytes = response.data
                return data
        limits = Limits(self._policy.timeout_s, self._policy.timeout_s)
        headers = self._headers(forms, f"{method} {path}")
        sent = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        answer = self._short.send(method, path, query, headers, sent, limits)
        if not 200 <= answer.status <= 299:
            error = library.api_exception()(status=answer.status, reason=answer.reason)
            error.body = answer.body
            raise error
        return answer.body

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        forms: Forms = _PLAIN,
        read_s: float | None = None,
    ) -> Iterator[Any]:
        """The open HTTP response; every failure becomes a ``KubeError``."""
        client, response, what = self._client, None, f"{method} {path}"
        try:
            with self._failures(what):
                response = client.request(
                    method,
                    client.configuration.host + path,
                    query_params=list((query or {}).items()),
                    headers=self._headers(forms, what),
                    body=body,
                    _preload_content=False,
                    _request_timeout=(self._policy.timeout_s, read_s or self._policy.timeout_s),
                )
                yield response
        finally:
            if response is not None:
                response.close()
                response.release_conn()

    def _headers(self, forms: Forms, what: str) -> dict[str, str]:
        # Once a server has sent a form that cannot be read, it is not asked for it again.
        accept = forms.accepted if self._protobuf else _JSON
        client = self._client
        headers = {**client.default_headers, "Accept": accept, "Content-Type": forms.sent}
        client.update_params_for_auth(headers, [], ["BearerToken"])
        if problem := library.trim_token(headers):
            raise self._unauthorized(f"{what}: {problem}")
        return headers

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """Every failure becomes a ``KubeError``."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - after the library that uses it

        try:
            yield
        except library.api_exception() as error:
            raise self._translated(error, what) from None
        except UnknownForm as error:
            self._protobuf = False
            log.warning("from now on Nodes are read as JSON", call=what, why=error)
            raise KubeUnavailable(f"{what}: {error}") from None
        except (HTTPError, OSError, ValueError, Incomplete) as error:
            raise KubeUnavailable(f"{what}: {' '.join(str(error).split())[:200]}") from None

    def _short_requests(self) -> ShortRequests | None:
        settings = self._client.configuration
        return ShortRequests(settings) if ShortRequests.usable(settings) else None

    def _unauthorized(self, text: str) -> KubeUnauthorized:
        """The token has expired or was changed: read it again for the next call."""
        try:
            self._client = library.api_client(self._policy.kubeconfig)
            self._short = self._short_requests()
        except UsageError as broken:  # it is being replaced just now
            text = f"{text}; {broken}"
        return KubeUnauthorized(text)

    def _translated(self, error: Any, what: str) -> KubeError:
        message = " ".join(_message(error).split())[:300]
        text = f"{what}: {error.status or 'no answer'}: {message}"
        if error.status == 401:
            return self._unauthorized(text)
        if not error.status:
            return KubeUnavailable(text)
        # The server is overloaded or broken: the same call may work later, unlike a refusal.
        if error.status == 429 or error.status >= 500:
            return KubeFailed(text)
        return _ERRORS.get(error.status, KubeRefused)(text)


def _watch(version: str) -> dict[str, str]:
    """The query of a watch."""
    query = {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": str(WATCH_S)}
    return {**query, "resourceVersion": version}


def _is_protobuf(response: Any) -> bool:
    return str(response.headers.get("Content-Type", "")).startswith(messages.MEDIA_TYPE)


def _message(error: Any) -> str:
    """The API server's error message."""
    body = error.body or b""
    data = body if isinstance(body, bytes) else str(body).encode()
    try:
        answer = messages.decode(data) if messages.is_object(data) else json.loads(data)
        return str(answer["message"])
    except (ValueError, TypeError, KeyError):
        return data.decode(errors="replace") or str(error.reason or "")
