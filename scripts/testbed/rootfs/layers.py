"""Layers: folders mounted over a release's root in a box, built once for each content.

A layer is named by a hash of its content: a box keeps the layer that it was started with, and an
unchanged tree is not built again. Layers are byte-compiled with the root's Python, because the
start-up time of a hook is measured.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from testbed.errors import SandboxError
from testbed.h100 import build_library
from testbed.paths import TREE, cache
from testbed.running_box import RunningBox

Say = Callable[[str], None]
_KEEP = 12
_FRESH_S = 3600
"""A box that is still starting is not listed yet."""
_ALONE = ("unshare", "--mount", "--propagation", "private")


def sandbox_layer() -> Path:
    """`/opt/sandbox`: the modules that run inside a box."""
    here = TREE / "scripts/testbed"
    parts = [
        *here.glob("*.py"),
        *sources(here / "inside", ("*.py",)),
        *sources(here / "h100", ("*.py",)),
        here / "faults/hung_mount.py",
    ]
    files = {f"opt/sandbox/testbed/{path.relative_to(here)}": path for path in parts}
    programs = here / "inside/programs"
    files |= {
        f"opt/sandbox/{name}": programs / name
        for name in ("start-slurmctld", "start-slurmd", "reboot")
    }
    return layer("sandbox", files)


def nvml_layer() -> Path:
    """The simulated libnvidia-ml.so.1, where the dynamic linker finds the driver's library."""
    library = build_library(cache())
    return layer("nvml", {f"usr/lib/{platform.machine()}-linux-gnu/{library.name}": library})


def python_version(root: Path) -> str:
    """`3.13`: version of the Python in a root. Raises ``SandboxError`` when it has none."""
    target = root / "usr/bin/python3"
    name = str(target.readlink()) if target.is_symlink() else ""
    if not name.startswith("python3."):
        raise SandboxError(
            f"{target}: not a link to python3.N; the root needs Debian's package python3"
        )
    return name.removeprefix("python")


def sources(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Files under ``folder`` whose names match, without Python's caches."""
    found = (path for pattern in patterns for path in folder.rglob(pattern))
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def digest_of(*words: str) -> str:
    """A short digest of this content."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def layer(
    kind: str,
    files: Mapping[str, Path],
    texts: Mapping[str, str] | None = None,
    *,
    links: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> Path:
    """The cached layer with these files (name in the box -> source), texts and links; built when absent.

    ``root``: byte-compile with the Python of that root.
    """
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents |= {name: text.encode() for name, text in (texts or {}).items()}
    parts = [
        f"{name} {hashlib.sha256(content).hexdigest()}"
        for name, content in sorted(contents.items())
    ]
    pairs = [f"{name} -> {target}" for name, target in (links or {}).items()]
    final = cache() / "layers" / f"{kind}-{digest_of(str(root), *parts, *pairs)}"
    if final.is_dir():
        os.utime(final)
        return final
    with building(final) as part:
        for name, content in contents.items():
            _write(part / name, content)
        for name, target in (links or {}).items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).symlink_to(target)
        if root is not None:
            byte_compile(root, part)
    _remove_old(final.parent, kind)
    return final


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    target.chmod(0o755 if content.startswith((b"#!", b"\x7fELF")) else 0o644)


class building:  # noqa: N801 - reads as a statement: with building(final) as part
    """A folder that gets its final name only when complete.

    One builder at a time; an incomplete folder is built again.
    """

    def __init__(self, final: Path) -> None:
        self.final = final
        self.part = final.with_name(final.name + ".part")

    def __enter__(self) -> Path:
        self.final.parent.mkdir(parents=True, exist_ok=True)
        self.lock = (self.final.parent / ".lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir(mode=0o755)
        return self.part

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self.lock:
            if kind is not None:
                shutil.rmtree(self.part, ignore_errors=True)
            elif self.final.exists():  # another builder was first
                shutil.rmtree(self.part)
            else:
                self.part.rename(self.final)


def byte_compile(root: Path, folder: Path) -> None:
    """Compile ``folder`` with the Python of ``root``, which is not changed."""
    script = 'mount --bind "$1" "$2/mnt" && exec /usr/sbin/chroot "$2" python3 -m compileall -q -j2 -s /mnt -p / /mnt'
    done = subprocess.run(
        [*_ALONE, "sh", "-c", script, "sh", str(folder), str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        output = " ".join((done.stdout + done.stderr).split())
        raise SandboxError(f"the box's Python cannot compile the product: {output[:400]}")


def _remove_old(folder: Path, kind: str) -> None:
    """Keep the newest layers of a kind, those that a box uses, and all of the last hour."""
    used = {name for box in RunningBox.all() for name in box.shape.layers}
    found = [path for path in folder.glob(f"{kind}-*") if path.suffix != ".part"]
    for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-_KEEP]:
        if str(path) not in used and time.time() - path.stat().st_mtime > _FRESH_S:
            shutil.rmtree(path, ignore_errors=True)
