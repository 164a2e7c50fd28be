"""Flux's real helm-controller, which installs Soperator's chart by the HelmRelease of its chart soperator-fluxcd.

Somebody builds the program beforehand. No source-controller runs: this module packs the chart, serves it on
loopback, and fills in the status of the HelmChart that the controller asks for.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer, KubectlError

from charts.chart import Tools
from charts.errors import NotHeld
from charts.operators.objects import Kind, serve
from charts.operators.running import Running
from charts.release import Release

SPACE = "flux-system"
_KINDS = (
    Kind(group="helm.toolkit.fluxcd.io", version="v2", kind="HelmRelease"),
    Kind(group="source.toolkit.fluxcd.io", version="v1", kind="HelmChart"),
    Kind(group="source.toolkit.fluxcd.io", version="v1", kind="HelmRepository"),
    Kind(group="source.toolkit.fluxcd.io", version="v1", kind="OCIRepository"),
)
_OPTIONS = (
    "--enable-leader-election=false", "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0",
    "--watch-all-namespaces=true", "--log-level=info",
)  # fmt: skip


class Flux:
    """The controller between ``with`` and its end."""

    def __init__(self, server: ApiServer, tools: Tools, release: Release, program: Path) -> None:
        self._server, self._tools, self._release = server, tools, release
        self._folder = tools.folder / "flux"
        argv, log = (str(program), *_OPTIONS), tools.folder / "flux.log"
        env = {"RUNTIME_NAMESPACE": SPACE}
        self._running = Running("Flux's helm-controller", argv, server, log, env)
        self._name = ""

    def __enter__(self) -> Flux:
        serve(self._server, *_KINDS)
        self._server.kubectl("create", "namespace", SPACE)
        packed = self._packed()
        handler = functools.partial(_Silent, directory=str(self._folder))
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        asked = self._helm_release()
        self._name = asked["metadata"]["name"]
        self._apply(asked)
        self._running.__enter__()
        self._running.wait("a HelmChart", lambda: bool(self._charts()))
        self._serve(packed)
        return self

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(*error)
        self._http.shutdown()

    def wait(self, revision: int) -> None:
        """Waits until that revision of the release is deployed. Raises ``NotHeld``."""
        self._running.wait(
            f"revision {revision} of its release", lambda: (revision, "deployed") == self._newest()
        )

    def _newest(self) -> tuple[int, str]:
        text = self._server.kubectl("-n", SPACE, "get", "helmrelease", self._name, "-o", "json")
        history = json.loads(text).get("status", {}).get("history") or [{}]
        return history[0].get("version", 0), history[0].get("status", "")

    def _helm_release(self) -> dict[str, Any]:
        """Soperator's own, without the releases that it waits for."""
        chart = self._release.path / "helm/soperator-fluxcd"
        argv = [self._tools.helm, "template", "soperator-fluxcd", str(chart), "-n", SPACE]
        argv += ["--show-only", "templates/slurm-cluster.yaml"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotHeld(f"soperator-fluxcd: {done.stderr.strip()}")
        made: dict[str, Any] = yaml.safe_load(done.stdout)
        del made["spec"]["dependsOn"]
        made["metadata"]["namespace"] = SPACE
        # The chart's defaults name node filters that it does not define.
        filters = self._release.values("slurm-cluster")["k8sNodeFilters"]
        made["spec"]["values"]["k8sNodeFilters"] = [*filters, {"name": "system"}]
        return made

    def _packed(self) -> Path:
        self._folder.mkdir()
        argv = [self._tools.helm, "package", str(self._release.path / "helm/slurm-cluster")]
        subprocess.run([*argv, "-d", str(self._folder)], check=True, capture_output=True)
        (packed,) = self._folder.iterdir()
        return packed

    def _charts(self) -> list[dict[str, Any]]:
        text = self._server.kubectl(
            "-n", SPACE, "get", "helmcharts.source.toolkit.fluxcd.io", "-o", "json"
        )
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def _serve(self, packed: Path) -> None:
        """What source-controller writes once it has a chart."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        digest = hashlib.sha256(packed.read_bytes()).hexdigest()
        port = self._http.server_address[1]
        for chart in self._charts():
            chart["status"] = {
                "observedGeneration": chart["metadata"]["generation"],
                "artifact": {
                    "path": packed.name,
                    "url": f"http://127.0.0.1:{port}/{packed.name}",
                    "revision": str(self._release.chart("slurm-cluster")["version"]),
                    "digest": f"sha256:{digest}",
                    "lastUpdateTime": now,
                },
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Succeeded",
                        "message": "",
                        "lastTransitionTime": now,
                    }
                ],
            }
            path = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{SPACE}/helmcharts/{chart['metadata']['name']}/status"
            self._server.kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(chart))

    def _apply(self, item: dict[str, Any]) -> None:
        with contextlib.suppress(KubectlError):
            self._server.kubectl("create", "namespace", item["spec"]["targetNamespace"])
        self._server.kubectl("apply", "-f", "-", stdin=json.dumps(item))


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
