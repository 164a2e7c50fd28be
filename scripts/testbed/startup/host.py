"""Checks that this machine can run a box, before minutes of work; reports all problems at once.

Packages are not checked here: scripts/env.sh installs them (holdfast_packages) before any Python runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube import is_built
from testbed.pods import programs as programs_of_pods
from testbed.pods import requirements
from testbed.rootfs import roots

_COMMANDS = ("unshare", "nsenter", "setpriv", "mount", "pivot_root", "hostname", "ip")
_GIB = 2**30
ROOT_GIB = 2.5
"""A root of 1.6 GiB, and the packages that it is unpacked from."""
KUBE_GIB = 5.0
"""Go, 3 GB of modules, and Go's build cache."""
BOX_GIB = 0.5
MEMORY_GIB = 3.5
"""A build of Kubernetes needs 1.7 GiB, a box of four nodes with a training job about 3."""

_TRY = r"""
exec 2>/dev/null
mount -t tmpfs none "$2" || echo 'tmpfs: root cannot mount here (a container without CAP_SYS_ADMIN?)'
mkdir "$2/upper" "$2/work" "$2/new"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" none "$2/new" ||
  echo "overlayfs: this kernel cannot mount it over $1: modprobe overlay, or set HOLDFAST_CACHE to another folder"
mkdir "$2/proc" && mount -t proc none "$2/proc" || echo 'proc: cannot be mounted in a pid namespace here'
mknod "$2/null" c 1 3 || echo 'mknod: cannot create device nodes here (a container without CAP_MKNOD?)'
ip link add br0 type bridge || echo 'bridge: this kernel has no network bridge: modprobe bridge'
ip link add v0 type veth peer name v1 || echo 'veth: this kernel has no veth interfaces: modprobe veth'
exit 0
"""
"""$1: the cache; $2: an empty folder. One line on standard output for each thing that does not work."""


def path() -> str:
    """PATH with the folders of system programs added."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


def check(cache: Path, release: str | None, *, pods: bool = False) -> None:
    """Raises ``SandboxError`` with everything on which a box, or the build of its parts, would fail.

    ``cache``: the folder for builds. ``release``: the Slurm release of the box's root; None for a root
    that was made elsewhere. ``pods``: the box runs pods.
    """
    builds_root = release is not None and not roots.is_built(release, cache)
    builds_kube = not is_built(cache)
    builds_pods = pods and not programs_of_pods.is_built(cache)
    wanted_gib = BOX_GIB + ROOT_GIB * builds_root + KUBE_GIB * builds_kube
    wanted_gib += requirements.DISK_GIB * pods + requirements.BUILD_GIB * builds_pods
    found = [*_missing_commands()]
    if not found:
        found += _refused(cache)
    found += _too_little_space(cache, wanted_gib)
    if builds_root or builds_kube or builds_pods:
        found += _too_little_memory(Path("/proc/meminfo").read_text())
    if release is not None and builds_root:
        found += roots.problems(release)
    if found:
        raise SandboxError(together(found))


def together(problems: Iterable[str]) -> str:
    """One problem as it is; several as a list, one a line."""
    lines = list(problems)
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} problems on this machine:", *(f"  {line}" for line in lines)])


def _missing_commands() -> Iterator[str]:
    missing = [name for name in _COMMANDS if shutil.which(name, path=path()) is None]
    if missing:
        yield f"{', '.join(missing)}: not found; install Debian's util-linux, mount, hostname and iproute2"


def _too_little_space(cache: Path, wanted_gib: float) -> Iterator[str]:
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free_gib = shutil.disk_usage(there).free / _GIB
    if free_gib < wanted_gib:
        yield (
            f"disk: {free_gib:.1f} GiB are free in {there}, {wanted_gib:.1f} are needed; "
            "free some space, or set HOLDFAST_CACHE to another folder"
        )


def _too_little_memory(meminfo: str) -> Iterator[str]:
    """``meminfo``: the text of /proc/meminfo."""
    rows = dict(line.split(":") for line in meminfo.splitlines() if ":" in line)
    free_gib = int(rows["MemAvailable"].split()[0]) / 2**20
    if free_gib < MEMORY_GIB:
        yield f"memory: {free_gib:.1f} GiB are available, {MEMORY_GIB:.1f} are needed; stop other programs first"


def _refused(cache: Path) -> Iterator[str]:
    """What the kernel refuses. Tries everything that a box needs once, in separate namespaces."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            "unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--kill-child=KILL",
            "--propagation", "private", "sh", "-c", _TRY, "sh", str(cache), folder,
        ]  # fmt: skip
        tried = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": path()},
        )  # fmt: skip
    yield from tried.stdout.splitlines()
    if not tried.stdout and tried.returncode:
        output = " ".join(tried.stderr.split())[-300:]
        yield f"namespaces: this machine does not create them, even for root: {output}"
