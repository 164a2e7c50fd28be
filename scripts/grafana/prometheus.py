"""A real Prometheus with the pages of a recording in it, and its answers to a dashboard's queries."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from testbed import debian
from testbed.errors import SandboxError

from grafana.recording import EVERY_S, Page

_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The paths of Prometheus' programs."""

    prometheus: Path
    promtool: Path


def programs(cache: Path) -> Programs:
    """Those of Debian's package, unpacked once. Raises ``SandboxError``."""
    promtool = debian.promtool(cache)
    server = cache / "prometheus" / "prometheus"
    server.parent.mkdir(parents=True, exist_ok=True)
    with (server.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(server, os.X_OK):
            with tempfile.TemporaryDirectory(dir=server.parent) as scratch:
                files = debian.unpack("prometheus", Path(scratch))
                (files / "usr/bin/prometheus").rename(server)
    return Programs(prometheus=server, promtool=promtool)


def import_pages(tools: Programs, pages: Sequence[Page], folder: Path) -> Path:
    """Prometheus' data folder with every sample of ``pages``. Raises ``SandboxError``."""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for page in pages:
        for family in text_string_to_metric_families(page.text):
            for sample in family.samples:
                labels = tuple(sorted({**sample.labels, **page.labels}.items()))
                value = f"{sample.value!r} {page.at_s:.3f}"
                samples.setdefault((sample.name, labels), []).append(value)
    text, data = folder / "pages.txt", folder / "data"
    with text.open("w") as file:
        for (name, labels), values in sorted(samples.items()):
            shown = ",".join(f"{key}={json.dumps(value)}" for key, value in labels)
            file.writelines(f"{name}{{{shown}}} {value}\n" for value in values)
        file.write("# EOF\n")
    argv = [str(tools.promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SandboxError(f"promtool: {done.stderr.strip()[-400:]}")
    return data


class Prometheus:
    """A server on loopback over a data folder. Use it as a context manager."""

    def __init__(self, tools: Programs, data: Path):
        self._tools, self._data = tools, data

    def __enter__(self) -> Prometheus:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        empty = self._data.with_name("prometheus.yml")
        empty.write_text("")
        self._url = f"http://127.0.0.1:{port}"
        argv = [
            str(self._tools.prometheus), f"--config.file={empty}", f"--storage.tsdb.path={self._data}",
            f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y",
            "--query.lookback-delta=30s", "--log.level=error",
        ]  # fmt: skip
        self._process = subprocess.Popen(argv, cwd=self._data.parent)
        end_s = time.monotonic() + _START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end_s:
                self.__exit__()
                raise SandboxError("prometheus does not start; its messages are above")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        self._process.wait()

    def answers(
        self, model: Mapping[str, Any], pages: Sequence[Page], nodes: Sequence[str]
    ) -> dict[str, Any]:
        """What dashboard.jsx draws: the model, and each query's series over the time of ``pages``.

        ``nodes``: the dashboard's variable.
        """
        begin_s, end_s = pages[0].at_s, pages[-1].at_s
        found = {}
        for expr in _queries(model):
            asked = expr.replace("$node", f"({'|'.join(nodes)})" if len(nodes) > 1 else nodes[0])
            asked = asked.replace("$__rate_interval", "1m")
            query = {"query": asked, "start": begin_s, "end": end_s, "step": EVERY_S}
            found[expr] = self._get("/api/v1/query_range", query)["data"]["result"]
        empty = [expr for expr, series in found.items() if not series]
        return {
            "model": model,
            "answers": found,
            "from_ms": begin_s * 1000,
            "to_ms": end_s * 1000,
            "empty": empty,
        }

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=2) as answer:  # noqa: S310 - http
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _get(self, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        url = f"{self._url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - http
                read: dict[str, Any] = json.load(answer)
                return read
        except urllib.error.HTTPError as error:
            raise SandboxError(f"{query['query']}: {error.read().decode()[:300]}") from None


def _queries(model: Mapping[str, Any]) -> Iterator[str]:
    for panel in model["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
