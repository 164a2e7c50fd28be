"""Inputs that several modules have are the same text: HCL cannot share them."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from tftemplates.files import FOLDER

_VARIABLE = re.compile(r'^variable "(\w+)" \{\n.*?^\}$', re.MULTILINE | re.DOTALL)

DIFFERENT = {
    # The root module takes the switches of both modules, which take one kind each.
    "kill_switches": {"variables.tf", "modules/cluster/variables.tf"},
    # A path below a submount, and any mount point.
    "mounts": {"variables.tf"},
}
"""Inputs of one name with another meaning, and the files that have it."""


def blocks() -> dict[str, dict[str, str]]:
    """Name of an input => file => its text. The modules without checks of their own are left out."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in [FOLDER / "variables.tf", *sorted(FOLDER.glob("modules/**/variables.tf"))]:
        file = str(path.relative_to(FOLDER))
        if file == "modules/cluster/manifests/variables.tf":
            continue
        for match in _VARIABLE.finditer(path.read_text()):
            if file not in DIFFERENT.get(match[1], ()):
                found[match[1]][file] = match[0]
    return found


@pytest.mark.parametrize("name", sorted(blocks()))
def test_an_input_is_checked_alike_everywhere(name: str) -> None:
    texts = blocks()[name]
    descriptions = r"(?m)^  description = .*\n"
    assert len({re.sub(descriptions, "", text) for text in texts.values()}) == 1, list(texts)


def test_every_input_has_a_check_or_needs_none() -> None:
    """A bool needs none; the inputs of the root module are checked with others by preconditions."""
    unchecked = {
        name
        for name, texts in blocks().items()
        if not any("validation {" in text for text in texts.values())
    }
    booleans = {"create_namespace", "network_policy", "wait"}
    assert unchecked - booleans == {"nodesets", "history_path"}


def test_no_check_of_an_input_names_another() -> None:
    """That needs Terraform 1.9."""
    for name, texts in blocks().items():
        for file, text in texts.items():
            assert set(re.findall(r"\bvar\.(\w+)", text)) <= {name}, (file, name)


def test_no_function_of_a_provider_is_used() -> None:
    """That needs Terraform 1.8 and a provider that has them; OpenTofu 1.7 differs."""
    for path in FOLDER.rglob("*.tf"):
        assert "provider::" not in path.read_text(), path
