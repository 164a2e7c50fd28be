"""Renders a chart of a checkout with Holdfast's values by helm, and dry-runs it on an API server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer, KubectlError

KUBERNETES = "1.34.2"
Object = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML as Go reads it: `1e+07`, helm's form of ten million, is a number."""


_Loader.add_constructor("!go-number", lambda _, node: int(float(str(node.value))))
_Loader.add_implicit_resolver("!go-number", re.compile(r"^[0-9.]+e\+[0-9]+$"), list("0123456789"))


class NotHeld(Exception):
    """The rendered objects are not accepted; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A git working tree of another project. Read, never changed."""

    path: Path

    def __post_init__(self) -> None:
        if not (self.path / "helm").is_dir():
            raise NotHeld(f"{self.path}: no folder helm; clone the project and pass its folder")

    @property
    def commit(self) -> str:
        argv = ["git", "-C", str(self.path), "rev-parse", "HEAD"]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def chart(self, name: str) -> Object:
        read: Object = yaml.safe_load((self.path / "helm" / name / "Chart.yaml").read_text())
        return read

    def values(self, chart: str) -> Object:
        read: Object = yaml.safe_load((self.path / "helm" / chart / "values.yaml").read_text())
        return read


def template(helm: str, tree: Checkout, chart: str, files: Sequence[Path]) -> list[Object]:
    """The objects that ``helm install`` would send. Raises ``NotHeld`` with helm's message."""
    argv = [helm, "template", "--kube-version", KUBERNETES, "held", str(tree.path / "helm" / chart)]
    for file in files:
        argv += ["-f", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHeld(f"helm: {done.stderr.strip()}")
    # Of a duplicate key (Soperator's healthCheckConfig) the last one counts, as in Helm.
    return [item for item in yaml.load_all(done.stdout, _Loader) if item]


def unknown_keys(given: Any, known: Any, path: str = "") -> list[str]:
    """Keys of ``given`` that the chart's values do not have. An empty map there accepts any keys."""
    if not isinstance(given, dict) or not isinstance(known, dict) or not known:
        return []
    found = []
    for key, value in given.items():
        where = f"{path}.{key}".lstrip(".")
        if key not in known:
            found.append(where)
        else:
            found += unknown_keys(value, known[key], where)
    return found


def accepted(server: ApiServer, crds: Sequence[Path], objects: Sequence[Object]) -> list[str]:
    """Kinds that the API server accepts in a strict dry run. Raises ``NotHeld`` with its message."""
    for crd in crds:
        server.kubectl("apply", "--server-side", "-f", str(crd))
        name = yaml.safe_load(crd.read_text())["metadata"]["name"]
        server.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{name}")
    served = server.kubectl("api-resources", "--no-headers").split()
    kinds = []
    for item in objects:
        if item["kind"] not in served:
            continue
        item.setdefault("metadata", {}).setdefault("namespace", "default")
        argv = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
        try:
            server.kubectl(*argv, stdin=json.dumps(item))
        except KubectlError as error:
            raise NotHeld(f"{item['kind']} {item['metadata'].get('name')}: {error}") from None
        kinds.append(str(item["kind"]))
    return sorted(set(kinds))
