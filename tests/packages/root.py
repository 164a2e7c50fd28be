"""A minimal Debian to install packages into: one of the sandbox's roots below an overlay, so that what
an installation changed is what the overlay's upper folder has.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_ENTER = """
set -eu
root=$1 top=$2; shift 2
mkdir -p "$top/upper" "$top/work" "$top/all"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$top/upper,workdir=$top/work" "$top/all"
mount -t proc proc "$top/all/proc"
mount --bind /dev/null "$top/all/dev/null" 2>/dev/null || mount --rbind /dev "$top/all/dev"
mount -t tmpfs tmpfs "$top/all/run"
mount --bind "$top/packages" "$top/all/mnt"
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """``lower``: the root, which stays as it is. ``folder``: of the test. ``packages``: /mnt inside."""

    lower: Path
    folder: Path

    @property
    def packages(self) -> Path:
        path = self.folder / "packages"
        path.mkdir(exist_ok=True)
        return path

    def run(self, script: str) -> str:
        """Runs sh inside. Returns its output, with that of errors. Raises AssertionError when it fails."""
        return self._enter("chroot", str(self.folder / "all"), "sh", "-euc", script)

    def rpm(self, *args: str) -> str:
        """Runs this machine's rpm on the root: Debian's root has none. Its scripts run inside."""
        return self._enter("rpm", f"--root={self.folder / 'all'}", "--dbpath=/var/lib/rpm", *args)

    def _enter(self, *command: str) -> str:
        (self.folder / "packages").mkdir(exist_ok=True)
        argv = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--propagation=private",
        ]
        argv += ["sh", "-c", _ENTER, "sh", str(self.lower), str(self.folder), *command]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
            env=env,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def changed(self) -> list[str]:
        """Files that differ from the root, those of the package managers and their logs aside. A folder
        counts where the root has none.
        """
        upper = self.folder / "upper"
        found = []
        for here, folders, files in os.walk(upper):
            below = Path(here).relative_to(upper)
            new = [name for name in folders if not (self.lower / below / name).is_dir()]
            found += [str(below / name) for name in (*new, *files)]
        return sorted(name for name in found if not name.startswith(_BOOKS))


_BOOKS = ("var/lib/dpkg/", "var/lib/rpm", "var/log/", "var/cache/", "etc/ld.so.cache", "tmp/")
