"""A person's commands run with the given programs, and a failure has the message of the command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from charts.chart import Tools
from charts.errors import NotHeld
from charts.operators.person import Person

from holdfast.version import VERSION


def person(folder: Path, **more: Any) -> Person:
    helm = folder / "real-helm"
    helm.write_text('#!/bin/sh\necho "helm $*"\n')
    helm.chmod(0o755)
    tools = Tools(helm=str(helm), kubectl=Path("/bin/echo"), folder=folder)
    server = cast("Any", SimpleNamespace(kubeconfig=folder / "kubeconfig"))
    return Person(server, tools, {"slurm CHART": "slurm /charts/slurm"}, **more)


def test_the_texts_that_a_reader_replaces_are_replaced(tmp_path: Path) -> None:
    one = person(tmp_path)
    one.write("own.yaml", "a: 1\n")
    printed = one.types("helm upgrade slurm CHART -f own.yaml\nkubectl get nodes\ncat own.yaml")
    assert printed == "helm upgrade slurm /charts/slurm -f own.yaml\nget nodes\na: 1\n"
    assert one.types("holdfast --version").split()[-1] == VERSION


def test_helm_installs_through_the_post_renderer_and_does_all_else_without(tmp_path: Path) -> None:
    one = person(tmp_path, post_renderer="cat")
    assert "--post-renderer" in one.types("helm -n a upgrade slurm x")
    assert one.types("helm -n a rollback slurm") == "helm -n a rollback slurm\n"


def test_a_command_that_fails_ends_the_block(tmp_path: Path) -> None:
    with pytest.raises(NotHeld, match="No such file"):
        person(tmp_path).types("cat /no/such/file\ntouch later")
    assert not (tmp_path / "person/later").exists()
