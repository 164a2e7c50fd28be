"""The marker folder of an earlier release, in which every user could create files."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.agent.jobs import old_markers
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker

MARKER = Marker(job=7, restarts=0, state="running", at=0.0)
MINE = os.getuid()


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_folder_writable_for_all_is_renamed_and_made_accessible_for_root_only(jobs: Path) -> None:
    (jobs / "7.json").mkdir()
    (aside,) = old_markers.put_aside(jobs)
    assert not jobs.exists()
    assert aside.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in aside.iterdir()] == ["7.json"]
    assert old_markers.put_aside(jobs) == [aside], "an earlier agent could not remove it"


def test_the_agents_own_folder_stays(jobs: Path) -> None:
    jobs.chmod(0o700)
    assert old_markers.put_aside(jobs) == []
    assert jobs.exists()
    assert old_markers.put_aside(jobs.parent / "nothing") == []


def test_the_marker_of_a_job_that_is_here_is_taken_over(jobs: Path) -> None:
    (jobs / "7.json").write_bytes(markers.encoded(MARKER))
    for job, named in ((8, 7), (9, 10)):
        other = replace(MARKER, job=named, restarts=job)
        (jobs / f"{job}.json").write_bytes(markers.encoded(other))
    folders = old_markers.put_aside(jobs)
    found = list(old_markers.of_jobs(folders, {MINE: {7, 8, 9, 11}}))
    assert found == [replace(MARKER, owner=MINE)], "8.json and 9.json are about other jobs"


@pytest.mark.parametrize("uid", [MINE - 1, MINE + 1])
def test_a_marker_that_belongs_to_another_user_is_ignored(jobs: Path, uid: int) -> None:
    (jobs / "7.json").write_bytes(markers.encoded(MARKER))
    folders = old_markers.put_aside(jobs)
    assert list(old_markers.of_jobs(folders, {uid: {7}})) == []


def test_a_pipe_is_not_a_marker_even_if_it_contains_one(jobs: Path) -> None:
    """Without a check of its type it would be read like a file."""
    path = jobs / "7.json"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, markers.encoded(MARKER))
    assert old_markers.read_users(path, MINE) is None
    os.close(writer)


@pytest.mark.parametrize(("size", "taken"), [(4095, True), (4096, True), (4097, False)])
def test_a_marker_of_more_than_a_page_is_ignored(jobs: Path, size: int, taken: bool) -> None:
    """Blanks after JSON change nothing, so only the size decides."""
    path = jobs / "7.json"
    path.write_bytes(markers.encoded(MARKER).ljust(size))
    assert (old_markers.read_users(path, MINE) is not None) is taken


def test_garbage_and_a_file_that_cannot_be_read_are_ignored(jobs: Path) -> None:
    (jobs / "7.json").write_bytes(b"garbage")
    assert old_markers.read_users(jobs / "7.json", MINE) is None
    memory = Path("/proc/self/mem")  # a regular file of this user; reading address 0 is an error
    assert old_markers.read_users(memory, MINE) is None


def test_links_folders_and_sockets_are_ignored(jobs: Path) -> None:
    (jobs / "real").write_bytes(markers.encoded(MARKER))
    (jobs / "7.json").symlink_to(jobs / "real")
    assert old_markers.read_users(jobs / "7.json", MINE) is None
    (jobs / "8.json").mkdir()
    assert old_markers.read_users(jobs / "8.json", MINE) is None
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(jobs, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/9.json")
        os.close(here)
        assert old_markers.read_users(jobs / "9.json", MINE) is None


def test_the_folder_is_removed_without_following_links(jobs: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").touch()
    (jobs / "7.json").symlink_to(precious)
    (jobs / "8.json").mkdir(mode=0o000)
    os.mkfifo(jobs / "9.json")
    folders = old_markers.put_aside(jobs)
    list(old_markers.open_removal()([str(one) for one in folders]))
    assert [one.name for one in tmp_path.iterdir()] == ["precious"]
    assert (precious / "data").exists()
