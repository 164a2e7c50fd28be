"""CONTRIBUTING's page on a new check, followed to the letter in a copy of the tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]
PAGE = (TREE / "CONTRIBUTING.md").read_text()
PART = PAGE.partition("\n## Add a check\n")[2].partition("\n## ")[0]
BLOCKS = [text for _, text in re.findall(r"```(\w+)\n(.*?)```", PART, re.DOTALL)]
MODULE, ROW, FAULT, TEST, SWITCH, SEE = BLOCKS
ITS_TEST = "tests/unit/slurm_hooks/checks/test_uptime.py"
TABLES = "tests/unit/scripts/testbed/test_detection_table.py"
PYTHON = sys.executable


def run(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, *argv], cwd=tree, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy, with the six blocks typed in."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("holdfast", "slurm_hooks", "k8s_bridge", "scripts/testbed"):
        shutil.copytree(TREE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    kept = ("tests/e2e/detection/switches.py", "tests/e2e/detection/table.py", TABLES)
    for name in ("pyproject.toml", *kept):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, copy / name)
    (copy / "slurm_hooks/checks/uptime.py").write_text(MODULE)
    catalogue = copy / "slurm_hooks/checks/__init__.py"
    before, brace, after = catalogue.read_text().partition("\n}\n")
    catalogue.write_text(f"{before}\n{ROW.rstrip()}{brace}{after}")
    faults = copy / "holdfast/faults/host.py"
    before, end, after = faults.read_text().rpartition("\n)")
    faults.write_text(f"{before}\n{FAULT.rstrip()}{end}{after}")
    switches = copy / "tests/e2e/detection/switches.py"
    before, brace, after = switches.read_text().rpartition("\n}\n")
    switches.write_text(f"{before}\n{SWITCH.rstrip()}{brace}{after}")
    (copy / ITS_TEST).parent.mkdir(parents=True)
    (copy / ITS_TEST).write_text(TEST)
    return copy


def test_its_test_and_that_of_the_sandboxs_tables_pass(tree: Path) -> None:
    done = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", ITS_TEST, TABLES)
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 5


def test_its_limits_are_configuration_at_once_typos_included(tree: Path) -> None:
    (told,) = re.findall(r"`(checks: \{uptime: .*\}\}\})`", PART)
    good, bad = tree / "good.yaml", tree / "bad.yaml"
    good.write_text(told + "\n")
    bad.write_text("checks: {uptime: {limits: {max_days: 0}}}\n")
    assert run(tree, "-m", "holdfast", "config", "check", str(good)).returncode == 0
    done = run(tree, "-m", "holdfast", "config", "check", str(bad))
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "bad.yaml:1: checks.uptime.limits.max_days: must be between 1 and 3650, got 0" in said


def test_its_fault_has_a_runbook(tree: Path) -> None:
    done = run(tree, "-m", "holdfast", "faults", "UPTIME_LONG")
    assert done.returncode == 0, done.stderr
    assert "next maintenance" in " ".join(done.stdout.split())


def test_it_is_written_as_the_rest_is(tree: Path) -> None:
    if not shutil.which("ruff", path=str(Path(PYTHON).parent)):
        pytest.skip("ruff is not here")
    ruff = str(Path(PYTHON).parent / "ruff")
    for words in (["format", "--check"], ["check"]):
        argv = [ruff, *words, "slurm_hooks/checks/uptime.py", ITS_TEST]
        if words == ["check"]:
            argv.insert(2, "--ignore=S101")  # asserts belong in tests; this copy lies elsewhere
        done = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_of_the_last_step_exist() -> None:
    for line in SEE.splitlines():
        assert (TREE / line.split()[0]).is_file(), line
