"""The program: its messages, its exit statuses, and its imports at start."""

from __future__ import annotations

import ast
import importlib
import os
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.config.sections import SECTIONS
from holdfast.errors import ConfigError, Refused, UsageError
from holdfast.version import VERSION

ROOT = Path(__file__).parents[4]


def test_every_command_leads_to_a_function() -> None:
    for command in main.COMMANDS.values():
        module, _, function = command.target.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), command.target


def test_every_section_of_the_configuration_has_a_schema() -> None:
    for target in SECTIONS.values():
        module, _, name = target.partition(":")
        assert hasattr(importlib.import_module(module), name), target


@pytest.mark.parametrize("name", ["explain", "nodes", "faults", "config", "config check"])
def test_help_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*name.split(), "--help"]) == 0
    assert "example" in capsys.readouterr().out


def test_options_cannot_be_abbreviated() -> None:
    """A new option could change the meaning of an abbreviation; a misspelt one must not match another."""
    calls = [
        (file, ast.unparse(call))
        for folder in ("holdfast", "slurm_hooks", "k8s_bridge", "scripts")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if "argparse" in (text := file.read_text()) or "import Parser" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("Parser", ".add_parser"))
    ]
    assert len(calls) > 15
    assert [call for call in calls if "allow_abbrev=False" not in call[1]] == []


def test_without_arguments_the_commands_are_shown_and_the_status_is_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main([]) == 2
    assert main.main(["--help"]) == 0
    page = capsys.readouterr().out
    assert all(name in page for name in main.COMMANDS)


def test_the_version_is_the_projects() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explian", "worker-1"]) == 2
    assert "did you mean 'explain'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ConfigError("f.yaml:1: a\nf.yaml:2: b"), 2, "holdfast x: f.yaml:2: b"),
        (UsageError("no such folder"), 2, "holdfast x: no such folder"),
        (Refused(["scontrol"], "no"), 1, "holdfast x: scontrol: no"),
        (KeyError("oops"), 1, "internal error: KeyError: 'oops'"),
        (SystemExit(2), 2, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_are_lines_and_statuses(
    error: BaseException,
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: list[str]) -> int:
        raise error

    module = types.ModuleType("failing")
    module.main = fails  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "failing", module)
    monkeypatch.setitem(
        main.COMMANDS,
        "x",
        main.Command("failing:main", ""),
    )
    assert main.main(["x"]) == status
    output = capsys.readouterr().err
    assert message in output
    assert "Traceback" not in output


def python(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout


def test_the_program_starts_light() -> None:
    loaded = python("import holdfast.cli.main, sys; print(*sys.modules)").split()
    heavy = {"yaml", "kubernetes", "pynvml", "jinja2", "asyncio", "slurm_hooks", "k8s_bridge"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize(
    "module",
    [
        "slurm_hooks.agent.main",
        "slurm_hooks.hooks.decision",
        "slurm_hooks.job.launcher.command",
        "slurm_hooks.cli.check.command",
        "slurm_hooks.active.command",
        "k8s_bridge.main",
    ],
)
def test_only_render_imports_jinja2(module: str) -> None:
    loaded = set(python(f"import {module}, sys; print(*sys.modules)").split())
    assert module in loaded
    assert not {"jinja2", "markupsafe", "holdfast.render.templates"} & loaded


def test_a_missing_configuration_needs_no_yaml() -> None:
    code = (
        "from pathlib import Path; from holdfast.config.schema import load_cluster; import sys;"
        "load_cluster(Path('/nonexistent/holdfast.yaml')); print('yaml' in sys.modules)"
    )
    assert python(code) == "False\n"


def test_a_closed_pipe_is_not_an_error() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = f"{shlex.quote(sys.executable)} -m holdfast faults --json | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", argv], capture_output=True, text=True, check=False, env=env
    )
    assert done.stdout == "[\n"
    assert done.stderr == ""
