"""The records of other projects' charts are about the values that Holdfast renders today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from charts.digest import changed, digests
from charts.operators import pages

from holdfast.cli.commands.render import render_text

DATA = Path(__file__).parents[4] / "tests/data/deploy"


@pytest.mark.parametrize("project", ["soperator", "slinky"])
def test_the_record_is_about_todays_values(project: str) -> None:
    assert changed(project, json.loads((DATA / f"{project}.json").read_text())["values"]) == []


def test_after_a_change_of_a_template_the_command_to_type_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = digests("soperator")
    real = render_text

    def other(name: str, **given: str) -> str:
        return real(name, **given) + ("more: 1\n" if name == "soperator-nodeset" else "")

    monkeypatch.setattr("charts.digest.render_text", other)
    head = "is about other values: run scripts/hold_against soperator CHECKOUT --only"
    assert changed("soperator", recorded) == [
        f"the record of soperator, charts, {head} charts",
        f"the record of soperator, manager, {head} manager --manager PROGRAM --flux PROGRAM",
    ]


def test_a_comment_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    real = render_text
    recorded = digests("slinky")
    monkeypatch.setattr(
        "charts.digest.render_text", lambda name, **given: f"# a\n{real(name, **given)}"
    )
    assert changed("slinky", recorded) == []


def test_a_change_of_a_command_that_is_typed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = digests("slinky")
    real = pages.typed
    monkeypatch.setattr(
        pages, "typed", lambda project, what: real(project, what).replace("-n slurm", "-n other")
    )
    (line,) = changed("slinky", recorded)
    assert line.startswith("the record of slinky, manager, is about other values")
