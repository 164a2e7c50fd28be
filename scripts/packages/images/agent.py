"""The image of the agent's DaemonSet: what ``images/agent/Containerfile`` makes, without a daemon.

The pod enters slurmd's namespaces, where Holdfast is installed: the image has sh, nsenter and setpriv,
and nothing of Holdfast.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import quote

from oci import image, layer
from testbed.kube.toolchain import Say

from holdfast.version import VERSION
from packages.images import base
from packages.images.labels import labels
from packages.sbom import PACKAGE, cyclonedx

NAME = "holdfast-agent"
LABELS = labels(NAME, "Starts Holdfast's agent beside slurmd")
CONFIG = {"Cmd": ["sh"]}
SBOM = "usr/share/holdfast/sbom.cdx.json"


def write(target: Path, cache: Path, say: Say) -> str:
    """Writes the image; returns its digest. As root. Raises ``SandboxError``."""
    return write_on(base.root((), cache, say), target, cache)


def write_on(root: Path, target: Path, cache: Path) -> str:
    """The image with this root as its lower layer."""
    packages = [
        PACKAGE.format(kind="deb/debian", name=quote(name), version=quote(version))
        for name, version in base.installed(root)
    ]
    made = cyclonedx(NAME, VERSION, packages, {})
    with tempfile.TemporaryDirectory(dir=cache / "images") as scratch:
        folder = Path(scratch)
        sbom = folder / "more" / SBOM
        sbom.parent.mkdir(parents=True)
        sbom.write_text(json.dumps(made, indent=1) + "\n")
        layers = (
            layer.compressed(folder / "base", root, base.keep),
            layer.compressed(folder / "sbom", folder / "more"),
        )
        return image.write(target, image.Image(layers=layers, labels=LABELS, config=CONFIG))
