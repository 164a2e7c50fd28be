"""Whether the set-up has changed since it last passed: a file in the cache, named by the set-up's digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from testbed.paths import TREE

_SET_UP = (
    "scripts/env.sh",
    "scripts/demo",
    "scripts/sandbox",
    "scripts/test",
    "scripts/fresh_machine/*.py",
    "scripts/testbed/startup/boot.py",
    "scripts/testbed/startup/host.py",
    "scripts/testbed/startup/lifecycle.py",
    "scripts/testbed/rootfs/layers.py",
    "scripts/testbed/namespaces/pidfd.py",
    "scripts/testbed/rootfs/product.py",
    "scripts/testbed/rootfs/roots.py",
    "scripts/testbed/h100/library.py",
    "scripts/testbed/kube/go.*",
    "scripts/testbed/kube/programs.py",
    "scripts/testbed/kube/toolchain.py",
    "requirements.lock",
    "pyproject.toml",
    "docs/howto/install.md",
    "images/bridge/*",
)
"""Files of the set-up that the README's commands run first, and the page that a fresh machine follows."""


def passed(cache: Path) -> Path:
    """The file that exists when this set-up has passed."""
    digest = hashlib.sha256()
    for pattern in _SET_UP:
        for path in sorted(TREE.glob(pattern)):
            digest.update(f"{path.relative_to(TREE)}\0".encode() + path.read_bytes() + b"\0")
    return cache / "fresh" / f"passed-{digest.hexdigest()[:16]}"
