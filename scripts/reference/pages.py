"""Which pages are generated, and whether those in the tree match the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reference.catalogues import checks_page, faults_page
from reference.configuration import configuration_page
from reference.deaths import deaths_page
from reference.node_rules import node_rules_page
from reference.node_states import node_states_page
from reference.terraform import terraform_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "checks.md": checks_page,
    "deaths.md": deaths_page,
    "faults.md": faults_page,
    "node-rules.md": node_rules_page,
    "node-states.md": node_states_page,
    "terraform.md": terraform_page,
}


def stale() -> list[str]:
    """Names of the pages that are missing or differ from what the code generates."""
    return [name for name, made in PAGES.items() if _text(FOLDER / name) != made()]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
