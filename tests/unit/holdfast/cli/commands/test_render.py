"""`holdfast render`: an invalid call gets one line, and no value changes a document's structure."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import TABLE, document, main, render_text
from holdfast.errors import UsageError
from holdfast.render.document import REQUIRED, Document, Value
from holdfast.version import VERSION

TREE = Path(__file__).parents[5]
IMAGE = f"registry.example.org/holdfast@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rback"], "did you mean 'rbac'?"),
        (["deployment"], "image has no default; give it with --set image="),
        (["deployment", "--set", "image="], "image has no default; give it with --set image="),
        (["sbatch", "--set", "node=3"], "did you mean 'nodes'?"),
        (
            ["sbatch", "--set", "nodes=many"],
            "nodes: must be a whole number from 1 to 999999, got 'many'",
        ),
        (["sbatch", "--set", "nodes"], "--set takes NAME=VALUE, got 'nodes'"),
        (["soperator-nodeset", "--set", "a=b"], "it takes none"),
        (["deployment", "--set", "image=x\n  evil: y"], "image: must be an image with its digest"),
        (["soperator", "--set", "mounts=/a,b"], "mounts: '/a,b' does not fit: mount points"),
        (["soperator", "--set", "gpus=65"], "gpus: '65' does not fit: GPUs of each node"),
        (
            ["soperator", "--set", "hooks=wraper"],
            "hooks: must be one of wrapper, runner, got 'wraper'",
        ),
        (
            ["slurm-conf", "--set", "onto=s.conf"],
            "onto: must be an absolute path without blanks and percent signs, got",
        ),
        (["slurm-conf", "--set", "onto=/no/such/slurm.conf"], "/no/such/slurm.conf: No such file"),
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


def test_every_value_is_listed_with_its_default_and_its_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for what in TABLE:
        assert main([what, "--values"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines, "also a document without values says so"
        told = [line.partition("=")[0] for line in lines if not line.startswith("# ")]
        assert told == list(document(what).values)
        assert all(line.partition("# ")[2] for line in lines)
    main(["sbatch", "--values"])
    assert capsys.readouterr().out.splitlines()[3].startswith("nodes=2 ")
    main(["deployment", "--values"])
    assert capsys.readouterr().out.startswith("image=… ")


def test_the_help_names_every_document(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    page = capsys.readouterr().out
    assert all(f"  {name} " in page and document(name).about in page for name in TABLE)


def test_an_unknown_document_is_an_error_of_use() -> None:
    with pytest.raises(UsageError, match="did you mean 'deployment'"):
        render_text("deploy")


def test_without_jinja2_the_error_names_it() -> None:
    program = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from holdfast.cli.main import main; sys.exit(main(['render', 'rbac']))"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=False)
    error = "holdfast render: not installed here: no module jinja2\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
YAML = (
    "soperator", "slinky", "daemonset", "configuration", "inspection-cronjob", "rbac", "deployment",
    "prometheus-rules", "pod-monitor", "agent-pod-monitor",
)  # fmt: skip
ODD = (
    "null", "true", "1e3", "~", "a: b", "a\nb: c", "a\u2028b: c", "a #b", "a,b", '"', "'", "\\", "*a", "&a", "!a",
    "- a", "@a", "`a", "%a", "[a]", "{a}", "{{ a }}", "{% a %}", "{# a #}", "/a b", "/a'b", "/a#b", "/a:b", "/a,b",
    "/é", "/\U0001d49c", "é", "\U0001d49c", "/@", "/-",
)  # fmt: skip


SET = {
    "image": IMAGE, "mounts": "/mnt/a", "history": "/mnt/h", "state_claim": "reports", "off": "all",
    "pods": "a=b", "pods_namespace": "slurm",
}  # fmt: skip
"""For values without a default, or whose empty default leaves a part of the document out."""


def shape(value: Any, own_key: str) -> Any:
    """Keys and types, without the texts; lists of texts may have any length."""
    if isinstance(value, dict):
        # A kill switch is an entry with the name of a check.
        own = [key == own_key or str(key).startswith("holdfast.off.") for key in value]
        return {
            "…" if named else key: shape(part, own_key)
            for named, (key, part) in zip(own, value.items(), strict=True)
        }
    if isinstance(value, list):
        parts = [shape(part, own_key) for part in value]
        return "texts" if {*map(str, parts)} <= {"text"} else parts
    if isinstance(value, str):
        nested = value.startswith("# Holdfast's configuration")
        return shape(yaml.load(value, LOADER), own_key) if nested else "text"  # noqa: S506 - is safe
    return type(value).__name__


def shapes(what: str, **values: str) -> list[Any]:
    fixed = {name: value for name, value in SET.items() if name in document(what).values}
    text = render_text(what, **{**fixed, **values})
    own_key = values.get("nodeset", "slinky")
    return [shape(part, own_key) for part in yaml.load_all(text, LOADER)]


@pytest.mark.parametrize("what", YAML)
def test_no_value_changes_the_structure_of_a_document(what: str) -> None:
    plain = shapes(what)
    accepted = 0
    for name, text in itertools.product(document(what).values, ODD):
        try:
            changed = shapes(what, **{name: text})
        except UsageError:
            continue
        assert changed == plain, (name, text)
        accepted += 1
    assert accepted, "some odd text is a valid value"


OBJECTS = {
    "rbac": {}, "workloads-rbac": {"namespaces": "team-a"}, "worker-pods": {},
    "deployment": {"image": IMAGE},
    "network-policy": {}, "off": {},
    "daemonset": {"image": IMAGE}, "inspection-cronjob": {"image": IMAGE},
    "soperator": {"as": "flux"}, "prometheus-rules": {}, "pod-monitor": {},
    "agent-pod-monitor": {"pods": "a=b", "pods_namespace": "slurm"},
    "dashboard": {"as": "configmap"},
}  # fmt: skip
"""The documents that are Kubernetes objects, and what they need."""


@pytest.mark.parametrize("what", OBJECTS)
def test_every_object_says_which_version_of_holdfast_it_is_of(what: str) -> None:
    for one in yaml.load_all(render_text(what, **OBJECTS[what]), LOADER):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/version"] == VERSION
        assert labels["app.kubernetes.io/part-of"] == "holdfast"


def test_a_value_without_a_default_may_be_allowed_to_stay_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "document_with_two_values"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "templates/both.txt.j2").write_text("{{ may }}|{{ must }}")
    monkeypatch.syspath_prepend(tmp_path)
    some = Document(
        about="",
        package=package.name,
        template="both.txt.j2",
        values={"may": Value(r"x*", REQUIRED, ""), "must": Value(r"x+", REQUIRED, "")},
    )
    assert some.text("some", {"must": "x"}) == "|x"
    with pytest.raises(UsageError, match="must has no default"):
        some.text("some", {"may": "x"})
