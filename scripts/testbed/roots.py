"""Roots: a folder with one Slurm release and all it needs, made once from Debian's packages and never written to again.

Debian trixie packages Slurm 24.11, forky 26.05. mmdebstrap unpacks them without touching the host's own packages.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
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
    "procps", "iproute2", "curl",
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
_ENDS_WITH_US = (
    "setpriv", "--pdeathsig=KILL", "--",
    "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation", "private", "--",
)  # fmt: skip
"""A build whose `up` is killed leaves neither a process nor a mount."""

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
    # Some are absolute links (/etc/alternatives), which lead elsewhere when read from outside.
    missing = [name for name in _NEEDED if not os.path.lexists(root / name)]
    if missing:
        raise SandboxError(
            f"--root {folder}: {missing[0]} is not in it; it must hold a Debian with {', '.join(PACKAGES)}"
        )
    return root


def release_of(root: Path) -> str:
    """`25.11`: of the Slurm in a root. Raises ``SandboxError`` when it does not say."""
    argv = ["/usr/sbin/chroot", str(root), "/usr/sbin/slurmctld", "-V"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    match = re.search(r" (\d\d\.\d\d)\.", said)
    if not match:
        raise SandboxError(
            f"{root}: its slurmctld does not run or does not say its release: {said}"
        )
    return match[1]


def ensure(release: str, cache: Path, say: Say) -> Path:
    """The root of a release, built when the cache has none (minutes, once)."""
    root = cache / "roots" / release
    if root.is_dir():
        _check_manifest(root)
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / ".lock").open("w") as lock:
        with _heartbeat(f"another build in {root.parent} to end", say, quiet_s=2):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            _build(release, root, say)
    return root


def _check_manifest(root: Path) -> None:
    """Raises ``SandboxError`` when this root was built before ``PACKAGES`` grew."""
    manifest = root.parent / f"{root.name}.{MANIFEST}"
    if not manifest.exists():
        return
    present = {line.split()[0] for line in manifest.read_text().splitlines()}
    missing = [name for name in PACKAGES if name not in present]
    if missing:
        raise SandboxError(
            f"{root} is out of date, it lacks {missing[0]}: rm -r {root} and try again"
        )


def _build(release: str, root: Path, say: Say) -> None:
    suite, part = RELEASES[release], root.with_name(root.name + ".part")
    say(f"Building the root of Slurm {release} from Debian {suite} (once; 1.5 GB in {root.parent})")
    begin = time.monotonic()
    shutil.rmtree(part, ignore_errors=True)
    with _heartbeat(f"packages of {suite}", say):
        _unpack(suite, part, root.parent / f"{release}.log")
    for user, uid in USERS.items():
        words = ("useradd", "--create-home", f"--uid={uid}", "--shell=/bin/bash", user)
        subprocess.run(["/usr/sbin/chroot", part, *words], check=True)
    _write_manifest(part, root.parent / f"{release}.{MANIFEST}")
    part.rename(root)
    say(f"  {time.monotonic() - begin:5.0f} s  root of Slurm {release} ready")


def _unpack(suite: str, part: Path, log: Path) -> None:
    """Run mmdebstrap. Raises ``SandboxError`` with its own words, and leaves no ``part``, when it fails."""
    with tempfile.TemporaryDirectory() as scratch, log.open("w") as output:
        # apt's gpgv runs as _apt and must be able to read the keyring beside it
        Path(scratch).chmod(0o755)
        program = _mmdebstrap(Path(scratch))
        source = f"deb {_mirror()} {suite} main"
        include = f"--include={','.join(PACKAGES)}"
        argv = [*_ENDS_WITH_US, program, *_OPTIONS, include, suite, str(part), source]
        # It looks up its own helpers (mmtarfilter) in PATH.
        path = f"{Path(program).parent}:{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(
            argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
    if done.returncode:
        shutil.rmtree(part, ignore_errors=True)
        said = [line for line in log.read_text(errors="replace").splitlines() if line[:2] == "E:"]
        raise SandboxError(
            f"mmdebstrap could not build {suite}: {' '.join(said[-3:])} (whole log: {log})"
        )


def _write_manifest(root: Path, target: Path) -> None:
    """What exactly is in it: the pin of this root, readable beside it."""
    shown = "${Package} ${Version} ${Architecture}\n"
    argv = ["/usr/sbin/chroot", str(root), "dpkg-query", "-W", "-f", shown]
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
    fetch = ("download", "-qq", "mmdebstrap")
    if not _apt_get(scratch, *fetch):
        _apt_get(scratch, "update", "-qq")
        _apt_get(scratch, *fetch)
    packages = list(scratch.glob("mmdebstrap_*.deb"))
    if not packages:
        raise SandboxError("apt-get cannot download mmdebstrap; install it and run this again")
    subprocess.run(["dpkg", "-x", packages[0], scratch / "x"], check=True)
    return str(scratch / "x/usr/bin/mmdebstrap")


def _apt_get(folder: Path, *words: str) -> bool:
    done = subprocess.run(["apt-get", *words], cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def _mirror() -> str:
    """DEBIAN_MIRROR, else the host's own apt mirror. Raises ``SandboxError`` when there is none."""
    named = os.environ.get("DEBIAN_MIRROR")
    if named:
        return named
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    try:
        lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        lines = []
    mirrors = sorted({line for line in lines if "security" not in line and "debian" in line})
    if not mirrors:
        raise SandboxError(
            "apt names no Debian mirror; put one into DEBIAN_MIRROR and run this again"
        )
    return mirrors[0]


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
