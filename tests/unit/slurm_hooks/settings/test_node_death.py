from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from slurm_hooks.settings import settings
from slurm_hooks.settings.sections import NodeDeathMode


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"agent: {{node_death: {{{text}}}}}\n")
    return path


def test_without_a_word_dead_nodes_are_only_recorded(tmp_path: Path) -> None:
    assert settings.load(tmp_path / "none").agent.node_death.mode is NodeDeathMode.OBSERVE
    path = written(tmp_path, "mode: act, silent_s: 3")
    assert settings.load(path).agent.node_death.mode is NodeDeathMode.ACT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mode: drain", "mode"),
        ("silent_s: 1", "silent_s: must be between 1.5 and 60"),
        ("port: 0", "port: must be between 1 and 65535"),
        ("key_file: munge.key", "key_file: must be an absolute path"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings.load(written(tmp_path, text))
