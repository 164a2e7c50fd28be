"""A change of the configuration while the bridge runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.load import load_section
from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.reload import ConfigWatch


class Told:
    def __init__(self, file: Path):
        self.changes = 0
        self.invalid: list[bool] = []
        self.watch = ConfigWatch(
            file,
            lambda: load_section(file, "bridge", BridgeConfig),
            self.changed,
            self.invalid.append,
        )

    def changed(self) -> None:
        self.changes += 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.yaml"
    path.write_text("bridge: {poll_s: 1}\n")
    return path


def test_a_new_content_is_told_once_and_the_same_content_never(file: Path) -> None:
    told = Told(file)
    file.write_text("bridge: {poll_s: 1}\n")  # another time, the same content
    assert not told.watch.look()
    file.write_text("bridge: {poll_s: 5}\n")
    assert told.watch.look()
    assert not told.watch.look()
    assert (told.changes, told.invalid) == (1, [False])


def test_what_cannot_be_used_is_logged_once_with_its_line(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = Told(file)
    file.write_text("bridge:\n  poll_s: 0\n  cordn: true\n")
    assert not told.watch.look()
    assert not told.watch.look()
    log = capfd.readouterr().err.splitlines()
    assert len(log) == 2, "one line for each problem"
    assert any(f"{file}:2: bridge.poll_s: must be between" in line for line in log)
    assert any(f"{file}:3: bridge.cordn: unknown key" in line for line in log)
    assert (told.changes, told.invalid) == (0, [True])
    file.write_text("bridge: {poll_s: 3}\n")
    assert told.watch.look()
    assert told.invalid == [True, False]


def test_a_signal_checks_again_only_what_could_not_be_used(file: Path) -> None:
    told = Told(file)
    told.watch.ask()
    assert not told.watch.look()
    usable = False

    def check() -> None:
        if not usable:
            raise UsageError("this account may not list pods")

    watch = ConfigWatch(file, check, told.changed, told.invalid.append)
    file.write_text("bridge: {poll_s: 3}\n")
    assert not watch.look()
    usable = True
    assert not watch.look(), "not before its time"
    watch.ask()
    assert watch.look()
    assert (told.changes, told.invalid) == (1, [True, False])


def test_a_file_that_vanishes_does_not_mean_the_defaults(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = Told(file)
    file.unlink()
    assert not told.watch.look()
    assert "gone or cannot be read" in capfd.readouterr().err
    assert (told.changes, told.invalid) == (0, [True])
