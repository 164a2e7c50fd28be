"""The generated files of ``terraform/``, and whether those in the tree match the templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tftemplates import documents

FOLDER = Path(__file__).resolve().parents[2] / "terraform"

GENERATED = ("modules/**/*.tftpl", "modules/**/*.json")
"""Patterns of generated files: a file that matches and is not generated any more is removed."""


def generated() -> Mapping[str, str]:
    """Path below ``terraform/`` and text of every generated file."""
    files = {path: text for source in documents.OBJECTS for path, text in documents.objects(source)}
    files[f"{documents.CLUSTER}/agent.sh.tftpl"] = documents.agent_script()
    files[f"{documents.CLUSTER}/names.json"] = documents.cluster_names()
    files["modules/configuration/catalogue.json"] = documents.catalogue()
    files["modules/soperator/values/slurm-cluster.yaml.tftpl"] = documents.soperator_values()
    return {**files, **dict(documents.texts())}


def stale(folder: Path = FOLDER) -> list[str]:
    """Paths of files that are missing, differ from what is generated, or are not generated."""
    wanted = generated()
    differ = [path for path, text in wanted.items() if _text(folder / path) != text]
    there = {path for pattern in GENERATED for path in folder.glob(pattern)}
    extra = {str(path.relative_to(folder)) for path in there} - wanted.keys()
    return sorted({*differ, *extra})


def write(folder: Path = FOLDER) -> list[str]:
    """Writes what is stale; returns those paths."""
    wanted, old = generated(), stale(folder)
    for name in old:
        path = folder / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()
    return old


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
