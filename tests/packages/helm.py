"""Helm as a user calls it, with its caches in a folder of the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = "1.34.2"


class HelmError(Exception):
    """Helm failed; the text is its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """``folder``: Helm's own files. ``kubeconfig``: the cluster; None for commands that need none.

    ``prefix``: a command that runs it elsewhere, such as in a box's network.
    """

    program: Path
    folder: Path
    kubeconfig: Path | None = None
    prefix: tuple[str, ...] = ()

    def __call__(self, *args: str) -> str:
        """Standard output. Raises ``HelmError``."""
        own = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in _HOMES}
        if self.kubeconfig:
            own["KUBECONFIG"] = str(self.kubeconfig)
        done = subprocess.run(
            [*self.prefix, self.program, *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **own},
        )
        if done.returncode:
            raise HelmError(done.stderr.strip())
        return done.stdout

    def template(self, chart: Path, namespace: str, values: Mapping[str, Any]) -> str:
        """What ``helm install`` would send."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        version = f"--kube-version={KUBERNETES}"
        return self("template", "holdfast", str(chart), "-n", namespace, version, "-f", str(file))


_HOMES = ("CACHE", "CONFIG", "DATA")


def by_name(text: str) -> Mapping[str, Any]:
    """Kind and name → object, with the YAML inside its texts parsed: blanks and quotes there mean nothing."""
    read = [_inside(one) for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']}/{one['metadata']['name']}".lower(): one for one in read}


def without_namespace(objects: Mapping[str, Any]) -> Mapping[str, Any]:
    """Helm makes the namespace of a release itself."""
    return {name: one for name, one in objects.items() if not name.startswith("namespace/")}


def joined(texts: Sequence[str]) -> str:
    return "\n---\n".join(texts)


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _inside(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_inside(each) for each in value]
    if isinstance(value, str) and value.startswith("cluster: "):
        return _inside(yaml.safe_load(value))
    return value
