"""Renders a chart with Holdfast's values by helm and Flux's post-render, and dry-runs the result."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer, KubectlError

from charts.errors import NotHeld
from charts.release import Release

KUBERNETES = "1.34.2"
Object = dict[str, Any]

_KUSTOMIZATION = """\
resources: [rendered.yaml]
labels:
  - pairs:
      helm.toolkit.fluxcd.io/name: held
      helm.toolkit.fluxcd.io/namespace: flux-system
"""
"""What Flux's helm-controller does to every HelmRelease: labels of its own, by kustomize."""


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes' tools read it: `1e+07` is a number, and a key may be given only once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise NotHeld(f"the key {twice!r} is given twice (line {node.start_mark.line + 1})")
        return super().construct_mapping(node, deep)


_Loader.add_constructor("!go-number", lambda _, node: int(float(str(node.value))))
_Loader.add_implicit_resolver("!go-number", re.compile(r"^[0-9.]+e\+[0-9]+$"), list("0123456789"))


def objects_of(text: str) -> list[Object]:
    """The objects of a YAML text. Raises ``NotHeld`` for a key that is given twice."""
    return [item for item in yaml.load_all(text, _Loader) if item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Paths of the real programs, and a folder for their input. The kubectl is the sandbox's."""

    helm: str
    kubectl: Path
    folder: Path

    def template(
        self, release: Release, chart: str, *values: str, name: str = "held"
    ) -> list[Object]:
        """What ``helm install -f VALUES …`` sends, after Flux's post-render. Raises ``NotHeld``."""
        argv = [self.helm, "template", "--namespace", "default", "--kube-version", KUBERNETES]
        argv += [name, str(release.path / "helm" / chart)]
        for number, text in enumerate(values):
            argv += ["-f", str(self.write(f"values-{number}.yaml", text))]
        rendered = self._run(argv)
        plain = objects_of(rendered)
        posted = objects_of(self._post_rendered(rendered))
        if _contents(posted) != _contents(plain):
            raise NotHeld(f"{chart}: Flux's post-render changes the content of an object")
        return plain

    def _post_rendered(self, rendered: str) -> str:
        self.write("rendered.yaml", rendered)
        self.write("kustomization.yaml", _KUSTOMIZATION)
        return self._run([str(self.kubectl), "kustomize", str(self.folder)])

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def _run(self, argv: Sequence[str]) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotHeld(f"{Path(argv[0]).name} {argv[1]}: {done.stderr.strip()}")
        return done.stdout


def _contents(objects: Sequence[Object]) -> Mapping[tuple[str, str], Object]:
    """Kind and name → the object without its metadata, where kustomize adds labels."""
    return {
        identity(item): {key: value for key, value in item.items() if key != "metadata"}
        for item in objects
    }


def identity(item: Object) -> tuple[str, str]:
    return str(item["kind"]), str(item["metadata"]["name"])


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


def establish(server: ApiServer, crds: Sequence[Path]) -> None:
    """Applies CRDs and waits until the server serves them."""
    for crd in crds:
        server.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crd))
        name = yaml.safe_load(crd.read_text())["metadata"]["name"]
        server.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{name}")


def served(server: ApiServer, objects: Sequence[Object]) -> list[Object]:
    """The objects whose kind the server knows."""
    known = server.kubectl("api-resources", "--no-headers").split()
    return [item for item in objects if item["kind"] in known]


def accepted(server: ApiServer, objects: Sequence[Object]) -> list[str]:
    """Kinds that the API server accepts in a strict dry run. Raises ``NotHeld`` with its message."""
    sent = served(server, objects)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": sent})
    try:
        server.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    except KubectlError as error:
        raise NotHeld(f"the API server: {error}") from None
    return sorted({str(item["kind"]) for item in sent})
