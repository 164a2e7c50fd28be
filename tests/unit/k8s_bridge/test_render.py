"""What `holdfast render` prints can be used as it is; what it cannot take gets one clear line."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from holdfast.errors import UsageError
from k8s_bridge.render import DOCUMENTS, main, render_text


def test_rights_are_exactly_those_used() -> None:
    documents = list(yaml.safe_load_all(render_text("rbac")))
    rules = [rule for document in documents for rule in document.get("rules", ())]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    nodes = {("", "nodes", verb) for verb in ("get", "list", "watch", "patch")}
    told = {("", "nodes/status", "patch"), ("events.k8s.io", "events", "create")}
    assert granted == nodes | told


def test_the_deployment_is_yaml_with_the_values() -> None:
    text = render_text("deployment", image="registry.example/holdfast:1", cordon="false")
    config, deployment = yaml.safe_load_all(text)
    assert yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"]["cordon"] is False
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/holdfast:1"
    assert pod["serviceAccountName"] == "holdfast-bridge"


def test_the_batch_script_is_a_shell_script() -> None:
    text = render_text("sbatch", command="python train.py --lr 1e-4", nodes="4")
    assert "#SBATCH --nodes=4\n" in text
    assert "#SBATCH --requeue\n" in text
    assert text.endswith("-- srun python train.py --lr 1e-4\n")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_slurm_conf_lines_are_settings() -> None:
    lines = [line for line in render_text("slurm-conf").splitlines() if not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines)
    assert settings["Prolog"] == "/opt/holdfast/hooks/prolog"
    assert settings["HealthCheckNodeState"] == "ANY"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rback"], "did you mean 'rbac'?"),
        (["deployment"], "image has no default; give it with --set image="),
        (["sbatch", "--set", "node=3"], "did you mean 'nodes'?"),
        (["sbatch", "--set", "nodes=many"], "nodes='many' does not match"),
        (["sbatch", "--set", "nodes"], "--set takes NAME=VALUE, got 'nodes'"),
        (["rbac", "--set", "a=b"], "it takes none"),
        (["deployment", "--set", "image=x\n  evil: y"], "does not match"),
    ],
)
def test_a_wrong_call_gets_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_every_value_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbatch", "--values"]) == 0
    assert "nodes=2\n" in capsys.readouterr().out


def test_an_unknown_document_is_an_error_of_use() -> None:
    with pytest.raises(UsageError, match="did you mean 'deployment'"):
        render_text("deploy")
    assert set(DOCUMENTS) == {"rbac", "deployment", "slurm-conf", "sbatch"}
