"""The Python packages that Holdfast needs on a node, as files: pure Python, of the locked versions.

They come from this checkout's own environment, which pip has installed from ``requirements.lock`` with
hashes. Compiled parts are left out: each package works without its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import TREE
from testbed.rootfs.layers import sources
from testbed.rootfs.product import LOCK, PACKAGES

MODULES: Mapping[str, tuple[str, ...]] = {
    "jinja2": ("jinja2",),
    "markupsafe": ("markupsafe",),
    "nvidia-ml-py": ("pynvml.py",),
    "pyyaml": ("yaml",),
    "rich": ("rich",),
}
"""Package → what a node imports of it. rich's own dependencies are for Markdown and source code only."""

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_LICENCES = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A package and its licence, as its own metadata gives it."""

    name: str
    version: str
    licence: str


def pins(lock: Path = LOCK) -> Mapping[str, str]:
    """Name → version of each package in a lock file. A package that stands twice: the newest first."""
    found: dict[str, str] = {}
    for name, version in _PIN.findall(lock.read_text()):
        found.setdefault(name.lower(), version)
    return found


def components() -> list[Component]:
    """The packages of ``MODULES``. Raises ``SandboxError`` where the environment is not that of the lock."""
    return [_component(name) for name in MODULES]


def _component(name: str) -> Component:
    installed = _distribution(name)
    locked = {version for each, version in _PIN.findall(LOCK.read_text()) if each.lower() == name}
    if installed.version not in locked:
        raise SandboxError(
            f"{name} {installed.version} is not what {LOCK.name} pins; run scripts/test lint, which "
            "installs it"
        )
    about = installed.metadata
    named = next((key for key in ("License-Expression", "License") if key in about), None)
    licence = about[named].splitlines()[0] if named else "see its LICENSE"
    return Component(name=name, version=installed.version, licence=licence)


def modules() -> Mapping[str, bytes]:
    """Path below site-packages → content: Holdfast's own packages and those of ``MODULES``."""
    theirs = {
        str(path): path.locate().read_bytes()  # type: ignore[attr-defined]
        for name, tops in MODULES.items()
        for path in _files(name)
        if path.parts[0] in tops and path.suffix == ".py"
    }
    return dict(sorted({**own(), **theirs}.items()))


def own() -> Mapping[str, bytes]:
    """Path below site-packages → content of Holdfast's own packages."""
    return {
        str(path.relative_to(TREE)): path.read_bytes()
        for package, patterns in PACKAGES.items()
        for path in sources(TREE / package, patterns)
    }


def licences() -> Mapping[str, bytes]:
    """``PACKAGE/FILE`` → text of each licence."""
    found = {"holdfast/LICENSE": (TREE / "LICENSE").read_bytes()}
    for component in components():
        for path in _files(component.name):
            if ".dist-info" in path.parts[0] and _LICENCES.search(path.name):
                content = path.locate().read_bytes()  # type: ignore[attr-defined]
                found[f"{component.name}/{path.name}"] = content
    return dict(sorted(found.items()))


def _files(name: str) -> Iterator[metadata.PackagePath]:
    yield from _distribution(name).files or ()


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise SandboxError(f"{name} is not installed in this checkout's environment") from None
