"""Every example plans as it is; terraform test passes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.terraform.program import TREE, Terraform

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(300)]

IMAGE = f"registry.example.org/holdfast@sha256:{'0' * 64}"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Of a cluster that does not answer: a plan needs none."""
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "none"}}
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "users": [user],
                "current-context": "c",
            }
        )
    )
    return str(file)


def example(name: str, program: Path, config: Path, tree: Path) -> Terraform:
    terraform = Terraform(program=program, folder=tree / "examples" / name, config=config)
    terraform.ok("init")
    return terraform


def test_nebius_soperator(program: Path, config: Path, tree: Path, kubeconfig: str) -> None:
    here = example("nebius-soperator", program, config, tree)
    answer = here.ok("plan", kubeconfig=kubeconfig)
    assert "mounts: [/mnt/jail/mnt/training, /mnt/jail/mnt/inference]" in answer.text
    assert "history: /mnt/jail/mnt/training/holdfast-history" in answer.text
    assert "kubectl_manifest.bridge" not in answer.text
    answer = here.ok("plan", kubeconfig=kubeconfig, holdfast_image=IMAGE)
    assert 'kubectl_manifest.bridge["deployment-holdfast-bridge"]' in answer.text


def test_the_lines_of_the_page_for_nebius_recipe(
    program: Path, config: Path, tree: Path, kubeconfig: str
) -> None:
    """holdfast.tf of docs/howto/terraform.md in place of the example's, beside the recipe's variables."""
    page = (TREE / "docs/howto/terraform.md").read_text()
    (text,) = re.findall(r"^```hcl\n(module \"holdfast\".*?)^```", page, re.MULTILINE | re.DOTALL)
    text = text.replace("../../../../holdfast/terraform", "../..")
    text = text.replace("depends_on = [module.slurm]", "")
    folder = tree / "examples" / "page"
    shutil.copytree(tree / "examples" / "nebius-soperator", folder)
    recipe = 'variable "slurm_health_check_config" { default = null }\n'
    (folder / "holdfast.tf").write_text(text + recipe)
    answer = example("page", program, config, tree).ok("plan", kubeconfig=kubeconfig)
    assert "history: /mnt/jail/mnt/training/holdfast-history" in answer.text
    assert "holdfast_nodeset_values" in answer.text


def test_slinky(program: Path, config: Path, tree: Path, kubeconfig: str) -> None:
    here = example("slinky", program, config, tree)
    given = {"workers_image": "registry.example.org/workers:1", "kubeconfig": kubeconfig}
    answer = here.ok("plan", **given)
    assert "00-holdfast" in answer.text
    assert "kubectl_manifest.bridge" not in answer.text
    answer = here.ok("plan", **given, bridge_image=IMAGE, kill_switches=["bridge"])
    assert 'kubectl_manifest.bridge["deployment-holdfast-bridge"]' in answer.text
    assert "kubectl_manifest.token[0]" in answer.text
    assert "kubectl_manifest.namespace" not in answer.text, "it is Slurm's"


def test_plain(program: Path, tree: Path) -> None:
    """It needs no provider."""
    here = Terraform(program=program, folder=tree / "examples" / "plain")
    here.ok("init")
    here.ok("apply", "-auto-approve", checks={"gpu_xid": {"mode": "drain"}})
    made = here.outputs()
    assert "Prolog=/opt/holdfast/hooks/prolog" in made["slurm_conf"]
    configuration = yaml.safe_load(made["files"]["/etc/holdfast/holdfast.yaml"])
    assert configuration["checks"]["gpu_xid"] == {"mode": "drain"}


def test_terraforms_own_tests(program: Path, config: Path, tree: Path) -> None:
    here = Terraform(program=program, folder=tree, config=config)
    here.ok("init")
    answer = here.ok("test")
    assert "Success!" in answer.text
    assert "0 failed" in answer.text
