"""The pages that people read: links lead somewhere, and files that a page names exist."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from testbed import cli, faults

from holdfast.cli.commands.render import document
from holdfast.cli.main import COMMANDS, main

TREE = Path(__file__).parents[3]
PAGES = sorted([*TREE.glob("*.md"), *(TREE / "docs").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(#[^)\s]+)?\)")


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
    for file, anchor in _LINK.findall(page.read_text()):
        if file.startswith("http"):
            continue
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        if anchor:
            assert anchor[1:] in _anchors(target), (file, anchor)


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (TREE / "docs/reference/security.md").read_text()
    names = set(re.findall(r"`(\w+/[\w/]*test_\w+\.py)`", text))
    assert len(names) > 30
    assert [name for name in sorted(names) if not (TREE / "tests" / name).is_file()] == []


def test_decisions_are_numbered_without_gaps_and_titled_alike() -> None:
    pages = sorted((TREE / "docs/decisions").glob("*.md"))
    assert [int(page.name[:3]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert page.read_text().startswith(f"# {int(page.name[:3])}. "), page.name


def _commands(program: str) -> list[tuple[str, list[str]]]:
    """(page, words) of each command of ``program`` in a shell block of README.md and docs/howto."""
    found = []
    for page in (TREE / "README.md", *sorted((TREE / "docs/howto").glob("*.md"))):
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            for part in re.split(r" -- | \| |\$\(|; ", line.partition(" #")[0]):
                words = re.split(r"[<>]", part)[0].split()
                words = [word.rstrip("…)\"'") for word in words if word not in ("sudo", "…")]
                if words[:1] == [program]:
                    found.append((page.name, words[1:]))
    return found


def test_every_command_on_a_page_is_one_that_holdfast_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = _commands("holdfast")
    assert len(commands) > 40
    assert len({page for page, _ in commands}) > 5
    for page, (name, *words) in commands:
        assert name in COMMANDS, (page, name)
        help_words = [name, "check"] if name == "config" else [name]
        assert main([*help_words, "--help"]) == 0
        text = capsys.readouterr().out
        unknown = [word for word in words if word.startswith("--") and word not in text]
        assert unknown in ([], ["--"]), (page, name, unknown)


def test_every_document_and_value_on_a_page_is_one_that_render_has() -> None:
    renders = [(page, words) for page, (name, *words) in _commands("holdfast") if name == "render"]
    assert len(renders) > 20
    for page, (what, *words) in renders:
        if what.startswith("--"):
            continue
        values = document(what).values
        chosen = [after for word, after in pairwise(words) if word == "--set"]
        unknown = [pair for pair in chosen if pair.partition("=")[0] not in values]
        assert unknown == [], (page, what)


def test_every_verb_of_the_sandbox_on_a_page_is_one_that_it_has() -> None:
    commands = _commands("scripts/sandbox")
    assert len(commands) > 25
    assert [command for command in commands if command[1][0] not in cli._VERBS] == []
    injected = [words[1:] for _, words in commands if words[0] == "fault"]
    assert len(injected) > 4
    for place, kind, *_ in injected:
        assert faults.KINDS[kind].of_controller == (place == "cluster"), (place, kind)
