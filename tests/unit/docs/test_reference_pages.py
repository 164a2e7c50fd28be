"""The reference pages say what the code says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from reference.configuration import all_keys
from reference.pages import FOLDER, PAGES, stale
from reference.schema import UNITS, keys_of

from holdfast.cli.main import COMMANDS, main
from holdfast.config.load import check
from holdfast.config.sections import SECTIONS, schema_of

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def test_generated_pages_are_what_the_code_says() -> None:
    assert stale() == [], "run scripts/docs_reference"


def test_a_page_that_was_edited_by_hand_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.pages.FOLDER", tmp_path)
    for name, made in PAGES.items():
        (tmp_path / name).write_text(made() + ("more\n" if name == "faults.md" else ""))
    assert stale() == ["faults.md"]


def test_every_documented_key_is_taken_with_its_documented_default(tmp_path: Path) -> None:
    page = (FOLDER / "configuration.md").read_text()
    key = r"\[?`([a-z0-9_.]+)`(?:\]\([a-z0-9_.#]+\))?"
    rows = re.findall(rf"^\| {key} \|[^|]*\|[^|]*\| `([^`]*)` \|", page, re.MULTILINE)
    assert {path for path, _ in rows} == {key.path for key in all_keys()}
    assert _problems(tmp_path, rows) == []


def test_a_key_beside_the_documented_ones_is_refused(tmp_path: Path) -> None:
    assert (
        len(_problems(tmp_path, [("agent.interval", "1"), ("checks.mounts.limits.no", "1")])) == 2
    )


def test_documented_ranges_are_those_that_hold(tmp_path: Path) -> None:
    between = re.compile(r"between (\S+) and (-?\d[^;,\s]*)")
    bounded = [(key, match) for key in all_keys() if (match := between.search(key.allowed))]
    assert len(bounded) > 20
    rows = []
    for key, match in bounded:
        past = float(match[2]) * 2 + 1
        rows.append((key.path, str(past) if key.kind.startswith("number") else str(int(past))))
    told = _problems(tmp_path, rows)  # all at once: a file's problems do not hide one another
    silent = [path for path, _ in rows if not any(f" {path}: " in problem for problem in told)]
    # What a dataclass itself refuses hides its other limits: those are asked about one by one.
    for path in silent:
        assert _problems(tmp_path, [row for row in rows if row[0] == path]), path


def test_every_number_of_the_agents_timing_has_a_unit() -> None:
    numbers = [key for key in keys_of(schema_of("agent"), "agent") if key.kind.endswith("number")]
    assert {key.unit for key in numbers if not key.path.endswith("port")} <= set(UNITS.values())


def test_each_command_has_its_section() -> None:
    assert sorted(_sections()) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_names_exactly_the_options_of_its_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    help_texts = ""
    for words in [[name, "--help"], *([[name, "check", "--help"]] if name == "config" else [])]:
        assert main(words) == 0
        help_texts += capsys.readouterr().out
    table = "\n".join(line for line in _sections()[name].splitlines() if line.startswith("| `--"))
    assert (
        set(_OPTION.findall(table)) == set(_OPTION.findall(help_texts)) - {"--help"} - _IN_EXAMPLES
    )


_IN_EXAMPLES = {"--requeue"}
"""Options of other programs that a help text shows."""


def _sections() -> Mapping[str, str]:
    page = (FOLDER / "commands.md").read_text()
    parts = re.split(r"^## holdfast ([a-z-]+)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _problems(folder: Path, rows: list[tuple[str, str]]) -> list[str]:
    path = folder / "holdfast.yaml"
    path.write_text(_yaml(rows))
    return check(path, {name: schema_of(name) for name in SECTIONS})


def _yaml(rows: list[tuple[str, str]]) -> str:
    tree: dict[str, Any] = {}
    for path, value in rows:
        *folders, name = path.split(".")
        level = tree
        for folder in folders:
            level = level.setdefault(folder, {})
        level[name] = value
    return "\n".join(_lines(tree, ""))


def _lines(tree: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines
