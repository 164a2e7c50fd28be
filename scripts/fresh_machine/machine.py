"""A machine with a minimal Debian: a folder, entered by pivot_root in its own mount and pid namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.paths import TREE
from testbed.rootfs import roots

_PASSED_ON = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "DEBIAN_MIRROR",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "GOPROXY", "GOSUMDB", "GONOSUMDB",
)  # fmt: skip
"""Settings for downloads, which the test machine inherits."""
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
_SITE_CERTIFICATES = "etc/site-certificates.crt"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ENTER = r"""
set -eu
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
while [ "$1" != -- ]; do
  mkdir -p "$root/$2"; mount --bind "$1" "$root/$2"; shift 2
done
shift
mkdir -p "$root/.old"
cd "$root"; pivot_root . .old; cd /; umount -l /.old; rmdir /.old
exec "$@"
"""
"""$1: the root; pairs of an outside folder and its inside path; --; the command, which becomes process 1.

pivot_root instead of chroot: in a chroot `unshare --propagation` and `nsenter --mount` see another root,
and no box starts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """``root``: its folder. ``shared``: folder of this machine -> path there, without the first '/'."""

    root: Path
    shared: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def install(cls, suite: str, root: Path, cache: Path) -> Machine:
        """A new machine in the folder ``root``: a copy of ``cache``/fresh/SUITE, built by mmdebstrap when absent.

        Raises ``SandboxError`` when the build fails.
        """
        first = cache / "fresh" / suite
        if not first.is_dir():
            first.parent.mkdir(parents=True, exist_ok=True)
            part = first.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            # Only the packages of a minimal Debian, and no apt options.
            roots.bootstrap(suite, part, first.with_suffix(".log"), ("--variant=minbase",))
            part.rename(first)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(first), str(root)], check=True)
        for name in ("resolv.conf", "hosts"):
            shutil.copyfile(Path("/etc") / name, root / "etc" / name)
        named = [os.environ[name] for name in _CERTIFICATES if os.environ.get(name)]
        if named:
            shutil.copyfile(named[0], root / _SITE_CERTIFICATES)
        return cls(root=root)

    def check_out(self, place: str, umask: int = 0o022) -> None:
        """Clone the working tree to ``place`` (a path there), with uncommitted changes."""
        target = self.root / place.lstrip("/")
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        git = ["git", "-C", str(TREE)]
        clone = ["git", "clone", "--quiet", "--no-hardlinks", str(TREE), str(target)]
        subprocess.run(clone, check=True, umask=umask)
        changed = subprocess.run(
            [*git, "ls-files", "-z", "--modified", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        for name in filter(None, changed):
            (target / name).unlink(missing_ok=True)
            if (TREE / name).exists():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(TREE / name, target / name)
                (target / name).chmod((TREE / name).stat().st_mode & ~umask)

    def argv(self, command: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Command that runs ``command`` there as process 1, with ``env`` and the download settings only."""
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        if (self.root / _SITE_CERTIFICATES).exists():
            passed |= dict.fromkeys(_CERTIFICATES, f"/{_SITE_CERTIFICATES}")
        settings = {"PATH": _PATH, **passed, **env}
        mounts = [
            word for outside, inside in self.shared.items() for word in (str(outside), inside)
        ]
        return [
            "setpriv", "--pdeathsig=KILL", "--",
            "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--propagation", "private", "--",
            "sh", "-c", _ENTER, "sh", str(self.root), *mounts, "--",
            "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in settings.items()), *command,
        ]  # fmt: skip

    def remove(self) -> None:
        shutil.rmtree(self.root)
