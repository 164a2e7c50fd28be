"""Roots made elsewhere, and how others are made."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed import roots
from testbed.errors import SandboxError
from testbed.roots import given


def test_a_root_that_lacks_something_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="usr/sbin/slurmctld is not in it"):
        given(str(tmp_path))


def test_a_whole_root_is_taken(tmp_path: Path) -> None:
    for name in ("slurmctld", "slurmd", "slurmdbd", "mariadbd"):
        (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/sbin" / name).touch()
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/python3").touch()
    assert given(str(tmp_path)) == tmp_path


def test_the_mirror_is_debians_own_archive_and_nobody_elses() -> None:
    targets = """\
Debian bookworm-security http://mirror.example/debian-security/
Docker bookworm https://a.example/linux/debian/
Debian bookworm http://mirror.example/debian/
 bookworm http://b.example/debian/
"""
    assert roots.debian_mirror(targets) == "http://mirror.example/debian/"
    assert roots.debian_mirror("Ubuntu noble http://mirror.example/ubuntu/\n") is None
    assert roots.debian_mirror("") is None


def test_a_mirror_that_does_not_answer_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roots, "_mmdebstrap", lambda _: "true")
    monkeypatch.setenv("DEBIAN_MIRROR", "file:///no/such/mirror")
    (said,) = roots.problems("24.11")
    assert "trixie" in said
    assert "DEBIAN_MIRROR names another mirror" in said


def test_mmdebstrap_finds_its_helpers_where_it_was_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked up in PATH; this one asks for its helper and makes the folder."""
    programs = tmp_path / "unpacked"
    programs.mkdir()
    for name, text in (("mmdebstrap", 'mmtarfilter && mkdir "$6"'), ("mmtarfilter", "exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(roots, "_mmdebstrap", lambda _: str(programs / "mmdebstrap"))
    monkeypatch.setattr(roots, "_ENDS_WITH_US", ())
    monkeypatch.setenv("DEBIAN_MIRROR", "http://mirror.example/debian")
    log = tmp_path / "log"
    roots.bootstrap("trixie", tmp_path / "root", log, ("--one", "--two"))
    assert (tmp_path / "root").is_dir(), log.read_text()
