"""One release of another project, exported from its git repository. The repository is only read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from charts.errors import NotHeld

_TAG = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The folders ``helm`` and ``config/crd`` of one commit, in ``path``."""

    path: Path
    commit: str

    def chart(self, name: str) -> dict[str, Any]:
        return self._read(name, "Chart.yaml")

    def values(self, name: str) -> dict[str, Any]:
        return self._read(name, "values.yaml")

    def crds(self, group: str) -> list[Path]:
        """Files of the CRDs of one API group."""
        return sorted((self.path / "config/crd/bases").glob(f"{group}_*.yaml"))

    def _read(self, chart: str, file: str) -> dict[str, Any]:
        read: dict[str, Any] = yaml.safe_load((self.path / "helm" / chart / file).read_text())
        return read


def releases(checkout: Path, folder: Path, *, since: tuple[int, int]) -> Iterator[Release]:
    """The newest tag of each minor release since ``since``, then the commit that is checked out.

    Raises ``NotHeld`` for a folder that is no git working tree of the project.
    """
    tags = newest_tags(_git(checkout, "tag").split(), since=since)
    for ref in (*tags, "HEAD"):
        commit = _git(checkout, "rev-parse", f"{ref}^{{commit}}").strip()
        path = folder / ref
        path.mkdir(parents=True)
        archive = ["git", "-C", str(checkout), "archive", commit, "helm", "config/crd"]
        packed = subprocess.run(archive, capture_output=True, check=False)
        if packed.returncode:
            raise NotHeld(f"{checkout}: {ref} has no folders helm and config/crd")
        subprocess.run(["tar", "-x", "-C", str(path)], input=packed.stdout, check=True)
        yield Release(path=path, commit=commit)


def newest_tags(tags: list[str], *, since: tuple[int, int]) -> list[str]:
    """The newest tag of each minor release, oldest first. Candidates and other words are ignored."""
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for tag in tags:
        match = _TAG.fullmatch(tag)
        if match is None:
            continue
        major, minor, patch = (int(number) for number in match.groups())
        if (major, minor) >= since:
            newest[major, minor] = max(newest.get((major, minor), (-1, "")), (patch, tag))
    return [newest[minor][1] for minor in sorted(newest)]


def _git(checkout: Path, *args: str) -> str:
    argv = ["git", "-C", str(checkout), *args]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHeld(f"{checkout}: {done.stderr.strip()}; clone the project and pass its folder")
    return done.stdout
