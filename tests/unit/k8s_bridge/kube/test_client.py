"""Requests in both encodings, over HTTP, to a server that answers what the test says."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.adapters.command import complete
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import (
    KubeConflict,
    KubeGone,
    KubeRefused,
    KubeUnauthorized,
    KubeUnavailable,
)
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.kube.pages import PAGE
from k8s_bridge.kube.protobuf.fields import MAGIC
from k8s_bridge.kube.protobuf.messages import MEDIA_TYPE
from tests.unit.k8s_bridge.kube import encoding

C0 = KubeName("c0")
PROTOBUF, JSON = MEDIA_TYPE, "application/json"


def node(name: str = "c0", version: str = "5") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": version}}


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, list[str]]
    accept: str
    authorization: str


class Answer(NamedTuple):
    kind: str
    body: bytes
    status: int = 200


Answers = Callable[[Request], Answer]


class Server:
    """``answers`` decides; ``seen`` are the requests."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.answers: Answers = lambda _: Answer(JSON, b"{}")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                asked = Request(
                    self.command,
                    url.path,
                    parse_qs(url.query),
                    self.headers["Accept"],
                    self.headers["Authorization"],
                )
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append(asked)
                answer = outer.answers(asked)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_PATCH = do_GET  # noqa: N815 - the name that http.server calls

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def kube(server: Server, tmp_path: Path) -> KubeApi:
    return connected(server, tmp_path, {"token": "secret"})


def connected(server: Server, tmp_path: Path, user: dict[str, str]) -> KubeApi:
    file = tmp_path / "kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{server.http.server_address[1]}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
    }
    file.write_text(json.dumps(config))
    return KubeApi(BridgeConfig(kubeconfig=str(file)))


def test_all_nodes_come_in_one_answer_in_protobuf(server: Server, kube: KubeApi) -> None:
    listed = encoding.node_list([node(f"c{i}") for i in range(40)], "77")
    server.answers = lambda _: Answer(PROTOBUF, listed)
    nodes, version = kube.list_nodes()
    assert ([found.name for found in nodes], version) == ([f"c{i}" for i in range(40)], "77")
    (asked,) = server.seen
    assert asked.accept.startswith(PROTOBUF)
    assert asked.query == {}
    assert asked.authorization == "Bearer secret"


def test_the_line_break_after_a_token_is_not_sent(server: Server, tmp_path: Path) -> None:
    """As kubectl reads a token file."""
    (tmp_path / "token").write_text("secret\n")
    server.answers = lambda _: Answer(PROTOBUF, encoding.node_object(node()))
    kube = connected(server, tmp_path, {"tokenFile": "token"})
    assert kube.node(C0).name == C0
    assert server.seen[0].authorization == "Bearer secret"


def test_a_token_that_cannot_be_sent_is_in_no_message_and_is_read_again(
    server: Server, tmp_path: Path
) -> None:
    """The HTTP library quotes it in its error, which was in the log and in /readyz."""
    file = tmp_path / "token"
    file.write_text("secret1\nsecret2")
    server.answers = lambda _: Answer(PROTOBUF, encoding.node_object(node()))
    kube = connected(server, tmp_path, {"tokenFile": "token"})
    for text in ("secret3\0", "s\u00e9cret4"):
        with pytest.raises(KubeUnauthorized, match="the token has a line break") as failed:
            kube.node(C0)
        assert "cret" not in str(failed.value)
        file.write_text(text, encoding="utf-8")
    with pytest.raises(KubeUnauthorized):
        kube.node(C0)
    file.write_text("good")
    with pytest.raises(KubeUnauthorized):
        kube.node(C0)
    assert server.seen == []
    assert kube.node(C0).name == C0
    assert server.seen[0].authorization == "Bearer good"


def test_in_json_they_come_in_pages(server: Server, kube: KubeApi) -> None:
    def answers(asked: Request) -> Answer:
        last = "continue" in asked.query
        meta = {"resourceVersion": "9"} | ({} if last else {"continue": "more"})
        page = {"metadata": meta, "items": [node("c1" if last else "c0")]}
        return Answer(JSON, json.dumps(page).encode())

    server.answers = answers
    nodes, version = kube.list_nodes()
    assert ([found.name for found in nodes], version) == (["c0", "c1"], "9")
    assert [asked.query.get("limit") for asked in server.seen] == [None, [str(PAGE)], [str(PAGE)]]


