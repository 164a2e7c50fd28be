"""Roots: a folder with one Slurm release and all it needs, made once from Debian's packages and never written to again.

Debian trixie packages Slurm 24.11, forky 26.05. mmdebstrap unpacks them without touching the host's own packages.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from testbed.errors import SandboxError
from testbed.shape import RELEASES, USERS

Say = Callable[[str], None]

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmrestd", "slurmdbd", "sackd", "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin", "munge", "mariadb-server", "python3", "python3-yaml", "python3-torch", "python3-venv",
    "procps", "iproute2", "curl", "fuse3",
)  # fmt: skip

_OPTIONS = (
    "--variant=minbase",
    "--format=directory",
    "--keyring=/usr/share/keyrings",
    # a mirror's frozen copy of testing may be past its Valid-Until
    '--aptopt=Acquire::Check-Valid-Until "false"',
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)
_NEEDED = (
    "usr/sbin/slurmctld",
    "usr/sbin/slurmd",
    "usr/sbin/slurmdbd",
    "usr/sbin/mariadbd",
    "usr/bin/python3",
)
MANIFEST = "manifest"


def given(folder: str) -> Path:
    """A root that was made elsewhere. Raises ``SandboxError`` when it lacks what a box needs."""
    root = Path(folder).resolve()
    missing = [name for name in _NEEDED if not (root / name).exists()]
    if missing:
        raise SandboxError(
            f"--root {folder}: {missing[0]} is not in it; it must hold a Debian with {', '.join(PACKAGES)}"
        )
    return root


def ensure(release: str, cache: Path, say: Say) -> Path:
    """The root of a release, built when the cache has none (minutes, once)."""
    root = cache / "roots" / release
    if root.is_dir():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / ".lock").open("w") as lock:
        with _heartbeat(f"another build in {root.parent} to end", say, quiet_s=2):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            _build(release, root, say)
    return root


def _build(release: str, root: Path, say: Say) -> None:
    suite, part = RELEASES[release], root.with_name(root.name + ".part")
    say(
        f"Building the root of Slurm {release} from Debian {suite} (once; about a minute, 1.5 GB in {root.parent})"
    )
    shutil.rmtree(part, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch, _heartbeat(f"packages of {suite}", say):
        # apt's gpgv runs as _apt and must be able to read the keyring beside it
        Path(scratch).chmod(0o755)
        program = _mmdebstrap(Path(scratch))
        source = f"deb {_mirror()} {suite} main"
        argv = [program, *_OPTIONS, f"--include={','.join(PACKAGES)}", suite, str(part), source]
        log = root.parent / f"{release}.log"
        with log.open("w") as output:
            done = subprocess.run(
                argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False
            )
    if done.returncode:
        lines = [
            line
            for line in log.read_text(errors="replace").splitlines()
            if line.startswith(("E:", "W:"))
        ]
        shutil.rmtree(part, ignore_errors=True)
        raise SandboxError(
            f"mmdebstrap could not build {suite}: {' '.join(lines[-3:])} (whole log: {log})"
        )
    for user, uid in USERS.items():
        subprocess.run(
            ["chroot", part, "useradd", "-m", "-u", str(uid), "-s", "/bin/bash", user], check=True
        )
    _write_manifest(part, root.parent / f"{release}.{MANIFEST}")
    part.rename(root)


def _write_manifest(root: Path, target: Path) -> None:
    """What exactly is in it: the pin of this root, readable beside it."""
    argv = [
        "chroot",
        str(root),
        "dpkg-query",
        "-W",
        "-f",
        "${Package} ${Version} ${Architecture}\n",
    ]
    target.write_text(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def _mmdebstrap(scratch: Path) -> str:
    """The program: the host's, else unpacked into ``scratch``, so nothing is installed on the host."""
    found = shutil.which("mmdebstrap")
    if found:
        return found
    if shutil.which("apt-get") is None:
        raise SandboxError(
            "mmdebstrap: not found, and no apt-get to fetch it with; install it and run this again"
        )
    for argv in (["apt-get", "download", "-qq", "mmdebstrap"], ["apt-get", "update", "-qq"]):
        if (
            subprocess.run(argv, cwd=scratch, capture_output=True, check=False).returncode == 0
            and argv[1] == "download"
        ):
            break
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
    else:
        subprocess.run(
            ["apt-get", "download", "-qq", "mmdebstrap"],
            cwd=scratch,
            capture_output=True,
            check=False,
        )
    packages = list(scratch.glob("mmdebstrap_*.deb"))
    if not packages:
        raise SandboxError("apt-get cannot download mmdebstrap; install it and run this again")
    subprocess.run(["dpkg", "-x", packages[0], scratch / "x"], check=True)
    return str(scratch / "x/usr/bin/mmdebstrap")


def _mirror() -> str:
    """DEBIAN_MIRROR, else the mirror that the host's own apt uses."""
    named = os.environ.get("DEBIAN_MIRROR")
    if named:
        return named
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    try:
        lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        lines = []
    mirrors = sorted({line for line in lines if "security" not in line and "debian" in line})
    return mirrors[0] if mirrors else "http://deb.debian.org/debian"


@contextlib.contextmanager
def _heartbeat(what: str, say: Say, quiet_s: float = 10) -> Iterator[None]:
    """Every ``quiet_s`` seconds, say that it still goes on and for how long."""
    done, start = threading.Event(), time.monotonic()

    def beat() -> None:
        while not done.wait(quiet_s):
            say(f"  {time.monotonic() - start:5.0f} s  still waiting for {what}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
