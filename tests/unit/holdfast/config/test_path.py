from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.path import DEFAULT_PATH, config_path


def test_argument_before_environment_before_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONFIG", "/env.yaml")
    assert config_path("/argument.yaml") == Path("/argument.yaml")
    assert config_path() == Path("/env.yaml")
    monkeypatch.setenv("HOLDFAST_CONFIG", "")
    assert config_path() == DEFAULT_PATH
