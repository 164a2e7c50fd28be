"""How scripts/hold_against reads rendered charts, tags and slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from charts.chart import objects_of, unknown_keys
from charts.errors import NotHeld
from charts.operators.soperator import settings
from charts.release import newest_tags, releases


def test_a_key_given_twice_is_refused() -> None:
    """A parser that takes the last one would hide what Flux refuses."""
    text = (
        "kind: SlurmCluster\nspec:\n  healthCheckConfig: {a: 1}\n  b: 2\n  healthCheckConfig: {}\n"
    )
    with pytest.raises(NotHeld, match="'healthCheckConfig' is given twice"):
        objects_of(text)
    assert objects_of(text.replace("  healthCheckConfig: {}\n", ""))[0]["spec"]["b"] == 2


def test_helms_form_of_a_large_number_is_a_number() -> None:
    assert objects_of("value: 1e+07\n---\n---\nvalue: '1e+07'\n") == [
        {"value": 10_000_000},
        {"value": "1e+07"},
    ]


def test_the_newest_tag_of_each_minor_release() -> None:
    tags = ["4.1.9", "4.1.11", "v1.0.2", "1.22.3", "2.0.0-rc1", "build-2.0", "1.20.1", "4.0.5"]
    assert newest_tags(tags, since=(1, 22)) == ["1.22.3", "4.0.5", "4.1.11"]
    assert newest_tags(tags, since=(1, 0))[0] == "v1.0.2"


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotHeld, match="clone the project and pass its folder"):
        list(releases(tmp_path, tmp_path / "out", since=(1, 0)))


def test_unknown_keys_are_named_with_their_path() -> None:
    known: dict[str, object] = {"slurmScripts": {"prolog.sh": None, "extra": {}}}
    given = {"slurmScripts": {"prolog.sh": "x", "extra": {"any": 1}, "epilogue": 1}, "b": 2}
    assert unknown_keys(given, known) == ["slurmScripts.epilogue", "b"]


def test_slurm_confs_last_line_of_a_key_counts() -> None:
    text = "#Prolog=/a\nProlog=/b\nNodeName=x CPUs=1\nInclude y\nProlog=/c\nA=b=c\n"
    assert settings(text) == {"Prolog": "/c", "A": "b=c"}
