"""`holdfast render`: what it cannot take gets one clear line, and a node needs nothing for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.render import TABLE, document, main, render_text
from holdfast.document import REQUIRED, Document, Value, filled
from holdfast.errors import UsageError

TREE = Path(__file__).parents[4]


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
            ["soperator", "--set", "gate=wraper"],
            "gate: must be one of wrapper, runner, got 'wraper'",
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


def test_a_node_needs_nothing_but_the_standard_library() -> None:
    """Not even what Holdfast depends on: a broken site-packages must not stop who mends it."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from holdfast.cli.render import document, main\n"
        "image = ['--set', 'image=a/b@sha256:' + '0' * 64]\n"
        "sys.exit(max(main([what, *(image if 'image' in document(what).values else [])])"
        " for what in sys.argv[2:]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(TREE), *TABLE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_filling_knows_every_place() -> None:
    assert filled("a: {{ x }}\nb: {{ y | json }}\n", {"x": "1", "y": 'a"b'}) == 'a: 1\nb: "a\\"b"\n'
    with pytest.raises(KeyError):
        filled("{{ nobody }}", {"x": "1"})
    assert filled("{{.Release}} {{ a.b }}", {}) == "{{.Release}} {{ a.b }}"


def test_a_value_without_a_default_may_be_allowed_to_stay_empty() -> None:
    some = Document(
        about="",
        make=lambda values: f"{values['may']}|{values['must']}",
        values={"may": Value(r"x*", REQUIRED, ""), "must": Value(r"x+", REQUIRED, "")},
    )
    assert some.text("some", {"must": "x"}) == "|x"
    with pytest.raises(UsageError, match="must has no default"):
        some.text("some", {"may": "x"})
