"""What people get wrong most, with ``apply``: one message with the value and the remedy, and nothing is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.terraform.program import Terraform, copy_tree
from tests.terraform.test_inputs import GOOD, submounts

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(300)]

TWICE = submounts("/mnt/training", "/mnt/training")
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown nodeset": (
        {"nodesets": ["gpu"]},
        'nodesets names ["gpu"]',
        'use some of ["cpu","worker"]',
    ),
    "path that is no submount": (
        {"mounts": ["/mnt/data"]},
        'mounts has ["/mnt/data"], which is no submount',
        'use some of ["/mnt/training","/mnt/inference"]',
    ),
    "history on no submount": (
        {"history_path": "/home/history"},
        'history_path is "/home/history", which is on no submount',
        '"/mnt/training/holdfast-history"',
    ),
    "two filesystems on one mount": (
        {"filesystem_jail_submounts": TWICE},
        "two filesystems on one mount: mnt-training on /mnt/training",
        "Give each its own mount_path",
    ),
    "two filestores on one mount": (
        {"filesystem_jail_submounts": [], "filestore_jail_submounts": TWICE},
        "two filestores on one mount: mnt-training on /mnt/training",
        "Give each its own mount_path",
    ),
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of their own: below, the root module has a provider."""
    return copy_tree(tmp_path_factory.mktemp("examples")) / "examples"


@pytest.fixture(scope="module")
def root(program: Path, config: Path, tree: Path) -> Terraform:
    """The root module with a provider that reaches nothing: what is made needs no answer."""
    (tree / "provider.tf").write_text(
        'provider "kubectl" {\n  host             = "https://127.0.0.1:1"\n  load_config_file = false\n}\n'
    )
    terraform = Terraform(program=program, folder=tree, config=config)
    terraform.ok("init")
    return terraform


def made(terraform: Terraform) -> list[Any]:
    """The resources that Terraform has made."""
    state = terraform.folder / "terraform.tfstate"
    text = state.read_text() if state.exists() else ""
    resources: list[Any] = json.loads(text or "{}").get("resources", [])
    return [one for one in resources if one["mode"] == "managed"]


@pytest.mark.parametrize(("given", "names", "remedy"), CASES.values(), ids=CASES.keys())
def test_one_message_and_nothing_is_made(
    root: Terraform, given: dict[str, Any], names: str, remedy: str
) -> None:
    answer = root.run("apply", "-auto-approve", **{**GOOD, **given})
    assert answer.status == 1
    assert answer.text.count("Error:") == 1, answer.text[-3000:]
    assert names in answer.text
    assert remedy in answer.text
    assert made(root) == []


@pytest.mark.parametrize(
    ("example", "given", "remedy"),
    [
        ("sandbox", {}, "start the sandbox with `scripts/sandbox up`"),
        ("nebius-soperator", {}, "write one with `nebius mk8s cluster get-credentials`"),
        ("slinky", {"workers_image": "registry.example.org/workers:1"}, "give the path of a kubeconfig"),
    ],
)
def test_a_kubeconfig_that_is_missing(
    program: Path,
    config: Path,
    examples: Path,
    tmp_path: Path,
    example: str,
    given: dict[str, Any],
    remedy: str,
) -> None:
    here = Terraform(program=program, folder=examples / example, config=config)
    here.ok("init")
    missing = str(tmp_path / "none")
    answer = here.run("apply", "-auto-approve", kubeconfig=missing, **given)
    assert answer.status == 1
    assert answer.text.count("Error:") == 1, answer.text[-3000:]
    assert f'kubeconfig is "{missing}", and there is no such file: ' in answer.text
    assert remedy in answer.text.partition("no such file: ")[2]
    assert made(here) == []


