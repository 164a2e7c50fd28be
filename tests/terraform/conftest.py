"""Terraform from the machine, and the provider if it was built (scripts/terraform builds it)."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.paths import cache
from testbed.terraform import cli_config, find_terraform, is_built, provider

from tests.terraform.program import copy_tree

NO_TERRAFORM = "no terraform or tofu on PATH"
NO_PROVIDER = "the provider is not built: run scripts/terraform once (about 4 minutes)"


@pytest.fixture(scope="session")
def program() -> Path:
    found = find_terraform()
    if found is None:
        pytest.skip(NO_TERRAFORM)
    return found


@pytest.fixture(scope="session")
def config(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLI configuration by which Terraform finds the provider."""
    if not is_built(cache()):
        pytest.skip(NO_PROVIDER)
    built = provider(cache(), lambda text: None)
    return cli_config(program, built, tmp_path_factory.mktemp("terraform"))


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of terraform/."""
    return copy_tree(tmp_path_factory.mktemp("tree"))
