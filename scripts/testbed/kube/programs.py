"""etcd, kube-apiserver and kubectl: from KUBEBUILDER_ASSETS, else the cache, else built from Go modules.

``go.mod`` and ``go.sum`` in this folder pin them: Go refuses a module whose content has another
sum. To change the Kubernetes version: change the versions in ``go.mod`` (all of them) and run
``GOFLAGS=-mod=mod go mod tidy`` there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.toolchain import SAY_EVERY_S, Say, find_go, required_go, watched

MODULE = Path(__file__).parent

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
"""Program -> its Go package, fastest build first."""

_KUBERNETES = re.compile(r"^\s*k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)$", re.MULTILINE)

_ETCD = re.compile(r"etcd Version: (\d+)\.(\d+)")

OLDEST_ETCD = (3, 5)
"""Older versions cannot listen on a Unix socket by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Paths of the three programs."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path

    @classmethod
    def of(cls, folder: Path) -> Binaries:
        """The programs of ``folder`` under their usual names, existing or not."""
        return cls(
            etcd=folder / "etcd",
            kube_apiserver=folder / "kube-apiserver",
            kubectl=folder / "kubectl",
        )

    @property
    def missing(self) -> tuple[Path, ...]:
        """Programs that do not exist or are not executable."""
        return tuple(
            path
            for path in (self.etcd, self.kube_apiserver, self.kubectl)
            if not (path.is_file() and os.access(path, os.X_OK))
        )


