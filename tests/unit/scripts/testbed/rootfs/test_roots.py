"""Roots made elsewhere, and roots built here."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.rootfs import roots
from testbed.rootfs.roots import given


def test_a_root_with_a_missing_file_is_refused_and_the_file_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="usr/sbin/slurmctld is missing"):
        given(str(tmp_path))


def test_a_complete_root_is_accepted(tmp_path: Path) -> None:
    for name in ("slurmctld", "slurmd", "slurmdbd", "mariadbd"):
        (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/sbin" / name).touch()
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/python3").touch()
    assert given(str(tmp_path)) == tmp_path


def test_only_a_mirror_of_the_debian_archive_is_used() -> None:
    targets = """\
Debian bookworm-security http://mirror.example/debian-security/
Docker bookworm https://a.example/linux/debian/
Debian bookworm http://mirror.example/debian/
 bookworm http://b.example/debian/
"""
    assert roots.debian_mirror(targets) == "http://mirror.example/debian/"
    assert roots.debian_mirror("Ubuntu noble http://mirror.example/ubuntu/\n") is None
    assert roots.debian_mirror("") is None


def test_a_mirror_that_does_not_answer_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roots, "_mmdebstrap", lambda _: "true")
    monkeypatch.setenv("DEBIAN_MIRROR", "file:///no/such/mirror")
    (problem,) = roots.problems("24.11")
    assert "trixie" in problem
    assert "DEBIAN_MIRROR selects another Debian mirror" in problem


def test_mmdebstrap_finds_its_helpers_where_it_was_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds them through PATH; this one calls its helper and makes the folder."""
    programs = tmp_path / "unpacked"
    programs.mkdir()
    for name, text in (("mmdebstrap", 'mmtarfilter && mkdir "$6"'), ("mmtarfilter", "exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(roots, "_mmdebstrap", lambda _: str(programs / "mmdebstrap"))
    monkeypatch.setattr(roots, "_ENDS_WITH_PARENT", ())
    monkeypatch.setenv("DEBIAN_MIRROR", "http://mirror.example/debian")
    log = tmp_path / "log"
    roots.bootstrap("trixie", tmp_path / "root", log, ("--one", "--two"))
    assert (tmp_path / "root").is_dir(), log.read_text()
