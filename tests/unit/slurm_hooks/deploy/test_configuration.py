"""The first holdfast.yaml: valid, and no check of the catalogue forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from holdfast.cli.commands.config import main as config_command
from holdfast.cli.commands.render import render_text
from holdfast.config.schema import load_cluster
from slurm_hooks.checks import CATALOGUE
from slurm_hooks.deploy.configuration import first_sentence


def test_every_check_is_named_and_only_observes(tmp_path: Path) -> None:
    text = render_text("configuration", cluster="c1", gpus="4", mounts="/mnt/a,/mnt/b")
    read = yaml.safe_load(text)
    assert read["checks"] == {name: {"mode": "observe"} for name in CATALOGUE}
    assert read["node"]["mounts"] == ["/mnt/a", "/mnt/b"]
    assert (read["cluster"], read["node"]["expected_gpus"]) == ("c1", 4)
    file = tmp_path / "holdfast.yaml"
    file.write_text(text)
    assert config_command(["check", str(file)]) == 0
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ({}, {"nvswitches": 4}),
        ({"gpus": "4"}, None),
        ({"nvswitches": "0"}, None),
        ({"gpus": "4", "nvswitches": "2"}, {"nvswitches": 2}),
    ],
)
def test_a_new_node_is_told_how_many_nvswitches_it_must_have(
    tmp_path: Path, said: dict[str, str], limits: dict[str, int] | None
) -> None:
    """What was never there cannot be missed by itself."""
    text = render_text("configuration", **said)
    assert yaml.safe_load(text)["checks"]["pci_devices"].get("limits") == limits
    file = tmp_path / "holdfast.yaml"
    file.write_text(text)
    assert config_command(["check", str(file)]) == 0
    assert max(map(len, text.splitlines())) <= 100


def test_the_history_goes_to_the_shared_folder_that_is_told(tmp_path: Path) -> None:
    for document, folder in (
        ("configuration", "/mnt/training/holdfast-history"),
        ("configuration", ""),
    ):
        text = render_text(document, history=folder)
        file = tmp_path / "holdfast.yaml"
        file.write_text(text)
        found = load_cluster(file).paths.history
        assert found == (Path(folder) if folder else None)
        assert "# paths: {history" not in text or not folder


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        ("One. Two.", "One"),
        ("A mount: slow.\n\nMore.", "A mount"),
        ("Of\n   two lines", "Of two lines"),
        ("", ""),
    ],
)
def test_a_check_is_told_in_its_first_sentence(doc: str, said: str) -> None:
    assert first_sentence(doc) == said
