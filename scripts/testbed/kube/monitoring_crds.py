"""The CRDs of Prometheus' operator, from its Go module: what a cluster with the operator has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube import go_module
from testbed.kube.programs import locked
from testbed.kube.toolchain import Say

RELEASES: Mapping[str, str] = {
    "0.65.1": "h1:Krj59DoZURZfOKwJdtPssOrk5nN9TWElI0+foGXsesU=",
    "0.85.0": "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
}
"""Release of the operator → checksum of its module, as go.sum has it: one of 2023, and a new one."""

KINDS = ("podmonitors", "servicemonitors", "prometheusrules")

_MODULE = "github.com/prometheus-operator/prometheus-operator"


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
    found = go_module.download(f"{_MODULE}@v{release}", cache, say)
    if found.checksum != wanted:
        raise SandboxError(f"{_MODULE} {release} has the checksum {found.checksum}, not {wanted}")
    return found.folder


def _copy(module: Path, folder: Path) -> None:
    part = folder.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        source = module / "example/prometheus-operator-crd" / f"monitoring.coreos.com_{kind}.yaml"
        (part / f"{kind}.yaml").write_bytes(source.read_bytes())
    part.rename(folder)
