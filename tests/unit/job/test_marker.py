"""Markers: written by a user, read by root, so nothing in them is believed unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker


def _made(tmp_path: Path) -> Path:
    markers.folder(tmp_path).mkdir()
    return markers.folder(tmp_path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = _made(tmp_path)
    written = Marker(job=7, restarts=2, state="requeue", at=5.5, exclude=("worker-1",), deaths=1)
    assert markers.write(tmp_path, written)
    found = markers.read(folder / "7.json")
    assert found is not None
    assert (found.job, found.restarts, found.state, found.at) == (7, 2, "requeue", 5.5)
    assert (found.exclude, found.deaths, found.owner) == (("worker-1",), 1, os.getuid())
    assert [one.name for one in folder.iterdir()] == ["7.json"]


def test_without_an_agent_nothing_is_written(tmp_path: Path) -> None:
    assert not markers.write(tmp_path, Marker(job=7, restarts=0, state="running", at=0.0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"job": 7}',
        '{"job": 8, "restarts": 0, "state": "running", "at": 0}',
        '{"job": 7, "restarts": 0, "state": "dance", "at": 0}',
        '{"job": 7, "restarts": "x", "state": "running", "at": 0}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 0, "exclude": "ALL"}',
        '{"job": 1e999, "restarts": 0, "state": "running", "at": 0}',
        '{"job": 7, "restarts": Infinity, "state": "running", "at": 0}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 1%s}' % ("0" * 400),
        "[" * 50000,
        "x" * 70000,
    ],
)
def test_anything_else_is_no_marker(text: str, tmp_path: Path) -> None:
    path = tmp_path / "7.json"
    path.write_text(text)
    assert markers.read(path) is None


def test_names_that_scontrol_would_misread_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "7.json"
    exclude = ["worker-1", "a,b", "n[1-4]", "x y", "", 3, "--help", "n1\nState=down"]
    facts = {"job": 7, "restarts": 0, "state": "requeue", "at": 0, "exclude": exclude}
    path.write_text(json.dumps(facts))
    found = markers.read(path)
    assert found is not None
    assert found.exclude == ("worker-1",)


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"job": 7, "restarts": 0, "state": "running", "at": 0}')
    (tmp_path / "7.json").symlink_to(secret)
    os.mkfifo(tmp_path / "8.json")
    assert markers.read(tmp_path / "7.json") is None
    assert markers.read(tmp_path / "8.json") is None