def binaries(cache: Path, say: Say) -> Binaries:
    """The three programs, built once into ``cache``/kube (minutes).

    ``say`` gets a line of progress every few seconds. Two parallel calls build once. Raises
    ``SandboxError`` when ``KUBEBUILDER_ASSETS`` is set but incomplete, or when a build fails; a later
    call continues where this one stopped.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets:
        return _from_assets(Path(assets))
    folder = cache / "kube" / build_key()
    built = Binaries.of(folder)
    if not built.missing:
        return built
    with locked(cache / "kube" / "lock", say):
        if built.missing:
            name = ".".join(map(str, kubernetes_version((MODULE / "go.mod").read_text())))
            what = f"Kubernetes v{name} and etcd from their Go modules"
            build(what, PACKAGES, MODULE, folder, cache / "kube", say)
    return built


def is_built(cache: Path) -> bool:
    """Whether ``binaries`` has nothing to build."""
    named = os.environ.get("KUBEBUILDER_ASSETS", "")
    return bool(named) or not Binaries.of(cache / "kube" / build_key()).missing


def kubernetes_version(go_mod: str) -> tuple[int, int, int]:
    """The Kubernetes version that the text of a ``go.mod`` pins."""
    match = _KUBERNETES.search(go_mod)
    if not match:
        raise ValueError("go.mod requires no k8s.io/kubernetes")
    return int(match[1]), int(match[2]), int(match[3])


def etcd_version(text: str) -> tuple[int, int] | None:
    """Version in the output of ``etcd --version``; None when there is none."""
    match = _ETCD.search(text)
    return (int(match[1]), int(match[2])) if match else None


def build_key() -> str:
    """Name of a build in the cache: its version and a digest of all inputs."""
    go_mod = (MODULE / "go.mod").read_text()
    version = kubernetes_version(go_mod)
    statements = [line for line in go_mod.splitlines() if line and not line.startswith("//")]
    pins = "\n".join([*statements, (MODULE / "go.sum").read_text(), link_flags(version)])
    return f"v{'.'.join(map(str, version))}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"


def link_flags(version: tuple[int, int, int]) -> str:
    """Linker flags that strip symbols and set the version (else clients see v0.0.0)."""
    major, minor, patch = version
    values = {
        "gitVersion": f"v{major}.{minor}.{patch}",
        "gitMajor": str(major),
        "gitMinor": str(minor),
    }
    places = (
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    )  # reported version, user agent
    return " ".join(
        [
            "-s -w",
            *(f"-X {place}.{name}={value}" for place in places for name, value in values.items()),
        ]
    )


def go_env(environ: Mapping[str, str], own: Path | None) -> dict[str, str]:
    """Environment of a build: go.sum is enforced, no cgo, no other toolchain.

    ``own``: folder for Go's downloads; None for the user's default.
    """
    flags = [flag for flag in environ.get("GOFLAGS", "").split() if not flag.startswith("-mod=")]
    env = {
        **environ,
        "GOFLAGS": " ".join([*flags, "-mod=readonly"]),
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    if own:
        # writable, so that the cache can be removed without chmod
        env |= {
            "GOMODCACHE": str(own / "mod"),
            "GOCACHE": str(own / "build"),
            "GOFLAGS": env["GOFLAGS"] + " -modcacherw",
        }
    return env


def _from_assets(folder: Path) -> Binaries:
    found = Binaries.of(folder)
    if found.missing:
        names = ", ".join(path.name for path in found.missing)
        raise SandboxError(
            f"KUBEBUILDER_ASSETS={folder}: {names} is missing or not executable; "
            "add it or unset the variable"
        )
    answer = subprocess.run([found.etcd, "--version"], capture_output=True, text=True, check=False)
    version = etcd_version(answer.stdout)
    if version is None or version < OLDEST_ETCD:
        output = " ".join((answer.stdout or answer.stderr).split())[:100]
        raise SandboxError(
            f"KUBEBUILDER_ASSETS={folder}: etcd is too old or not etcd (output: '{output}'); "
            f"put {'.'.join(map(str, OLDEST_ETCD))} or newer there, or unset the variable"
        )
    return found


def build(
    what: str, packages: Mapping[str, str], module: Path, folder: Path, kube: Path, say: Say
) -> None:
    """Build the programs of ``packages`` (name -> Go package) into ``folder``; continues an earlier build.

    ``module``: the folder of the ``go.mod`` that pins them. ``kube``: where Go and the downloads are
    kept during the build. Raises ``SandboxError`` when it fails.
    """
    go_mod = (module / "go.mod").read_text()
    version = kubernetes_version(go_mod)
    go = find_go(kube, required_go(go_mod), say)
    own = None if _has_modules(go, version) else kube / "go"
    env = go_env(os.environ, own)
    say(f"building {what} (about 4 minutes, once) …")
    # Listing downloads exactly the modules that the programs need.
    listing = [str(go), "list", "-deps", "-f", "{{.ImportPath}}", *packages.values()]
    watched(listing, "downloading Go modules", say, unit="modules", cwd=module, env=env)
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    for program, package in packages.items():
        if (part / program).exists():
            continue
        began = time.monotonic()
        unfinished = part / f"{program}.unfinished"
        argv = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-o", str(unfinished)]
        argv += ["-ldflags", link_flags(version), package]
        watched(argv, f"building {program}", say, unit="packages", cwd=module, env=env)
        unfinished.rename(part / program)
        say(f"built {program} in {time.monotonic() - began:.0f} s")
    part.rename(folder)
    if own:
        shutil.rmtree(own, ignore_errors=True)  # 3 GB that are no longer needed


def _has_modules(go: Path, version: tuple[int, int, int]) -> bool:
    """Whether the user's Go cache already has this Kubernetes; then it is used."""
    answer = subprocess.run(
        [go, "env", "GOMODCACHE"], capture_output=True, text=True, timeout=20, check=False
    )
    held = (
        Path(answer.stdout.strip() or "/nonexistent")
        / "cache"
        / "download"
        / "k8s.io"
        / "kubernetes"
        / "@v"
    )
    return (held / f"v{'.'.join(map(str, version))}.zip").is_file()


@contextlib.contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; report while another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                say("waiting for another build of Kubernetes on this machine …")
                time.sleep(SAY_EVERY_S)
        yield
