"""The scripts, run by a user who is not root, in a new checkout of another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """A checkout without an environment, read-only for everyone."""
    # Not under tmp_path, which only its owner can enter.
    tree = Path(tempfile.mkdtemp(prefix="holdfast-checkout-"))
    no_cache = shutil.ignore_patterns("__pycache__")
    for name in ("scripts", "holdfast", "slurm_hooks", "k8s_bridge"):
        shutil.copytree(TREE / name, tree / name, ignore=no_cache)
    shutil.copy(TREE / "requirements.lock", tree)
    # A checkout with umask 077 is readable by its owner only.
    subprocess.run(["chmod", "-R", "a+rX", str(tree)], check=True)
    tree.chmod(0o555)
    yield tree
    tree.chmod(0o755)
    shutil.rmtree(tree)


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    argv = [*(nobody if os.geteuid() == 0 else []), f"scripts/{words[0]}", *words[1:]]
    env = {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        "demo",
        "bench prolog",
        "test e2e",
        "test fresh",
        "sandbox up",
        "sandbox exec worker-0 -- holdfast check --help",
    ],
)
def test_root_is_required_before_any_set_up(checkout: Path, words: str) -> None:
    done = run(checkout, *words.split())
    assert done.returncode == 2
    assert "needs root" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (checkout / ".cache").exists()


@pytest.mark.parametrize(
    "words", ["demo --help", "bench --help", "test --help", "sandbox --help", "sandbox up --help"]
)
def test_help_needs_neither_root_nor_an_environment(checkout: Path, words: str) -> None:
    done = run(checkout, *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert "scripts/" in done.stdout or "--nodes" in done.stdout


def test_a_user_without_write_access_gets_one_line_with_the_remedy(checkout: Path) -> None:
    done = run(checkout, "test", "unit")
    assert done.returncode == 2
    assert f"Cannot write in {checkout}" in done.stderr
    assert "in your own clone" in done.stderr
    assert done.stderr.count("\n") == 1
