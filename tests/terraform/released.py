"""A release of Helm in a box whose machines run pods, as docs/howto/helm.md installs it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages.chart.files import NAME, write_archive
from packages.helm import Tool, find
from testbed.box import Box
from testbed.paths import cache

from tests.packages.helm import Helm

SPACE = ("--namespace", "holdfast")
WAIT = ("--wait", "--timeout=110s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The release ``holdfast`` in the namespace ``holdfast``, with one file of values."""

    helm: Helm
    chart: Path

    @classmethod
    def prepared(cls, box: Box, values: dict[str, Any], folder: Path) -> Released:
        """With what the page creates before: the namespace, slurm.conf and a token. Skips without Helm."""
        program = find(Tool.HELM, cache())
        if program is None:
            pytest.skip("Helm is neither built nor on PATH: run scripts/package programs once")
        chart = folder / f"{NAME}.tgz"
        write_archive(chart)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "holdfast"}}
        conf = _object("ConfigMap", "slurm-conf", "slurm.conf", values["slurm_conf"])
        token = base64.b64encode(values["slurm_token"].encode()).decode()
        auth = _object("Secret", "slurm-auth", "token", token)
        box.kubectl("create", "-f", "-", stdin="\n---\n".join(map(json.dumps, (space, conf, auth))))
        helm = Helm(
            program=program,
            folder=folder,
            kubeconfig=box.folder / "kube" / "admin.kubeconfig",
            prefix=("nsenter", f"--target={box.pid}", "--net", "--"),
        )
        return cls(helm=helm, chart=chart)

    def __call__(
        self, verb: str, values: dict[str, Any], *, uid: int, kill_switches: list[str]
    ) -> None:
        """Installs or upgrades it, and waits for its pods. Both agents at once: the test is shorter."""
        given = {
            "kill_switches": kill_switches,
            "bridge": {"image": values["bridge_image"], "uid": uid, "poll_s": 0.5},
            "agent": {"enabled": True, "image": values["agent_image"], "max_unavailable": "2"},
        }
        file = self.helm.folder / "values.yaml"
        file.write_text(yaml.safe_dump(given))
        self.helm(verb, "holdfast", str(self.chart), *SPACE, *WAIT, "-f", str(file))

    def roll_back(self) -> None:
        self.helm("rollback", "holdfast", *SPACE, *WAIT)

    def uninstall(self) -> None:
        self.helm("uninstall", "holdfast", *SPACE, *WAIT)


def _object(kind: str, name: str, key: str, value: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "holdfast"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {key: value}}
