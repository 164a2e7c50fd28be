"""Roots: folders with one Slurm release and its dependencies, built once from Debian packages, then read-only.

Debian trixie packages Slurm 24.11, forky 26.05. mmdebstrap unpacks them without changing the
host's packages.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed.debian import unpack
from testbed.errors import SandboxError
from testbed.shape import RELEASES, USERS

Say = Callable[[str], None]

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmrestd", "slurmdbd", "sackd", "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin", "munge", "mariadb-server", "python3", "python3-yaml", "python3-torch", "python3-venv",
    "procps", "iproute2", "curl",
)  # fmt: skip

_ENDS_WITH_PARENT = (
    "setpriv", "--pdeathsig=KILL", "--",
    "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation", "private", "--",
)  # fmt: skip
"""If `up` is killed, the build leaves no process and no mount."""

_NEEDED = (
    "usr/sbin/slurmctld",
    "usr/sbin/slurmd",
    "usr/sbin/slurmdbd",
    "usr/sbin/mariadbd",
    "usr/bin/python3",
)
MANIFEST = "manifest"


def given(folder: str) -> Path:
    """A root made elsewhere. Raises ``SandboxError`` when a required file is missing."""
    root = Path(folder).resolve()
    # Some are absolute links (/etc/alternatives), which resolve differently outside the root.
    missing = [name for name in _NEEDED if not os.path.lexists(root / name)]
    if missing:
        raise SandboxError(
            f"--root {folder}: {missing[0]} is missing; it must hold a Debian with {', '.join(PACKAGES)}"
        )
    return root


def release_of(root: Path) -> str:
    """`25.11`: release of the Slurm in a root. Raises ``SandboxError`` when it cannot be read."""
    argv = ["/usr/sbin/chroot", str(root), "/usr/sbin/slurmctld", "-V"]
    output = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    match = re.search(r" (\d\d\.\d\d)\.", output)
    if not match:
        raise SandboxError(
            f"{root}: its slurmctld does not run or does not print its release: {output}"
        )
    return match[1]


def is_built(release: str, cache: Path) -> bool:
    return _place(release, cache).is_dir()


def _place(release: str, cache: Path) -> Path:
    return cache / "roots" / release


def problems(release: str) -> Iterator[str]:
    """Problems on which a build of a release's root would fail, a line each. Takes seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            program = _mmdebstrap(Path(scratch))
            # Perl loads all of its modules before it looks at the options.
            answer = subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=False
            )
            if answer.returncode:
                yield f"mmdebstrap does not run: {' '.join(answer.stderr.split())[:200]}"
            index = f"{_mirror().rstrip('/')}/dists/{RELEASES[release]}/InRelease"
            answer = subprocess.run(
                ["/usr/lib/apt/apt-helper", "download-file", index, f"{scratch}/InRelease"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if answer.returncode:
                errors = [line for line in answer.stderr.splitlines() if line[:2] == "E:"]
                yield f"{' '.join(errors)[:300]}; DEBIAN_MIRROR selects another Debian mirror"
        except (SandboxError, OSError) as error:
            yield str(error)


def ensure(release: str, cache: Path, say: Say) -> Path:
    """The root of a release, built when the cache has none (minutes, once)."""
    root = _place(release, cache)
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
    """Unpack a root's packages. On failure raises ``SandboxError`` with mmdebstrap's message and removes ``part``."""
    options = (
        *("--variant=minbase", f"--include={','.join(PACKAGES)}"),
        # a mirror's snapshot of testing may be past its Valid-Until
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")),
    )
    bootstrap(suite, part, log, options)


def bootstrap(suite: str, folder: Path, log: Path, options: Sequence[str]) -> None:
    """Run mmdebstrap: a Debian ``suite`` in ``folder``, which must not exist; its output goes to ``log``.

    On failure raises ``SandboxError`` with its last messages and removes ``folder``.
    """
    with tempfile.TemporaryDirectory() as scratch, log.open("w") as output:
        # apt's gpgv runs as _apt and must be able to read the keyring beside it
        Path(scratch).chmod(0o755)
        program = _mmdebstrap(Path(scratch))
        fixed = ("--format=directory", "--keyring=/usr/share/keyrings")
        source = f"deb {_mirror()} {suite} main"
        argv = [*_ENDS_WITH_PARENT, program, *fixed, *options, suite, str(folder), source]
        # It finds its helpers (mmtarfilter) through PATH.
        path = f"{Path(program).parent}:{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(
            argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "PATH": path}, umask=0o022,
        )  # fmt: skip
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        errors = [line for line in log.read_text(errors="replace").splitlines() if line[:2] == "E:"]
        raise SandboxError(
            f"mmdebstrap could not build {suite}: {' '.join(errors[-3:])} (full log: {log})"
        )


def _write_manifest(root: Path, target: Path) -> None:
    """Write the exact package versions of a root beside it."""
    shown = "${Package} ${Version} ${Architecture}\n"
    argv = ["/usr/sbin/chroot", str(root), "dpkg-query", "-W", "-f", shown]
    target.write_text(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def _mmdebstrap(scratch: Path) -> str:
    """Path of mmdebstrap: the host's, else unpacked into ``scratch``; nothing is installed on the host."""
    found = shutil.which("mmdebstrap")
    if found:
        return found
    return str(unpack("mmdebstrap", scratch) / "usr/bin/mmdebstrap")


def _mirror() -> str:
    """DEBIAN_MIRROR, else the host's own apt mirror. Raises ``SandboxError`` when there is none."""
    named = os.environ.get("DEBIAN_MIRROR")
    if named:
        return named
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"]
    try:
        targets = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        targets = ""
    found = debian_mirror(targets)
    if found is None:
        raise SandboxError(
            "apt has no Debian mirror configured (Ubuntu has none); set DEBIAN_MIRROR and run this again"
        )
    return found


def debian_mirror(targets: str) -> str | None:
    """The first mirror of Debian itself among apt's ``targets`` (a line each: origin, suite, address)."""
    rows = (line.split() for line in targets.splitlines())
    found = {
        row[2]
        for row in rows
        if len(row) == 3 and row[0] == "Debian" and not row[1].endswith("-security")
    }
    return min(found, default=None)


@contextlib.contextmanager
def _heartbeat(what: str, say: Say, quiet_s: float = 10) -> Iterator[None]:
    """Report every ``quiet_s`` seconds that the wait continues."""
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
