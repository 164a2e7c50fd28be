"""The CRDs of Prometheus' operator, from its Go module: what a cluster with the operator has."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.programs import go_env, locked
from testbed.kube.toolchain import Say, find_go

RELEASES: Mapping[str, str] = {
    "0.65.1": "h1:Krj59DoZURZfOKwJdtPssOrk5nN9TWElI0+foGXsesU=",
    "0.85.0": "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
}
"""Release of the operator → checksum of its module, as go.sum has it: one of 2023, and a new one."""

KINDS = ("podmonitors", "servicemonitors", "prometheusrules")

_MODULE = "github.com/prometheus-operator/prometheus-operator"
_GO = (1, 22)


def monitoring_crds(release: str, cache: Path, say: Say) -> list[Path]:
    """The files of ``KINDS``, one CustomResourceDefinition each; downloaded once (3 MB).

    Raises ``SandboxError`` where the module cannot be downloaded, or has another content.
    """
    wanted = RELEASES[release]
    folder = cache / "prometheus" / f"crds-{release}"
    with locked(cache / "prometheus" / "crds.lock", say):
        if not folder.is_dir():
            _copy(_download(release, wanted, cache, say), folder)
    return [folder / f"{kind}.yaml" for kind in KINDS]


def _download(release: str, wanted: str, cache: Path, say: Say) -> Path:
    argv = [str(find_go(cache / "kube", _GO, say)), "mod", "download", "-json"]
    # Outside of any module: no go.mod is read or changed.
    done = subprocess.run(
        [*argv, f"{_MODULE}@v{release}"],
        cwd="/",
        env=go_env(os.environ, None),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(f"go mod download: {(done.stdout + done.stderr).strip()[-400:]}")
    answer = json.loads(done.stdout)
    if answer["Sum"] != wanted:
        raise SandboxError(f"{_MODULE} {release} has the checksum {answer['Sum']}, not {wanted}")
    return Path(answer["Dir"])


def _copy(module: Path, folder: Path) -> None:
    part = folder.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        source = module / "example/prometheus-operator-crd" / f"monitoring.coreos.com_{kind}.yaml"
        (part / f"{kind}.yaml").write_bytes(source.read_bytes())
    part.rename(folder)
