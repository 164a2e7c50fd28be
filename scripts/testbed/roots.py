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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.shape import RELEASES, USERS

Say = Callable[[str], None]

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmrestd", "slurmdbd", "sackd", "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin", "munge", "mariadb-server", "python3", "python3-yaml", "python3-torch", "python3-venv",
    "procps", "iproute2", "curl",
)  # fmt: skip

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


def is_built(release: str, cache: Path) -> bool:
    return _place(release, cache).is_dir()


def _place(release: str, cache: Path) -> Path:
    return cache / "roots" / release


def problems(release: str) -> Iterator[str]:
    """What the build of a release's root would fail on, a line each: its program, its mirror. Takes seconds."""
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
                said = [line for line in answer.stderr.splitlines() if line[:2] == "E:"]
                yield f"{' '.join(said)[:300]}; DEBIAN_MIRROR names another mirror of Debian"
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
    """The packages of a root. Raises ``SandboxError`` with mmdebstrap's own words, and leaves no ``part``."""
    options = (
        *("--variant=minbase", f"--include={','.join(PACKAGES)}"),
        # a mirror's frozen copy of testing may be past its Valid-Until
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")),
    )
    bootstrap(suite, part, log, options)


def bootstrap(suite: str, folder: Path, log: Path, options: Sequence[str]) -> None:
    """Run mmdebstrap: a Debian ``suite`` in ``folder``, which must not be there; its words go to ``log``.

    Raises ``SandboxError`` with its last words, and leaves no ``folder``, when it fails.
    """
    with tempfile.TemporaryDirectory() as scratch, log.open("w") as output:
        # apt's gpgv runs as _apt and must be able to read the keyring beside it
        Path(scratch).chmod(0o755)
        program = _mmdebstrap(Path(scratch))
        fixed = ("--format=directory", "--keyring=/usr/share/keyrings")
        source = f"deb {_mirror()} {suite} main"
        argv = [*_ENDS_WITH_US, program, *fixed, *options, suite, str(folder), source]
        # It looks up its own helpers (mmtarfilter) in PATH.
        path = f"{Path(program).parent}:{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(
            argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "PATH": path}, umask=0o022,
        )  # fmt: skip
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
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
    if _apt_get(scratch, *fetch):
        _apt_get(scratch, "update", "-qq")
        said = _apt_get(scratch, *fetch)
        if said:
            raise SandboxError(f"apt-get cannot download mmdebstrap: {said}")
    packages = list(scratch.glob("mmdebstrap_*.deb"))
    subprocess.run(["dpkg", "-x", packages[0], scratch / "x"], check=True)
    return str(scratch / "x/usr/bin/mmdebstrap")


def _apt_get(folder: Path, *words: str) -> str:
    """Runs apt-get in ``folder``; empty when it did it, else its last words."""
    argv = ["apt-get", "-o", "DPkg::Lock::Timeout=120", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split())[-300:] if done.returncode else ""


def _mirror() -> str:
    """DEBIAN_MIRROR, else the host's own apt mirror. Raises ``SandboxError`` when there is none."""
    named = os.environ.get("DEBIAN_MIRROR")
    if named:
        return named
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)"]
    try:
        said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        said = ""
    found = debian_mirror(said)
    if found is None:
        raise SandboxError(
            "apt names no Debian mirror (on an Ubuntu it has none); put one into DEBIAN_MIRROR and run this again"
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
