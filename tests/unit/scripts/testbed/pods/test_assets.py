"""The images of a box with pods: what is in them, and when they are written again."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from testbed.pods import assets


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "machine-0"
    for name in ("usr/bin/nsenter", "usr/bin/containerd-shim", "usr/sbin/runc", "usr/lib/cni/bridge",
                 "usr/lib/libc.so.6", "var/lib/dpkg/status", "etc/os-release"):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def files(layer: Path) -> set[str]:
    with tarfile.open(layer) as archive:
        return {member.name for member in archive if member.isfile()}


def test_an_agents_image_has_what_enters_namespaces_and_not_what_runs_pods(
    machine: Path, tmp_path: Path
) -> None:
    archive, reference = assets._debian(tmp_path, machine)
    assert reference.startswith("sandbox.local/debian@sha256:")
    assert files(tmp_path / "machine-0.layer") == {
        "usr/bin/nsenter",
        "usr/lib/libc.so.6",
        "etc/os-release",
    }
    written = archive.stat().st_mtime_ns
    assert assets._debian(tmp_path, machine) == (archive, reference)
    assert archive.stat().st_mtime_ns == written
    archive.unlink()
    assert assets._debian(tmp_path, machine) == (archive, reference), "the same bytes again"


def test_old_images_are_removed(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"holdfast-{number}.tar"
        path.touch()
        os.utime(path, (number, number))
    assets._keep_newest(tmp_path, "holdfast-*.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "holdfast-2.tar",
        "holdfast-3.tar",
        "holdfast-4.tar",
    ]
