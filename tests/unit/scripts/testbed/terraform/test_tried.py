"""The record of other releases of Terraform is about today's terraform/."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from testbed.paths import TREE
from testbed.terraform import RELEASES
from testbed.terraform.programs import OLDEST
from testbed.terraform.tried import COMMAND, RECORD, digests, not_tried

MAIN = "terraform/modules/slurm/main.tf"
TEMPLATE = "terraform/modules/slurm/slurm.conf.tftpl"


def recorded() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(RECORD.read_text())
    return read


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(TREE / "terraform", tmp_path / "terraform")
    return tmp_path


def test_the_record_is_about_todays_files() -> None:
    assert not_tried(recorded()["files"]) == []


def test_the_oldest_terraform_and_opentofu_ran_the_tests() -> None:
    programs = recorded()["programs"]
    assert programs.keys() == RELEASES.keys() == {"terraform", "tofu"}
    for name, release in RELEASES.items():
        assert programs[name]["version"] == release.version
        assert programs[name]["tests"] >= 70
    oldest = ".".join(map(str, OLDEST))
    assert RELEASES["terraform"].version.startswith(f"{oldest}.")


@pytest.mark.parametrize("name", [MAIN, TEMPLATE])
def test_a_change_of_the_language_is_found(tree: Path, name: str) -> None:
    before = digests(tree)
    file = tree / name
    file.write_text(file.read_text() + 'x = "${provider::a::b()}"\n')
    (line,) = not_tried(before, tree)
    assert line.startswith(f"{name} was not tried with terraform ")
    assert line.endswith(f": run {COMMAND}")


def test_new_and_removed_files_are_found(tree: Path) -> None:
    before = digests(tree)
    (tree / MAIN).rename(tree / "terraform/modules/slurm/new.tf")
    assert [line.split()[0] for line in not_tried(before, tree)] == [
        MAIN,
        "terraform/modules/slurm/new.tf",
    ]


def test_texts_for_people_are_no_change(tree: Path) -> None:
    before = digests(tree)
    file = tree / MAIN
    file.write_text(f'# A comment.\n\n  description = "Another."\n{file.read_text()}')
    template = tree / TEMPLATE
    template.write_text(f"# A line of slurm.conf.\n{template.read_text()}")
    assert not_tried(before, tree) == []