def test_the_event_of_an_own_write_is_not_decoded_again(
    server: Server, kube: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = b"".join(
        encoding.watch_frame("MODIFIED", encoding.node_object(node(version=version)))
        for version in ("5", "6", "7")
    )

    def answers(asked: Request) -> Answer:
        if asked.method == "PATCH":
            return Answer(PROTOBUF, encoding.node_object(node(version="6")))
        return Answer(f"{PROTOBUF};stream=watch", stream)

    server.answers = answers
    written = kube.patch_status(C0, [], "idle")
    assert written.version == "6"
    seen = list(kube.watch_nodes("4"))
    assert server.seen[-1].accept.startswith(f"{PROTOBUF};stream=watch")
    assert [event.version for event in seen] == ["5", "6", "7"]
    assert seen[0].node is written, "an older version of it"
    assert seen[1].node is written
    assert seen[2].node is not None
    assert seen[2].node.version == "7"


def test_a_node_created_again_is_not_taken_for_the_written_one(
    server: Server, kube: KubeApi
) -> None:
    other = node(version="5")
    other["metadata"]["uid"] = "another"

    def answers(asked: Request) -> Answer:
        if asked.method == "PATCH":
            return Answer(PROTOBUF, encoding.node_object(node(version="6")))
        return Answer(
            f"{PROTOBUF};stream=watch",
            encoding.watch_frame("ADDED", encoding.node_object(other)),
        )

    server.answers = answers
    kube.patch_status(C0, [], "idle")
    (event,) = kube.watch_nodes("4")
    assert event.node is not None
    assert event.node.uid == "another"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PROTOBUF, encoding.failure(409, "Conflict", "modified since " * 20)),
        (JSON, json.dumps({"message": "modified since " * 20}).encode()),
    ],
)
def test_an_error_is_understood_in_both_encodings(
    server: Server, kube: KubeApi, kind: str, body: bytes
) -> None:
    server.answers = lambda _: Answer(kind, body, 409)
    with pytest.raises(KubeConflict, match="409: modified since modified"):
        kube.patch_status(C0, [], "idle")
    server.answers = lambda _: Answer("text/html", b"\xff<html>", 403)
    with pytest.raises(KubeRefused, match="403"):
        kube.node(C0)


def test_a_watch_in_protobuf_that_ends_in_error(server: Server, kube: KubeApi) -> None:
    gone = encoding.watch_frame("ERROR", encoding.failure(410, "Expired", "too old"))
    server.answers = lambda _: Answer(f"{PROTOBUF};stream=watch", gone)
    with pytest.raises(KubeGone, match="too old"):
        list(kube.watch_nodes("4"))


def test_after_an_unknown_form_nodes_are_asked_for_as_json(server: Server, kube: KubeApi) -> None:
    def answers(asked: Request) -> Answer:
        if PROTOBUF in asked.accept:
            return Answer(PROTOBUF, MAGIC + b"another form")
        return Answer(JSON, json.dumps(node()).encode())

    server.answers = answers
    with pytest.raises(KubeUnavailable):
        kube.node(C0)
    assert kube.node(C0).name == C0


@pytest.mark.parametrize("whole", [False, True])
def test_the_library_works_without_its_models_and_after_a_whole_import(whole: bool) -> None:
    """In a process of its own, as a test process has imported much already."""
    before = "import kubernetes.client\n" if whole else ""
    program = (
        f"{before}import sys\nfrom k8s_bridge.kube import library\n"
        "client, config = library.imported()\n"
        "settings = client.Configuration()\n"
        "settings.api_key['BearerToken'] = 'Bearer x'\n"
        "headers = {}\n"
        "client.ApiClient(settings).update_params_for_auth(headers, [], ['BearerToken'])\n"
        "print(headers['authorization'], hasattr(config, 'load_kube_config'), "
        "library.api_exception().__name__, 'kubernetes.client.models.v1_pod' in sys.modules)"
    )
    done = complete([sys.executable, "-c", program], timeout_s=120)
    assert done.out.split() == ["Bearer", "x", "True", "ApiException", str(whole)], done.err
