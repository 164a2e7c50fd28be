"""kubelet, kube-proxy, kube-scheduler, kube-controller-manager and a pause program, built from Go modules.

``go.mod`` and ``go.sum`` in this folder pin them at the version of the API server (``testbed/kube``).
They have a cache of their own: a box without pods needs none of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from pathlib import Path

from testbed.kube.programs import go_env, kubernetes_version, link_flags
from testbed.kube.toolchain import Say, find_go, required_go, watched

MODULE = Path(__file__).parent

PACKAGES = {
    "pause": "./pause",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
"""Program -> its Go package, fastest build first."""


def programs(cache: Path, say: Say) -> Path:
    """The folder of the programs, built once below ``cache``/pods (minutes).

    Two parallel calls build once. Raises ``SandboxError`` when a build fails; a later call continues
    where this one stopped.
    """
    folder = cache / "pods" / build_key()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _build(cache, folder, say)
    return folder


def is_built(cache: Path) -> bool:
    """Whether ``programs`` has nothing to build."""
    return (cache / "pods" / build_key()).is_dir()


def build_key() -> str:
    """Name of a build in the cache: its version and a digest of all inputs."""
    texts = [
        (MODULE / name).read_bytes() for name in ("go.mod", "go.sum", "tools.go", "pause/main.go")
    ]
    version = kubernetes_version(texts[0].decode())
    digest = hashlib.sha256(b"\0".join([*texts, link_flags(version).encode()])).hexdigest()
    return f"programs-v{'.'.join(map(str, version))}-{digest[:12]}"


def _build(cache: Path, folder: Path, say: Say) -> None:
    go_mod = (MODULE / "go.mod").read_text()
    go = find_go(cache / "kube", required_go(go_mod), say)
    env = go_env(os.environ, None)
    say("building kubelet and its helpers from their Go modules (about 4 minutes, once) …")
    part = folder.with_name(folder.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    for program, package in PACKAGES.items():
        if (part / program).exists():
            continue
        began = time.monotonic()
        unfinished = part / f"{program}.unfinished"
        argv = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-o", str(unfinished)]
        argv += ["-ldflags", link_flags(kubernetes_version(go_mod)), package]
        watched(argv, f"building {program}", say, unit="packages", cwd=MODULE, env=env)
        unfinished.rename(part / program)
        say(f"built {program} in {time.monotonic() - began:.0f} s")
    part.rename(folder)
