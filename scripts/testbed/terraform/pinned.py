"""A Go program that ``go.mod`` and ``go.sum`` pin: built once into the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.kube.programs import go_env
from testbed.kube.toolchain import Say, find_go, required_go, watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """``module``: the folder of its ``go.mod``: Go refuses a module whose content has another sum.

    ``package``: its Go package. ``of``: the module that has the package, if its name is another one.
    ``program``: the name of the built file. ``link_flags``: more of them for the Go linker.
    ``folder``: begins the name of its folder in the cache. ``about``: what a person is told.
    """

    module: Path
    package: str
    program: str
    folder: str
    about: str
    of: str = ""
    link_flags: str = ""

    @property
    def version(self) -> str:
        """The version in ``go.mod``, without the v."""
        required = self.of or self.package
        pinned = rf"^\s*(?:require )?{re.escape(required)} v(\S+)$"
        match = re.search(pinned, (self.module / "go.mod").read_text(), re.MULTILINE)
        if not match:
            raise ValueError(f"go.mod does not require {required}")
        return match[1]

    def path(self, cache: Path) -> Path:
        """Where it is, or will be, below ``cache``/terraform."""
        go_mod, go_sum = ((self.module / name).read_bytes() for name in ("go.mod", "go.sum"))
        digest = hashlib.sha256(go_mod + b"\0" + go_sum).hexdigest()[:12]
        return cache / "terraform" / f"{self.folder}-{self.version}-{digest}" / self.program

    def is_built(self, cache: Path) -> bool:
        return os.access(self.path(cache), os.X_OK)

    def built(self, cache: Path, say: Say) -> Path:
        """The program, built if it is missing (minutes, once). Two parallel calls build once.

        Raises ``SandboxError`` when the build fails; a later call continues where this one stopped.
        """
        program = self.path(cache)
        if self.is_built(cache):
            return program
        program.parent.mkdir(parents=True, exist_ok=True)
        with (cache / "terraform" / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.is_built(cache):
                self._build(cache, program, say)
        return program

    def _build(self, cache: Path, program: Path, say: Say) -> None:
        go = find_go(cache / "kube", required_go((self.module / "go.mod").read_text()), say)
        env = go_env(os.environ, None)
        say(f"building {self.about} from its Go module (once) …")
        began = time.monotonic()
        unfinished = program.with_suffix(".unfinished")
        argv = [str(go), "build", "-v", "-trimpath", "-buildvcs=false"]
        argv += ["-ldflags", f"-s -w {self.link_flags}".rstrip()]
        argv += ["-o", str(unfinished), self.package]
        what = f"building {self.program}"
        watched(argv, what, say, unit="packages", cwd=self.module, env=env)
        unfinished.rename(program)
        say(f"built it in {time.monotonic() - began:.0f} s")
