"""kubeconform takes every object, by the schemas of Kubernetes releases that do not run here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages.helm.openapi import OPENAPI, SCHEMA_FILES, openapi, write_schemas
from testbed.paths import cache

from holdfast.cli.commands.render import render_text
from tests.packages.helm import Helm
from tests.packages.test_chart import EVERYTHING, IMAGE, MUNGE, PYSLURM

OTHER_PROJECTS = {"PodMonitor", "PrometheusRule"}


@pytest.fixture(params=OPENAPI)
def schemas(request: pytest.FixtureRequest) -> Path:
    found = openapi(request.param, cache())
    if found is None:
        pytest.skip("no OpenAPI in the cache: run scripts/package programs once")
    return found


def judged(kubeconform: Path, schemas: Path, objects: list[Any], folder: Path) -> dict[str, str]:
    """Name of each object → what kubeconform says; empty: valid."""
    unknown = write_schemas(schemas, objects, folder)
    assert unknown <= OTHER_PROJECTS
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    argv = [str(kubeconform), "-output=json", "-verbose", f"-skip={','.join(OTHER_PROJECTS)}"]
    argv += [f"-schema-location={folder}/{SCHEMA_FILES}", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    rows = json.loads(done.stdout)["resources"]
    return {f"{row['kind']}/{row['name']}": row["msg"] for row in rows}


@pytest.mark.parametrize("values", [EVERYTHING, MUNGE, PYSLURM], ids=["all", "munge", "slurm"])
def test_the_charts_objects(
    helm: Helm,
    chart: Path,
    kubeconform: Path,
    schemas: Path,
    tmp_path: Path,
    values: dict[str, Any],
) -> None:
    objects = [*yaml.safe_load_all(helm.template(chart, "slurm", values))]
    answers = judged(kubeconform, schemas, objects, tmp_path)
    assert len(answers) == len(objects)
    assert {name: text for name, text in answers.items() if text} == {}


@pytest.mark.parametrize("auth", ["munge", "slurm"])
def test_the_cronjob(kubeconform: Path, schemas: Path, tmp_path: Path, auth: str) -> None:
    """It is the only object of `holdfast render` that the chart lacks."""
    image = "registry.example.org/holdfast:1"
    text = render_text("inspection-cronjob", image=image, auth=auth)
    objects = [one for one in yaml.safe_load_all(text) if one]
    answers = judged(kubeconform, schemas, objects, tmp_path)
    assert "CronJob/holdfast-inspection" in answers
    assert set(answers.values()) == {""}


@pytest.mark.parametrize(
    ("right", "wrong"), [("replicas: 1", "replicas: many"), ("replicas:", "replicaz:")]
)
def test_a_wrong_object_is_found(
    kubeconform: Path, schemas: Path, tmp_path: Path, right: str, wrong: str
) -> None:
    """Otherwise the tests here would accept anything."""
    text = render_text("deployment", image=IMAGE).replace(right, wrong)
    answers = judged(kubeconform, schemas, [*yaml.safe_load_all(text)], tmp_path)
    assert "replica" in answers["Deployment/holdfast-bridge"]
    assert answers["ConfigMap/holdfast-bridge"] == ""
