"""``scripts/package``: writes the parts of a release into a folder."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from testbed.errors import SandboxError
from testbed.kube.toolchain import Say
from testbed.paths import TREE, cache

from holdfast.version import VERSION
from packages import wheel, zipapp
from packages.chart.files import NAME, write_archive
from packages.helm.openapi import download
from packages.helm.programs import build
from packages.images import agent, bridge
from packages.node import deb, rpm


class Part(NamedTuple):
    """``make``: writes into the folder and returns the files that it wrote."""

    about: str
    make: Callable[[Path], Sequence[Path]]


def _chart(folder: Path) -> Sequence[Path]:
    target = folder / f"{NAME}-chart-{VERSION}.tgz"
    write_archive(target)
    return (target,)


def _wheel(folder: Path) -> Sequence[Path]:
    return wheel.write(folder, _say)


def _zipapp(folder: Path) -> Sequence[Path]:
    target = folder / f"holdfast-{VERSION}.pyz"
    zipapp.write(target)
    return (target,)


def _deb(folder: Path) -> Sequence[Path]:
    target = folder / f"holdfast_{VERSION}_all.deb"
    deb.write(target)
    return (target,)


def _rpm(folder: Path) -> Sequence[Path]:
    target = folder / f"holdfast-{VERSION}-{rpm.RELEASE}.noarch.rpm"
    rpm.write(target)
    return (target,)


def _bridge_image(folder: Path) -> Sequence[Path]:
    return _image(bridge.NAME, bridge.write, folder)


def _agent_image(folder: Path) -> Sequence[Path]:
    return _image(agent.NAME, agent.write, folder)


def _image(name: str, write: Callable[[Path, Path, Say], str], folder: Path) -> Sequence[Path]:
    if os.geteuid() != 0:
        raise SandboxError("an image needs root: its files belong to root")
    target = folder / f"{name}-{VERSION}.oci.tar"
    digest = write(target, cache(), _say)
    print(f"{name}@{digest}")
    return (target,)


def _programs(_: Path) -> Sequence[Path]:
    build(cache(), _say)
    download(cache(), _say)
    return ()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


PARTS: Mapping[str, Part] = {
    "wheel": Part("the wheel and the source distribution, checked with twine", _wheel),
    "chart": Part("the Helm chart", _chart),
    "zipapp": Part("the node's side as one file, without the bridge's dependencies", _zipapp),
    "deb": Part("the node's side for Debian and Ubuntu", _deb),
    "rpm": Part("the node's side for RPM systems (needs rpmbuild)", _rpm),
    "bridge-image": Part("the bridge's image, an OCI archive; as root", _bridge_image),
    "agent-image": Part(
        "the image of the agent's DaemonSet, an OCI archive; as root", _agent_image
    ),
    "programs": Part("for the tests: Helm and kubeconform, in the cache (2 minutes)", _programs),
}


def main(argv: Sequence[str]) -> int:
    """Exit status 0: written; 2: one part cannot be built here, with the reason."""
    width = max(map(len, PARTS)) + 2
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/package",
        description="Build the parts of a release from this tree. The same tree gives the same files.\n"
        + "\n".join(f"  {name:{width}}{part.about}" for name, part in PARTS.items()),
        epilog="example: scripts/package chart --to dist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", choices=PARTS, metavar="WHAT", help=", ".join(PARTS))
    parser.add_argument("--to", type=Path, default=TREE / "dist", help="folder (default: dist)")
    arguments = parser.parse_args(argv)
    arguments.to.mkdir(parents=True, exist_ok=True)
    try:
        for what in arguments.what:
            for path in PARTS[what].make(arguments.to):
                print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")
    except SandboxError as error:
        print(f"package: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
