"""The templates of `holdfast render`: strict about names, and every text stays a text in YAML."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateNotFound, UndefinedError

from holdfast.render.templates import render, to_yaml

_number = itertools.count()

Package = Callable[[str, str], str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Makes a package with one template and returns its name."""

    def make(file: str, text: str) -> str:
        folder = tmp_path / f"package_with_a_template_{next(_number)}"
        (folder / "templates").mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "templates" / file).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        return folder.name

    return make


def test_an_unknown_name_is_an_error_and_no_empty_text(package: Package) -> None:
    with pytest.raises(UndefinedError, match="nobody"):
        render(package("a.txt.j2", "{{ nobody }}"), "a.txt.j2", {"x": "1"})
    with pytest.raises(TemplateNotFound):
        render(package("a.txt.j2", ""), "b.txt.j2", {})


def test_lines_with_a_statement_leave_nothing_and_the_last_line_keeps_its_end(
    package: Package,
) -> None:
    text = "a:\n  {% for name in names %}\n  - {{ name }}\n  {% endfor %}\n"
    rendered = render(package("a.yaml.j2", text), "a.yaml.j2", {"names": ["x", "y"]})
    assert rendered == "a:\n  - x\n  - y\n"


def test_a_value_is_text_and_no_template(package: Package) -> None:
    rendered = render(package("a.sh.j2", "{{ command }}"), "a.sh.j2", {"command": "{{ x }} <&>"})
    assert rendered == "{{ x }} <&>"


def test_only_html_is_escaped(package: Package) -> None:
    page = render(package("a.html.j2", "{{ text }}"), "a.html.j2", {"text": "<&>"})
    assert page == "&lt;&amp;&gt;"


@given(st.text())
def test_any_text_is_one_text_in_yaml(text: str) -> None:
    quoted = to_yaml(text)
    assert "\n" not in quoted
    assert yaml.safe_load(f"{{a: {quoted}}}") == {"a": text}
    assert yaml.safe_load(to_yaml([text, "b"])) == [text, "b"]
