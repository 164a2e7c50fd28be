"""Markers come from a user and root reads them, so every value is checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker

MARKER = Marker(
    job=7, restarts=2, state="requeue", at=5.5, exclude=("worker-1",), launchers_killed=1
)


def test_an_encoded_marker_is_decoded_unchanged() -> None:
    assert markers.decoded(markers.encoded(MARKER)) == MARKER


def test_a_stored_marker_is_read_with_its_owner(tmp_path: Path) -> None:
    folder = markers.folder(tmp_path)
    folder.mkdir()
    owned = replace(MARKER, owner=2001)
    markers.store(tmp_path, owned)
    assert markers.read(folder / "7.json") == owned
    assert [file.name for file in folder.iterdir()] == ["7.json"]
    assert (folder / "7.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"job": 7}',
        '{"job": 7, "restarts": 0, "state": "dance", "at": 0}',
        '{"job": 7, "restarts": 0, "state": ["running"], "at": 0}',
        '{"job": 7, "restarts": "0", "state": "running", "at": 0}',
        '{"job": "7", "restarts": 0, "state": "running", "at": 0}',
        '{"job": true, "restarts": 0, "state": "running", "at": 0}',
        '{"job": 7.0, "restarts": 0, "state": "running", "at": 0}',
        '{"job": -7, "restarts": 0, "state": "running", "at": 0}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 0, "exclude": "ALL"}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 0, "launchers_killed": -1}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 0, "owner": "root"}',
        '{"job": 7, "restarts": 0, "state": "running", "at": NaN}',
        '{"job": 7, "restarts": 0, "state": "running"}',
        '{"job": 1e999, "restarts": 0, "state": "running", "at": 0}',
        '{"job": 7, "restarts": Infinity, "state": "running", "at": 0}',
        '{"job": 7, "restarts": 0, "state": "running", "at": 1%s}' % ("0" * 400),
        '{"job": 1%s, "restarts": 0, "state": "running", "at": 1}' % ("0" * 4000),
        "[" * 4000,
        "\udc80",
        "x" * 5000,
        '{"job": 7, "restarts": 0, "state": "running", "at": 0}' + " " * 4096,
    ],
)
def test_anything_else_is_refused(text: str, tmp_path: Path) -> None:
    data = text.encode(errors="surrogateescape")
    with pytest.raises(ValueError):  # noqa: PT011 - the user sees the message as it is
        markers.decoded(data)
    path = tmp_path / "7.json"
    path.write_bytes(data)
    assert markers.read(path) is None


def test_a_marker_in_the_file_of_another_job_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "8.json"
    path.write_bytes(markers.encoded(MARKER))
    assert markers.read(path) is None


def test_invalid_node_names_are_left_out() -> None:
    exclude = ["worker-1", "a,b", "n[1-4]", "x y", "", 3, "--help", "n1\nState=down"]
    facts = {"job": 7, "restarts": 0, "state": "requeue", "at": 0, "exclude": exclude}
    assert markers.decoded(json.dumps(facts).encode()).exclude == ("worker-1",)


def test_a_list_of_nodes_that_does_not_fit_is_cut() -> None:
    many = tuple(f"worker-{number:03}.{'x' * 40}" for number in range(500))
    data = markers.encoded(replace(MARKER, exclude=many))
    found = markers.decoded(data)
    assert found.exclude == many[: len(found.exclude)]
    assert 40 < len(found.exclude) < 500
