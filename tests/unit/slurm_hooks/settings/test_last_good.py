"""The copy of the last accepted configuration, which is used while the file is invalid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from slurm_hooks.hooks import health_check
from slurm_hooks.node import machine
from slurm_hooks.settings import last_good, settings

GOOD = "node: {expected_gpus: 4}\njob: {poll_s: 7}\n"
BAD = "node: {expected_gpus: 5}\nchecks: {gpu_xidd: {}}\nagent: {interval_s: 0}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.yaml"
    path.write_text(GOOD)
    return path


def test_a_valid_file_is_used(config: Path) -> None:
    last_good.keep(config, "node: {expected_gpus: 2}\n")
    found = settings.usable(config)
    assert (found.node.expected_gpus, found.job.poll_s, found.text) == (4, 7.0, GOOD)
    assert found.problems == ()


def test_instead_of_an_invalid_file_the_copy_is_used_and_every_problem_reported(
    config: Path,
) -> None:
    last_good.keep(config, GOOD)
    config.write_text(BAD)
    found = settings.usable(config)
    assert (found.node.expected_gpus, found.job.poll_s) == (4, 7.0)
    assert found.path == config, "kill switches and corrections are read beside the file itself"
    assert found.stamp == machine.stamp(config), "nothing is reported again until the file changes"
    assert [line.removeprefix(f"{config}:")[:13] for line in found.problems] == [
        "2: checks.gpu",
        "3: agent.inte",
    ]
    with pytest.raises(ConfigError):
        settings.load(config)


def test_a_missing_file_does_not_mean_defaults(config: Path) -> None:
    assert settings.usable(config.with_name("never")).node.expected_gpus == 8
    last_good.keep(config, GOOD)
    config.unlink()
    found = settings.usable(config)
    assert found.node.expected_gpus == 4
    assert "this file no longer exists; restore it, or create an empty one" in found.problems[0]
    config.write_text("")
    assert settings.usable(config).problems == ()
    assert settings.usable(config).node.expected_gpus == 8


def test_without_a_copy_an_invalid_file_is_an_error(config: Path) -> None:
    last_good.keep(config.with_name("another"), GOOD)
    config.write_text(BAD)
    with pytest.raises(ConfigError, match=r"gpu_xidd(.|\n)*interval_s"):
        settings.usable(config)
    last_good.keep(config, GOOD)
    last_good.path_of_copy().write_text('{"version": 1, "path": "half')
    with pytest.raises(ConfigError):
        settings.usable(config)
    last_good.path_of_copy().write_text(
        json.dumps({"version": 1, "path": str(config), "text": ["no", "text"]})
    )
    with pytest.raises(ConfigError):
        settings.usable(config)


def test_a_copy_that_a_newer_version_rejects_is_reported_too(config: Path) -> None:
    last_good.keep(config, "node: {gpus: 8}\n")
    config.write_text(BAD)
    with pytest.raises(ConfigError) as caught:
        settings.usable(config)
    said = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in said] == [str(config)] * 2 + [
        str(last_good.path_of_copy())
    ]


def test_the_copy_is_readable_only_for_root_and_written_only_when_it_changes(config: Path) -> None:
    last_good.keep(config, GOOD)
    path = last_good.path_of_copy()
    first = path.stat()
    assert first.st_mode & 0o777 == 0o600
    last_good.keep(config, GOOD)
    assert path.stat().st_ino == first.st_ino
    last_good.keep(config, "")
    assert last_good.copy_of(config) == ""


def test_a_health_check_logs_once_why_there_is_no_agent(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("HOLDFAST_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("SLURMD_NODENAME", "w")
    monkeypatch.setattr(health_check, "LOG_FOLDER", tmp_path / "log")
    config.write_text("node: {}\nnode: {}\nclutser: x\n")
    log = tmp_path / "log" / "agent.w.log"
    for _ in range(2):
        with pytest.raises(ConfigError):
            health_check.main()
        lines = log.read_text().splitlines()
        assert len(lines) == 2
        assert "given twice, first in line 1" in lines[0]
        assert all(" error health_check: no agent started: " in line for line in lines)
    config.write_text("nod: {}\n")
    with pytest.raises(ConfigError):
        health_check.main()
    assert len(log.read_text().splitlines()) == 3
