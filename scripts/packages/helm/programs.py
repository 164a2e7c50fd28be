"""Helm and kubeconform: from the machine, else built once from their Go modules.

``go.mod`` and ``go.sum`` in this folder pin them: Go refuses a module whose content has another sum.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from testbed.kube.programs import go_env
from testbed.kube.toolchain import Say, find_go, required_go, watched

MODULE = Path(__file__).parent


class Tool(Enum):
    """A program and its Go package."""

    HELM = "helm.sh/helm/v3/cmd/helm"
    KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform"

    @property
    def program(self) -> str:
        return self.value.rpartition("/")[2]


def find(tool: Tool, cache: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The program that ``HOLDFAST_HELM`` (or ``…_KUBECONFORM``) names, else the one that was built,
    else the one on PATH; None without any.
    """
    named = environ.get(f"HOLDFAST_{tool.program.upper()}", "")
    if named:
        return Path(named)
    made = _made(cache) / tool.program
    if os.access(made, os.X_OK):
        return made
    found = shutil.which(tool.program, path=environ.get("PATH"))
    return Path(found) if found else None


def build(cache: Path, say: Say) -> Path:
    """The folder of the built programs, below ``cache``/helm (about two minutes, once).

    Two parallel calls build once. Raises ``SandboxError`` when a build fails; a later call continues
    where this one stopped.
    """
    folder = _made(cache)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for tool in Tool:
            if not os.access(folder / tool.program, os.X_OK):
                _build(tool, cache, folder, say)
    return folder


def _made(cache: Path) -> Path:
    texts = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum", "tools.go")]
    return cache / "helm" / hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _build(tool: Tool, cache: Path, folder: Path, say: Say) -> None:
    go = find_go(cache / "kube", required_go((MODULE / "go.mod").read_text()), say)
    say(f"building {tool.program} from its Go module (about a minute, once) …")
    began = time.monotonic()
    unfinished = folder / f"{tool.program}.unfinished"
    argv = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    argv += ["-o", str(unfinished), tool.value]
    watched(
        argv,
        f"building {tool.program}",
        say,
        unit="packages",
        cwd=MODULE,
        env=go_env(os.environ, None),
    )
    unfinished.rename(folder / tool.program)
    say(f"built {tool.program} in {time.monotonic() - began:.0f} s")
