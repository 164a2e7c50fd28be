"""A cluster's name is text in every document that holds a configuration, whatever it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.config.schema import load_cluster


@pytest.mark.parametrize("name", ["123", "1e3", "true", "null", "h100-a"])
def test_a_name_that_reads_as_something_else_stays_a_name(name: str, tmp_path: Path) -> None:
    flux = yaml.safe_load(render_text("soperator", cluster=name, **{"as": "flux"}))
    values = yaml.safe_load(flux["data"]["values.yaml"])
    slinky = yaml.safe_load(render_text("slinky", cluster=name, image="a/b:1"))
    for text in (
        render_text("configuration", cluster=name),
        values["slurmScripts"]["extra"]["holdfast.yaml"]["content"],
        slinky["extraObjects"][0]["data"]["holdfast.yaml"],
    ):
        file = tmp_path / "holdfast.yaml"
        file.write_text(text)
        assert load_cluster(file).cluster == name
