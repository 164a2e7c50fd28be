"""Builds the C sources into shared objects, once for each content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from testbed.errors import SandboxError

SONAME = "libnvidia-ml.so.1"
"""The name that nvidia-ml-py loads (nvmlInitWithFlags)."""

_HERE = Path(__file__).parent
_COMPILERS = ("cc", "gcc", "tcc")


def build_library(cache: Path, cc: str | None = None) -> Path:
    """Path of the simulated NVML under ``cache``; built when absent."""
    return shared_object(cache, SONAME, (_HERE / "nvmlsim.c", _HERE / "simstate.c"), cc)


def shared_object(cache: Path, name: str, sources: tuple[Path, ...], cc: str | None = None) -> Path:
    """A shared object of ``sources``, in a folder of ``cache`` named by a hash of its sources.

    ``cc``: the compiler (else $CC, else the first of cc, gcc and tcc). Raises ``SandboxError``
    without a compiler, or when it fails.
    """
    folder = cache / "native" / f"{name.partition('.')[0]}-{_digest(sources)}"
    library = folder / name
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{name}.{os.getpid()}"
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{name}"]
    compiler = _compiler(cc)
    built = subprocess.run(
        [compiler, *flags, "-o", str(part), *map(str, sources), "-lpthread", "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        part.unlink(missing_ok=True)
        output = " ".join(built.stderr.split()) or f"exit status {built.returncode}"
        raise SandboxError(f"{compiler} cannot build {name}: {output[:400]}")
    part.rename(library)  # two builders may race; both results are valid
    return library


def _digest(sources: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        for path in (source, source.with_suffix(".h")):
            if path.exists():
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compiler(cc: str | None) -> str:
    wanted = [name for name in (cc, os.environ.get("CC")) if name] or list(_COMPILERS)
    for name in wanted:
        if found := shutil.which(name):
            return found
    raise SandboxError(
        f"no C compiler found ({', '.join(wanted)}): apt-get install gcc libc6-dev, or set CC"
    )
