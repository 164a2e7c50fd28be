"""Decision 29: a folder has few files, and the unit tests are in the folders of the code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TREE = Path(__file__).parents[2]
CODE = ("holdfast", "slurm_hooks", "k8s_bridge", "scripts")
MOST = 12
CATALOGUES = frozenset(
    {"slurm_hooks/checks", "slurm_hooks/probes", "slurm_hooks/job/checkpoints/frameworks"}
)
WITHOUT_CODE = frozenset({"property"})
"""Tests of rules that hold in many parts."""


def _modules(top: str) -> list[str]:
    return [str(path.relative_to(TREE)) for path in (TREE / top).rglob("*.py")]


def test_a_folder_that_is_no_catalogue_has_at_most_12_files() -> None:
    folders = Counter(str(Path(name).parent) for top in (*CODE, "tests") for name in _modules(top))
    assert len(folders) > 100
    large = {folder for folder, count in folders.items() if count > MOST}
    assert large == CATALOGUES


def test_unit_tests_are_in_the_folders_of_the_code() -> None:
    unit = TREE / "tests/unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert len(folders) > 50
    assert {str(folder) for folder in folders if not (TREE / folder).is_dir()} == WITHOUT_CODE
