"""The generated pages, and whether those in the tree are up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reference.catalogues import checks_page, faults_page
from reference.configuration import configuration_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "checks.md": checks_page,
    "faults.md": faults_page,
}


def stale() -> list[str]:
    """Names of the pages that are missing or outdated."""
    return [name for name, made in PAGES.items() if _text(FOLDER / name) != made()]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
