"""Slurm over slurmrestd: nodes, drains and comments with a JSON Web Token, and nothing else of Slurm.

Optional: ``slurm: {adapter: rest}``. A pod that uses it needs neither munge nor a key nor Slurm's commands. Jobs
and accounting stay with the commands, which ``SlurmRest`` inherits. Hooks and agent never use it.

Facts that shape this module (seen on 24.11.5 and 26.05.5):

* A query of an unknown node is answered with status 200 or an error and no node. So all nodes are read where
  more than a few are wanted, and a name that is missing there does not exist.
* A write to several nodes of which one is unknown changes those before it: as with scontrol, callers read again.
* 10,000 nodes are 26 MB of JSON and 2 s of slurmrestd: at that size the commands are better.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from holdfast.errors import ConfigError, Refused, Unavailable
from holdfast.node_names import natural
from holdfast.slurm.cli import NO_ANSWER, SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse import scontrol_json, values
from holdfast.text.printable import folded
from holdfast.vocabulary import SlurmName

API_VERSIONS = tuple(f"v0.0.{number}" for number in range(48, 40, -1))
"""Newest first. v0.0.42 is that of 24.11; the first that slurmrestd knows is used."""
FEW = 8
"""So many nodes are queried one by one."""
MOST_BYTES = 256 * 1024 * 1024
"""Limit for one answer: some 100,000 nodes."""
_PART = 1 << 16
_TOKEN = re.compile(r"[A-Za-z0-9._=-]+")


class SlurmRest(SlurmCli):
    """``SlurmCli`` whose questions about nodes and writes to nodes go through slurmrestd at ``url``:
    ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH``.

    Same values and same errors. ``timeout_s`` bounds each request as a whole. ``token_file`` contains a token
    as ``scontrol token`` prints it, and is read for each request; empty: the environment's SLURM_JWT. The
    token is in no message. Several threads may use it at once.
    """

    def __init__(self, timeout_s: float, url: str, token_file: str = "", bin_dir: str = ""):
        super().__init__(timeout_s, bin_dir, token_file)
        self._url = url
        self._version = ""

    def check(self) -> None:
        """Raises ``ConfigError`` where there is no token to use at all."""
        if not self._token_file and not os.environ.get("SLURM_JWT"):
            raise ConfigError(
                "slurm.adapter: rest needs a token: set bridge.slurm_token_file for the bridge, or "
                "SLURM_JWT in the environment of a command"
            )

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        """All nodes, or those named, sorted as Slurm does. An unknown name raises ``Refused``."""
        wanted = self._checked(names)
        if 0 < len(wanted) <= FEW:
            found = {node.name: node for name in wanted for node in self._one(name)}
        else:
            found = {node.name: node for node in self._nodes_of("nodes/")}
        missing = [name for name in wanted if name not in found]
        if missing:
            raise Refused(["slurmrestd", "nodes"], f"Slurm knows no node {', '.join(missing)}")
        keep = frozenset(wanted) or found.keys()
        return [found[name] for name in sorted(found, key=natural) if name in keep]

    def nodes_fast(self) -> list[SlurmNode]:
        """Every node; slurmrestd has no faster query."""
        return self.nodes()

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        self._update(names, state=["DRAIN"], reason=folded(reason))

    def undrain(self, names: Sequence[SlurmName]) -> None:
        self._update(names, state=["UNDRAIN"])

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        self._update(names, comment=folded(text))

    def clock(self) -> datetime:
        answer = self._ask("GET", "diag/")
        statistics = answer.get("statistics")
        at = values.epoch(statistics.get("req_time")) if isinstance(statistics, Mapping) else None
        if at is None:
            raise Unavailable(["slurmrestd", "diag"], "answer not understood: no time")
        return at

    def _one(self, name: SlurmName) -> list[SlurmNode]:
        try:
            return self._nodes_of(f"node/{quote(name)}")
        except Refused as error:
            # Which error means "unknown" differs by release: look into the list of all.
            known = {node.name: node for node in self._nodes_of("nodes/")}
            if name in known:
                return [known[name]]
            raise Refused(error.argv, f"Slurm knows no node {name}") from None

    def _nodes_of(self, path: str) -> list[SlurmNode]:
        answer = self._ask("GET", path)
        try:
            return scontrol_json.nodes_of(answer)
        except values.ParseError as error:
            raise Unavailable(["slurmrestd", path], f"unexpected answer: {error}") from None

    def _update(self, names: Sequence[SlurmName], **changes: Any) -> None:
        checked = self._checked(names, some=True)
        if len(checked) == 1:
            self._ask("POST", f"node/{quote(checked[0])}", changes)
        else:
            self._ask("POST", "nodes/", {"name": list(checked), **changes})

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The decoded answer. Raises ``Unavailable`` and ``Refused``."""
        if not self._version:
            self._version = self._newest()
        return self._request(method, f"/slurm/{self._version}/{path}", body)

    def _newest(self) -> str:
        """The newest API that this slurmrestd knows."""
        for version in API_VERSIONS:
            status, answer = self._exchange("GET", f"/slurm/{version}/ping/", None)
            if status != 404:
                self._raise(f"/slurm/{version}/ping/", status, answer)
                return version
        raise Unavailable(
            ["slurmrestd", self._url],
            f"knows none of the APIs {API_VERSIONS[-1]} to {API_VERSIONS[0]}",
        )

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        status, answer = self._exchange(method, path, body)
        if status == 404 and not answer.get("errors"):
            self._version = ""  # another release of slurmrestd: the next call looks for its API
        self._raise(path, status, answer)
        return answer

    def _raise(self, path: str, status: int, answer: Mapping[str, Any]) -> None:
        errors = answer.get("errors")
        rows = (
            [row for row in errors if isinstance(row, Mapping)] if isinstance(errors, list) else []
        )
        if status < 300 and not rows:
            return
        argv = ["slurmrestd", path]
        text = "; ".join(
            f"{row.get('error') or ''} {row.get('description') or ''}".strip() for row in rows
        )
        # 401 is no refusal of the write: tokens are renewed while the bridge runs.
        if status == 401 or status in (408, 429) or status >= 502 or NO_ANSWER.search(text):
            raise Unavailable(argv, f"no answer (HTTP {status})", text)
        raise Refused(argv, f"refused by Slurm (HTTP {status})", text)

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]]:
        """Status and decoded body. Raises ``Unavailable`` where there is no answer."""
        argv = ["slurmrestd", path]
        headers = {"Accept": "application/json", "X-SLURM-USER-TOKEN": self._jwt(argv)}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body), "application/json"
        end = time.monotonic() + self._timeout_s
        connection = _connection(self._url, self._timeout_s)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return response.status, _decoded(_read(connection, response, end))
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = isinstance(error, TimeoutError)
            problem = f"no answer in {self._timeout_s:g} s" if late else f"no answer: {error}"
            raise Unavailable(argv, problem) from None
        finally:
            connection.close()

    def _jwt(self, argv: Sequence[str]) -> str:
        """The token. A header with another character would be in the message of an exception."""
        text = self._token(argv).get("SLURM_JWT") or os.environ.get("SLURM_JWT", "")
        if not _TOKEN.fullmatch(text):
            where = self._token_file or "SLURM_JWT"
            raise Unavailable(argv, f"no Slurm token: {where} holds none")
        return text


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float):
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return _UnixConnection(parts.path, timeout_s)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout_s)


def _read(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, end: float
) -> bytes:
    """The body, within the time that is left until ``end`` (monotonic)."""
    parts: list[bytes] = []
    size = 0
    sock = connection.sock
    while True:
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        if sock is not None:
            # A socket's time-out is for each read: a server that sends a byte now and then would
            # never reach it.
            sock.settimeout(left_s)
        part = response.read1(_PART)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        parts.append(part)


def _decoded(body: bytes) -> dict[str, Any]:
    """The JSON object; an empty one where the body is none (slurmrestd's own 401 and 404 are text)."""
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
