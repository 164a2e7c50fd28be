"""What tflint finds in ``terraform/``: its rules for Terraform's language, which need no download."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from testbed.paths import cache
from testbed.terraform import TFLINT

from tests.terraform.program import copy_tree

CONFIG = ".tflint.hcl"


@pytest.fixture(scope="module")
def tflint() -> Path:
    if not TFLINT.is_built(cache()):
        pytest.skip("tflint is not built: run scripts/terraform once (about 2 minutes)")
    return TFLINT.path(cache())


def findings(program: Path, tree: Path) -> list[str]:
    """One line for each finding in the tree."""
    done = subprocess.run(
        [program, "--recursive", "--format=compact", "--no-color", f"--config={tree / CONFIG}"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ".tf:" in line]


def test_there_are_no_findings(tflint: Path, tmp_path: Path) -> None:
    assert not findings(tflint, copy_tree(tmp_path))


def test_what_is_wrong_is_found_in_every_module(tflint: Path, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    folders = {path.parent for path in tree.rglob("*.tf")}
    for folder in folders:
        (folder / "wrong.tf").write_text("locals {\n  unused = 1\n}\n")
    found = findings(tflint, tree)
    assert all(line.endswith("(terraform_unused_declarations)") for line in found), found
    assert {(tree / line.partition(":")[0]).parent for line in found} == folders
