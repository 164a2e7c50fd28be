"""The adapter over slurmrestd against an HTTP server that answers as slurmrestd did: tokens, errors, bounds.

``tests/contract/test_slurm.py`` runs the adapter on a real slurmrestd.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.load import load_section
from holdfast.config.schema import SlurmAdapter, SlurmConfig
from holdfast.errors import ConfigError, Refused, Unavailable
from holdfast.slurm.adapter import open_slurm
from holdfast.slurm.parse import scontrol_json
from holdfast.slurm.rest_client import SlurmRest
from holdfast.vocabulary import SlurmName

RECORDED = (Path(__file__).parents[3] / "data/slurm/26.05/nodes.json").read_text()
W1, W2 = SlurmName("worker-1"), SlurmName("worker-2")
SECRET = "eyJhbGciOi.s3cret-Part_of.a-token"  # noqa: S105 - made up
API = "v0.0.44"

Answer = tuple[int, str]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.answer: Callable[[str, str], Answer] = self.usual
        self.delay_s = 0.0
        self.part_s = 0.0
        super().__init__(("127.0.0.1", 0), Handler)

    def usual(self, method: str, path: str) -> Answer:
        if not path.startswith(f"/slurm/{API}/"):
            return 404, "Unable find requested URL"
        if path.endswith("/ping/"):
            return 200, json.dumps({"pings": [], "errors": []})
        if path.endswith("/diag/"):
            return 200, json.dumps(
                {"statistics": {"req_time": {"set": True, "number": 1790000000}}}
            )
        if method == "POST":
            return 200, json.dumps({"errors": [], "warnings": []})
        return 200, RECORDED


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = (self.command, self.path, dict(self.headers), json.loads(body) if body else None)
        self.server.asked.append(asked)
        time.sleep(self.server.delay_s)
        status, text = self.server.answer(self.command, self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        data = text.encode()
        if self.server.part_s:
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(self.server.part_s)
        else:
            self.wfile.write(data)

    do_GET = do_POST = _answer  # noqa: N815

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass  # the client gave up

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"SLURM_JWT={SECRET}\n")
    return file


@pytest.fixture
def slurm(server: Server, token_file: Path) -> SlurmRest:
    return client(server, token_file)


def client(server: Server, token_file: Path | str, timeout_s: float = 30) -> SlurmRest:
    return SlurmRest(timeout_s, f"http://127.0.0.1:{server.server_port}", str(token_file))


def failing(*errors: str, status: int = 500) -> Callable[[str, str], Answer]:
    rows = [{"description": text, "error_number": 1, "error": text} for text in errors]
    return lambda *_: (status, json.dumps({"errors": rows}))


def test_nodes_are_those_that_scontrol_prints(slurm: SlurmRest) -> None:
    assert slurm.nodes() == slurm.nodes_fast()
    known = {node.name: node for node in scontrol_json.nodes_json(RECORDED)}
    assert {node.name: node for node in slurm.nodes()} == known
    first = sorted(known)[0]
    assert slurm.nodes([first]) == [known[first]]
    with pytest.raises(Refused, match="Slurm knows no node worker-77"):
        slurm.nodes([first, SlurmName("worker-77")])


def test_writes_name_their_nodes_and_nothing_else(slurm: SlurmRest, server: Server) -> None:
    slurm.drain([W1], "a reason\nwith two lines")
    slurm.undrain([W1, W2])
    slurm.comment([W1], "")
    posts = [(path, body) for method, path, _, body in server.asked if method == "POST"]
    assert posts == [
        (f"/slurm/{API}/node/worker-1", {"state": ["DRAIN"], "reason": "a reason with two lines"}),
        (f"/slurm/{API}/nodes/", {"name": ["worker-1", "worker-2"], "state": ["UNDRAIN"]}),
        (f"/slurm/{API}/node/worker-1", {"comment": ""}),
    ]
    for name in ("ALL", "w[1-2]", "../job/1", ""):
        with pytest.raises(Refused, match="not a node name"):
            slurm.drain([SlurmName(name)], "x")
    assert len([1 for method, *_ in server.asked if method == "POST"]) == 3


def test_the_api_is_found_once_and_again_after_an_upgrade(slurm: SlurmRest, server: Server) -> None:
    assert slurm.clock().timestamp() == 1790000000
    slurm.clock()
    assert len([1 for _, path, *_ in server.asked if path.endswith("/ping/")]) > 1
    asked = len(server.asked)
    server.answer = lambda _, path: (
        server.usual(_, path.replace("v0.0.43", API)) if "v0.0.43" in path else (404, "Unable")
    )
    with pytest.raises(Refused):
        slurm.clock()
    assert slurm.clock().timestamp() == 1790000000
    assert server.asked[-1][1] == "/slurm/v0.0.43/diag/"
    assert len(server.asked) > asked
    server.answer = lambda *_: (404, "Unable")
    with pytest.raises(Unavailable, match=r"knows none of the APIs v0\.0\.41 to"):
        client(server, slurm._token_file).nodes()


def test_a_renewed_token_is_taken_up(slurm: SlurmRest, server: Server, token_file: Path) -> None:
    slurm.nodes()
    token_file.write_text("SLURM_JWT=another.token")
    slurm.nodes()
    sent = [headers["X-SLURM-USER-TOKEN"] for _, _, headers, _ in server.asked]
    assert (sent[0], sent[-1]) == (SECRET, "another.token")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda server, file: setattr(
            server, "answer", failing("Authentication failure", status=401)
        ),
        lambda server, file: setattr(server, "answer", lambda *_: (500, "not JSON")),
        lambda server, file: setattr(server, "answer", failing("Access/permission denied")),
        lambda server, file: file.write_text(f"SLURM_JWT={SECRET}\r\nX-Other: 1"),
        lambda server, file: file.write_text(f"SLURM_JWT={SECRET} {SECRET}"),
        lambda server, file: server.server_close(),
    ],
)
def test_the_token_is_in_no_message(
    slurm: SlurmRest, server: Server, token_file: Path, break_it: Callable[[Server, Path], object]
) -> None:
    break_it(server, token_file)
    slurm._timeout_s = 2
    with pytest.raises((Unavailable, Refused)) as error:
        slurm.nodes()
    shown = f"{error.value} {error.value!r} {error.value.__cause__} {error.value.args}"
    assert "s3cret" not in shown
    assert "\n" not in str(error.value)


def test_no_token_is_no_answer_and_without_any_source_a_configuration_error(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JWT", raising=False)
    with pytest.raises(Unavailable, match="no Slurm token"):
        client(server, tmp_path / "absent").nodes()
    config = SlurmConfig(adapter=SlurmAdapter.REST, rest_url="http://localhost:6820")
    with pytest.raises(ConfigError, match=r"rest needs a token: set bridge\.slurm_token_file"):
        open_slurm(config)
    assert type(open_slurm(config, str(tmp_path / "token"))) is SlurmRest
    monkeypatch.setenv("SLURM_JWT", SECRET)
    assert client(server, "").nodes()


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "Authentication failure", Unavailable),
        (504, "", Unavailable),
        (500, "Unable to contact slurm controller (connect failure)", Unavailable),
        (200, "Unable to contact slurm controller (connect failure)", Unavailable),
        (500, "Invalid user id", Refused),
        (200, "Invalid node name specified", Refused),
    ],
)
def test_errors_are_told_apart(
    slurm: SlurmRest, server: Server, status: int, text: str, kind: type[Exception]
) -> None:
    slurm.nodes()
    server.answer = failing(text, status=status) if text else (lambda *_: (status, ""))
    with pytest.raises(kind):
        slurm.drain([W1], "x")


def test_a_silent_and_a_slow_server_are_bounded(server: Server, token_file: Path) -> None:
    hasty = client(server, token_file, timeout_s=1)
    hasty.nodes()
    server.delay_s = 5
    with pytest.raises(Unavailable, match="no answer in 1 s"):
        hasty.nodes()
    server.delay_s, server.part_s = 0, 0.01
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="no answer in 1 s"):
        hasty.nodes()
    assert time.monotonic() - begin < 60, "a byte now and then does not extend it"


def test_something_else_than_slurmrestd_is_no_answer(slurm: SlurmRest, server: Server) -> None:
    server.answer = lambda *_: (200, "<html>welcome</html>")
    with pytest.raises(Unavailable, match="unexpected answer"):
        slurm.nodes()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{adapter: rest}",
            "slurm.adapter: is 'rest', so rest_url must say where slurmrestd listens",
        ),
        (
            "{rest_url: slurmrestd}",
            "rest_url: must be http://HOST:PORT, https://HOST:PORT or unix:/PATH",
        ),
        ("{rest_url: 'http://host'}", "rest_url: must be http://HOST:PORT"),
        ("{rest_url: 'unix:run/x'}", "rest_url: must be http://HOST:PORT"),
        ("{rest_url: 'http://a:b@host:1'}", "rest_url: must hold no user or password"),
        ("{rest_url: 'http://host:999999'}", "rest_url: must be http://HOST:PORT"),
    ],
)
def test_a_bad_url_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "h.yaml"
    file.write_text(f"slurm: {text}\n")
    with pytest.raises(ConfigError) as error:
        load_section(file, "slurm", SlurmConfig)
    (line,) = str(error.value).splitlines()
    assert f"{file}:1: slurm" in line
    assert told in line
    assert "a:b@" not in line


def test_good_urls() -> None:
    for url in ("http://slurmrestd:6820", "https://[::1]:6820/", "unix:/run/slurmrestd/socket"):
        assert SlurmConfig(rest_url=url).rest_url == url
