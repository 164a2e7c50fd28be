"""What the machines of a box with pods need: programs, a root file system, images. Built once, then cached."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oci import image
from oci.layer import of_tar, write_tar

from testbed.pods.programs import build_key, programs
from testbed.pods.programs import is_built as programs_are_built
from testbed.rootfs import roots
from testbed.rootfs.layers import Say, digest_of
from testbed.shape import BRIDGE_FILE, DEBIAN_FILE, PAUSE_FILE, RELEASES, USERS

MACHINE_SUITE = "trixie"
MACHINE_PACKAGES = (
    "containerd", "runc", "containernetworking-plugins", "nftables", "iproute2", "mount", "util-linux", "coreutils",
    "bash", "dash", "grep", "sed", "procps",
)  # fmt: skip
"""The root of a Kubernetes node: kubelet and kube-proxy, which need these, are added when a box starts."""

BRIDGE_PACKAGES = (
    *("python3", "python3-yaml", "slurm-client", "slurm-wlm-jwt-plugin"),
    *("munge", "sackd"),
)
"""As in images/bridge/Containerfile, and PyYAML from Debian."""

BRIDGE_UID = USERS["holdfast"]
"""The uid of the bridge's Slurm user: by it Slurm's commands in the pod know the user's name."""

_KEPT = 3

PAUSE = "sandbox.local/pause:1"
DEBIAN = "sandbox.local/debian"
BRIDGE = "sandbox.local/holdfast"

_OPTIONS = (
    # a mirror's snapshot of testing may be past its Valid-Until
    '--aptopt=Acquire::Check-Valid-Until "false"',
    '--aptopt=APT::Install-Recommends "false"',
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")),
)
_RUNS_PODS = re.compile(r"usr/(lib/cni|share|s?bin/(containerd|ctr|runc|nft|xtables))|var/|dev/")
_NOT_IN_AN_IMAGE = (
    "dev/", "proc/", "sys/", "run/", "tmp/", "var/cache/", "var/lib/apt/", "var/log/", "etc/munge/munge.key",
)  # fmt: skip


def bridge_config(uid: int | str) -> Mapping[str, object]:
    """The settings of the bridge's image, here and in a release. ``uid``: of its Slurm user."""
    path = "/opt/holdfast/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "User": f"{uid}:{uid}",
        "Env": [f"PATH={path}"],
        "Entrypoint": ["holdfast"],
        "Cmd": ["bridge"],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """``files``: (name below /opt/pods of a box, path on the host). Images by digest: the bridge's, and one
    of Debian, in which agents and worker pods enter other namespaces.
    """

    files: tuple[tuple[str, str], ...]
    bridge_image: str
    debian_image: str


NONE = Assets(files=(), bridge_image="", debian_image="")
"""Of a box without pods."""


def is_built(cache: Path, release: str) -> bool:
    """Whether ``prepare`` takes seconds and not minutes."""
    folder = cache / "pods"
    return (
        programs_are_built(cache)
        and _machine_place(folder).is_dir()
        and _base_place(folder, release).exists()
    )


