"""Runs a target's tests with each of its mutants, in a copy of the working tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.rootfs import pinned_venv

from mutants.mutant import Mutant
from mutants.shell import mutations
from mutants.target import Target

TIMEOUT_S = 120.0
"""Time limit for the tests of one mutant; a mutant that makes them hang counts as detected."""

_EQUIVALENT = (
    # `|` occurs only in annotations of these files, and `is` only with None and enum members
    "core/ReplaceBinaryOperator_BitOr_.*",
    "core/ReplaceBinaryOperator_.*_(Pow|RShift|LShift|BitXor|FloorDiv|Mod|Div|BitAnd|BitOr)",
    "core/ReplaceComparisonOperator_Is_(Eq|NotEq|Lt|LtE|Gt|GtE)",
    "core/ReplaceComparisonOperator_IsNot_(Eq|NotEq|Lt|LtE|Gt|GtE)",
    "core/ReplaceComparisonOperator_Eq_(Is|Lt|LtE|Gt|GtE)",
    "core/ReplaceComparisonOperator_NotEq_(IsNot|Lt|LtE|Gt|GtE)",
)
"""Operators that change nothing here, or repeat another one."""


def copy_tree(folder: Path) -> None:
    """Copy the files that git tracks or would add, in their current state."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=TREE, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source = TREE / name
        if source.is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def mutants_of(target: Target, tree: Path, say: Callable[[str], None]) -> Iterator[Mutant]:
    """Every mutant of the target with its test result; ``tree`` is a copy of the working tree.

    Raises ``SandboxError`` when the tests fail without any mutant.
    """
    if not _pass(target, tree):
        raise SandboxError(
            f"{target.file}: its tests fail without a mutant: {' '.join(target.tests)}"
        )
    yield from (_shell if target.is_shell else _python)(target, tree, say)


def _pytest(target: Target) -> list[str]:
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *options, *target.tests]


def _environment(tree: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{tree}:{tree / 'scripts'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_SEED": "0",
    }


def _pass(target: Target, tree: Path) -> bool:
    try:
        done = subprocess.run(
            _pytest(target), cwd=tree, env=_environment(tree), capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _shell(target: Target, tree: Path, _say: Callable[[str], None]) -> Iterator[Mutant]:
    path = tree / target.file
    text = path.read_text()
    lines = text.splitlines()
    for index, changed in mutations(text):
        path.write_text("\n".join([*lines[:index], changed, *lines[index + 1 :]]) + "\n")
        survived = _pass(target, tree)
        yield Mutant(
            file=target.file,
            line=index + 1,
            before=lines[index].strip(),
            after=changed.strip(),
            survived=survived,
        )
    path.write_text(text)


def _python(target: Target, tree: Path, say: Callable[[str], None]) -> Iterator[Mutant]:
    programs = (
        pinned_venv.make(Path(__file__).with_name("cosmic_ray.lock"), cache() / "mutants", say)
        / "bin"
    )
    config, session = tree / "mutants.toml", tree / "mutants.sqlite"
    config.write_text(
        "[cosmic-ray]\n"
        f"module-path = {json.dumps(target.file)}\n"
        f"timeout = {TIMEOUT_S}\n"
        "excluded-modules = []\n"
        f"test-command = {json.dumps(' '.join(_pytest(target)))}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = {json.dumps(_EQUIVALENT)}\n"
    )
    for words in (
        ("cosmic-ray", "init", config.name, session.name),
        ("cr-filter-operators", session.name, config.name),
        ("cosmic-ray", "exec", config.name, session.name),
    ):
        _cosmic_ray([str(programs / words[0]), *words[1:]], tree)
    dump = _cosmic_ray([str(programs / "cosmic-ray"), "dump", session.name], tree)
    for row in dump.splitlines():
        item, result = json.loads(row)
        if result is not None and result["worker_outcome"] == "normal":
            yield _from_diff(target.file, item, result)


def _cosmic_ray(argv: list[str], tree: Path) -> str:
    """Run a command of cosmic-ray, which limits the time of each mutant. Raises ``SandboxError``."""
    done = subprocess.run(
        argv, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SandboxError(f"{Path(argv[0]).name} {argv[1]} failed: {done.stderr[-400:]}")
    return done.stdout


def _from_diff(file: str, item: dict[str, Any], result: dict[str, Any]) -> Mutant:
    changed = [
        line for line in str(result["diff"]).splitlines() if re.match(r"[-+](?![-+]{2})", line)
    ]
    return Mutant(
        file=file,
        line=item["mutations"][0]["start_pos"][0],
        before=" ".join(line[1:].strip() for line in changed if line[0] == "-"),
        after=" ".join(line[1:].strip() for line in changed if line[0] == "+"),
        survived=result["test_outcome"] == "survived",
    )
