"""Runs a target's tests with each of its mutants, in a copy of the working tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.rootfs import pinned_venv

from mutants.declarations import lines_that_decide
from mutants.mutant import Mutant
from mutants.shell import mutations
from mutants.target import Target

TIMEOUT_S = 120.0
"""Shortest time limit for the tests of one mutant; a mutant that makes them hang counts as detected."""
_TIMES_AS_LONG = 10
"""The limit on a busy machine, in times that the tests took without a mutant."""

_EQUIVALENT = (
    # `|` occurs only in annotations of these files, and `is` only with None and enum members;
    # `<` for `==` is worse than `<=`, which remains
    "core/ReplaceBinaryOperator_BitOr_.*",
    "core/ReplaceBinaryOperator_.*_(Pow|RShift|LShift|BitXor|FloorDiv|Mod|Div|BitAnd|BitOr)",
    "core/ReplaceComparisonOperator_Is_(Eq|NotEq|Lt|LtE|Gt|GtE)",
    "core/ReplaceComparisonOperator_IsNot_(Eq|NotEq|Lt|LtE|Gt|GtE)",
    "core/ReplaceComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE)_Is",
    "core/ReplaceComparisonOperator_Eq_(Lt|Gt)$",
    "core/ReplaceComparisonOperator_NotEq_(LtE|GtE)",
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
    begin = time.monotonic()
    if not _pass(target, tree, _environment(tree, keep_bytecode=True), 10 * TIMEOUT_S):
        raise SandboxError(
            f"{target.file}: its tests fail without a mutant: {' '.join(target.tests)}"
        )
    path = tree / target.file
    for outdated in path.parent.glob(f"__pycache__/{path.stem}.*"):
        outdated.unlink()
    limit_s = max(TIMEOUT_S, _TIMES_AS_LONG * (time.monotonic() - begin))
    if target.is_shell:
        yield from _shell(target, tree, limit_s)
    else:
        yield from _python(target, tree, limit_s, say)


def _pytest(target: Target) -> list[str]:
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    return [sys.executable, "-m", "pytest", *options, *target.tests]


def _environment(tree: Path, *, keep_bytecode: bool = False) -> dict[str, str]:
    """Python compares the time of a file in seconds, so it must not keep the bytecode of a mutant."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'scripts'}"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment if keep_bytecode else {**environment, "PYTHONDONTWRITEBYTECODE": "1"}


def _pass(target: Target, tree: Path, environment: dict[str, str], limit_s: float) -> bool:
    try:
        done = subprocess.run(
            _pytest(target), cwd=tree, env=environment, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _shell(target: Target, tree: Path, limit_s: float) -> Iterator[Mutant]:
    path = tree / target.file
    text = path.read_text()
    lines = text.splitlines()
    for index, changed in mutations(text):
        path.write_text("\n".join([*lines[:index], changed, *lines[index + 1 :]]) + "\n")
        survived = _pass(target, tree, _environment(tree), limit_s)
        yield Mutant(
            file=target.file,
            line=index + 1,
            before=lines[index].strip(),
            after=changed.strip(),
            survived=survived,
        )
    path.write_text(text)


def _python(
    target: Target, tree: Path, limit_s: float, say: Callable[[str], None]
) -> Iterator[Mutant]:
    programs = (
        pinned_venv.make(Path(__file__).with_name("cosmic_ray.lock"), cache() / "mutants", say)
        / "bin"
    )
    config, session = tree / "mutants.toml", tree / "mutants.sqlite"
    lines = lines_that_decide((tree / target.file).read_text())
    config.write_text(
        "[cosmic-ray]\n"
        f"module-path = {json.dumps(target.file)}\n"
        f"timeout = {limit_s}\n"
        "excluded-modules = []\n"
        f"test-command = {json.dumps(' '.join(_pytest(target)))}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = {json.dumps(_EQUIVALENT)}\n"
        f"[cosmic-ray.filters.line-filter.lines]\n{json.dumps(target.file)} = {json.dumps(lines)}\n"
    )
    for words in (
        ("cosmic-ray", "init", config.name, session.name),
        ("cr-filter-operators", session.name, config.name),
        ("cr-filter-lines", "--config", config.name, session.name),
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
