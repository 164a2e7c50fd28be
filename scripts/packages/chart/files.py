"""The files of the chart, as a folder and as an archive that is the same for the same tree."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from holdfast.version import VERSION
from packages.chart.templates import agent_script, checks, manifests, tables
from packages.chart.values import schema, values_yaml

NAME = "holdfast"
OLDEST_KUBERNETES = "1.30.0"
"""Older versions have no ValidatingAdmissionPolicy of version v1."""

_STATIC = Path(__file__).parent / "files"

_CHART = f"""\
apiVersion: v2
name: {NAME}
description: Keeps Slurm's and Kubernetes' node states consistent, and drains faulty GPU nodes
type: application
version: {VERSION}
appVersion: "{VERSION}"
kubeVersion: ">= {OLDEST_KUBERNETES}-0"
"""


def files() -> Mapping[str, str]:
    """Path in the chart's folder and text of every file."""
    made = {
        "Chart.yaml": _CHART,
        "values.yaml": values_yaml(),
        "values.schema.json": json.dumps(schema(), indent=1, ensure_ascii=False) + "\n",
        "templates/_agent.tpl": agent_script(),
        "templates/_checks.tpl": checks() + tables(),
        **{f"templates/{name}": text for name, text in manifests()},
    }
    written = {
        str(path.relative_to(_STATIC)): path.read_text(encoding="utf-8")
        for path in _STATIC.rglob("*")
        if path.is_file()
    }
    return dict(sorted({**made, **written}.items()))


def write_folder(folder: Path) -> None:
    """Writes the chart into ``folder``."""
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_archive(target: Path) -> None:
    """Writes the archive that ``helm install`` takes: no times, no owners, files in order."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, text in files().items():
            content = text.encode()
            info = tarfile.TarInfo(f"{NAME}/{name}")
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed.getvalue())
