"""The templates of terraform/ are those of `holdfast render`, and a mark becomes what Terraform sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tftemplates.files import FOLDER, generated, stale, write
from tftemplates.marks import mark, template

from holdfast.render.templates import to_yaml
from slurm_hooks.checks import CATALOGUE


def test_the_files_in_the_tree_are_what_the_templates_say() -> None:
    assert stale() == [], "run scripts/terraform_templates"


def test_a_file_that_was_edited_deleted_or_added_by_hand_is_made_again(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "terraform"))
    slurm_conf = folder / "modules/slurm/slurm.conf.tftpl"
    slurm_conf.write_text(slurm_conf.read_text() + "# more\n")
    (folder / "modules/configuration/catalogue.json").unlink()
    (folder / "modules/cluster/manifests/bridge/secret-mine.yaml.tftpl").write_text(
        "kind: Secret\n"
    )
    differ = [
        "modules/cluster/manifests/bridge/secret-mine.yaml.tftpl",
        "modules/configuration/catalogue.json",
        "modules/slurm/slurm.conf.tftpl",
    ]
    assert stale(folder) == differ
    assert write(folder) == differ
    assert stale(folder) == []
    assert not (folder / differ[0]).exists()


def test_every_check_has_its_entry_in_each_configuration() -> None:
    files = generated()
    assert json.loads(files["modules/configuration/catalogue.json"])["checks"] == list(CATALOGUE)
    for path, text in files.items():
        if "expected_gpus:" in text:
            assert all(f"${{checks.{name}}}" in text for name in CATALOGUE), path


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (f"a: {mark('x')}", "a: ${x}"),
        (f"a: {to_yaml(mark('x'))}", "a: ${jsonencode(x)}"),
        (f"a: {to_yaml('system:' + mark('x') + ':y')}", 'a: "system:${x}:y"'),
        (f"[{mark('a.b')}, {to_yaml(mark('f(4, c)'))}]", "[${a.b}, ${jsonencode(f(4, c))}]"),
        ("${HOME} %{x} $x {{ x }}", "$${HOME} %%{x} $x {{ x }}"),
        (f"{mark('a')}${{b}}{mark('c')}", "${a}$${b}${c}"),
    ],
)
def test_marks_and_text(text: str, made: str) -> None:
    assert template(text) == made


def test_an_expression_that_a_quoted_text_would_break_is_no_mark() -> None:
    for expression in ('a["b"]', "a\\b"):
        with pytest.raises(ValueError, match="quotes"):
            mark(expression)


def test_a_mark_that_was_cut_is_noticed() -> None:
    with pytest.raises(ValueError, match="mark is left"):
        template(mark("name")[:-1])
