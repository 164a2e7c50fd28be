"""kubelet, kube-proxy, kube-scheduler, kube-controller-manager and a pause program, built from Go modules.

``go.mod`` and ``go.sum`` in this folder pin them at the version of the API server (``testbed/kube``).
They have a cache of their own: a box without pods needs none of them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from testbed.kube.programs import build, kubernetes_version, link_flags, locked
from testbed.kube.toolchain import Say

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
    # The lock of the other build of Kubernetes: both may share Go's downloads.
    with locked(cache / "kube" / "lock", say):
        if not folder.is_dir():
            what = "kubelet and what it works with from their Go modules"
            build(what, PACKAGES, MODULE, folder, cache / "kube", say)
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
