"""The pages that people read: links lead somewhere, and files that a page names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
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