def prepare(cache: Path, layers: Sequence[Path], release: str, say: Say) -> Assets:
    """Everything for a box of this Slurm release; ``layers``: Holdfast's dependencies, then Holdfast.

    Raises ``SandboxError`` when something cannot be built.
    """
    folder = cache / "pods"
    folder.mkdir(parents=True, exist_ok=True)
    built = programs(cache, say)
    with (folder / "assets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine = _machine(folder, say)
        pause, _ = _pause(folder, built)
        debian, debian_image = _debian(folder, machine)
        bridge, bridge_image = _bridge(folder, layers, release, say)
    files = [(f"bin/{path.name}", str(path)) for path in sorted(built.iterdir())]
    files += [("root", str(machine))]
    files += [
        (f"images/{name}", str(path))
        for name, path in ((PAUSE_FILE, pause), (DEBIAN_FILE, debian), (BRIDGE_FILE, bridge))
    ]
    return Assets(files=tuple(files), bridge_image=bridge_image, debian_image=debian_image)


def _machine_place(folder: Path) -> Path:
    return folder / f"machine-{digest_of(MACHINE_SUITE, *MACHINE_PACKAGES)}"


def _base_place(folder: Path, release: str) -> Path:
    key = digest_of(RELEASES[release], str(BRIDGE_UID), *BRIDGE_PACKAGES)
    return folder / f"bridge-{release}-{key}.layer"


def _machine(folder: Path, say: Say) -> Path:
    final = _machine_place(folder)
    if not final.is_dir():
        say(f"Building the root of Kubernetes nodes from Debian {MACHINE_SUITE} (once; 240 MB)")
        options = ("--variant=extract", f"--include={','.join(MACHINE_PACKAGES)}", *_OPTIONS)
        _bootstrap(MACHINE_SUITE, final, options)
    return final


def _bootstrap(suite: str, final: Path, options: Sequence[str]) -> None:
    part = final.with_name(final.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    roots.bootstrap(suite, part, final.with_name(final.name + ".log"), options)
    part.rename(final)


def _pause(folder: Path, built: Path) -> tuple[Path, str]:
    """The image of a pod's sandbox container: one program."""
    layer = folder / f"{build_key()}.pause.layer"
    if not layer.exists():
        write_tar(layer, built, keep=lambda name: name == "pause")
    config = {"Entrypoint": ["/pause"]}
    return _image(folder / f"{build_key()}.pause.tar", PAUSE, [layer], config)


def _debian(folder: Path, machine: Path) -> tuple[Path, str]:
    """A small Debian: the machines' root without what runs pods."""
    layer = folder / f"{machine.name}.layer"
    if not layer.exists():
        write_tar(layer, machine, keep=lambda name: not _RUNS_PODS.match(name))
    return _image(folder / f"{machine.name}.tar", DEBIAN, [layer], {"Cmd": ["sh"]})


def _image(
    target: Path, name: str, layers: Sequence[Path], config: Mapping[str, object]
) -> tuple[Path, str]:
    """The archive of an image and its reference; written once."""
    reference = target.with_suffix(".name")
    if not (target.exists() and reference.exists()):
        made = image.Image(name=name, layers=tuple(map(of_tar, layers)), config=config)
        reference.write_text(image.reference(name, image.write(target, made)))
    return target, reference.read_text()


def _bridge(folder: Path, holdfast: Sequence[Path], release: str, say: Say) -> tuple[Path, str]:
    """The image of the bridge: Slurm's client tools of the release, dependencies, Holdfast."""
    base = _bridge_base(folder, release, say)
    layers = [base, *(_layer(folder, layer) for layer in holdfast)]
    target = folder / f"holdfast-{digest_of(*(layer.name for layer in layers))}.tar"
    if not target.exists():
        _keep_newest(folder, "holdfast-*.tar")
    return _image(target, BRIDGE, layers, bridge_config(BRIDGE_UID))


def _keep_newest(folder: Path, pattern: str) -> None:
    """Removes all but the newest files; a box that runs keeps those that it has."""
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    for old in found[:-_KEPT]:
        old.unlink()


def _bridge_base(folder: Path, release: str, say: Say) -> Path:
    suite, layer = RELEASES[release], _base_place(folder, release)
    if layer.exists():
        return layer
    say(f"Building the bridge's image for Slurm {release} from Debian {suite} (once; 250 MB)")
    root = folder / f"{layer.stem}.root"
    shutil.rmtree(root, ignore_errors=True)
    options = ("--variant=minbase", f"--include={','.join(BRIDGE_PACKAGES)}", *_OPTIONS)
    _bootstrap(suite, root, options)
    words = ("useradd", f"--uid={BRIDGE_UID}", "--user-group", "--no-create-home", "--home-dir=/nonexistent",
             "--shell=/usr/sbin/nologin", "holdfast")  # fmt: skip
    subprocess.run(["/usr/sbin/chroot", root, *words], check=True)
    write_tar(layer, root, keep=lambda name: not name.startswith(_NOT_IN_AN_IMAGE))
    shutil.rmtree(root)
    return layer


def _layer(folder: Path, source: Path) -> Path:
    """A cached layer of a box as a tar; its name has the digest of its content."""
    target = folder / f"{source.name}.layer"
    if not target.exists():
        _keep_newest(folder, "product-*.layer")
        write_tar(target, source)
    return target
