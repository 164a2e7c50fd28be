"""Go modules, downloaded with Go's own client, which verifies their checksums."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from testbed.errors import SandboxError
from testbed.kube.programs import go_env
from testbed.kube.toolchain import Say, find_go

_GO = (1, 22)


class GoModule(NamedTuple):
    """``checksum``: as in a go.sum file."""

    folder: Path
    checksum: str


def download(module: str, cache: Path, say: Say) -> GoModule:
    """``module``: as ``k8s.io/kubernetes@v1.30.0``. Raises ``SandboxError`` where it cannot be downloaded."""
    go = find_go(cache / "kube", _GO, say)
    # Outside of any module: no go.mod is read or changed.
    done = subprocess.run(
        [str(go), "mod", "download", "-json", module],
        cwd="/",
        env=go_env(os.environ, None),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(f"go mod download: {(done.stdout + done.stderr).strip()[-400:]}")
    answer = json.loads(done.stdout)
    return GoModule(Path(answer["Dir"]), answer["Sum"])
