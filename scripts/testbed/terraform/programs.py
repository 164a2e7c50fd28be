"""Terraform from the machine, and the provider kubectl built from its Go module.

``go.mod`` and ``go.sum`` in this folder pin the provider: Go refuses a module whose content has
another sum. Nothing is installed for the user: the program finds the provider by a configuration
file that ``TF_CLI_CONFIG_FILE`` names.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.programs import go_env
from testbed.kube.toolchain import Say, find_go, required_go, watched

MODULE = Path(__file__).parent

PACKAGE = "github.com/gavinbunney/terraform-provider-kubectl"
SOURCE = "gavinbunney/kubectl"
"""The provider's source address, as in ``required_providers``."""

OLDEST = (1, 8)
"""The oldest Terraform and OpenTofu that ``terraform/`` is written for."""

_PINNED = re.compile(rf"^\s*(?:require )?{re.escape(PACKAGE)} v(\S+)$", re.MULTILINE)
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


def find_terraform(environ: Mapping[str, str] = os.environ) -> Path | None:
    """``HOLDFAST_TERRAFORM``, else ``terraform`` or ``tofu`` on PATH; None without any.

    Raises ``SandboxError`` for one that is too old or does not run.
    """
    named = environ.get("HOLDFAST_TERRAFORM", "")
    path = environ.get("PATH")
    found = named or shutil.which("terraform", path=path) or shutil.which("tofu", path=path)
    if not found:
        return None
    version = _version(Path(found))
    if version is None or version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise SandboxError(
            f"{found} is no Terraform or OpenTofu {wanted} or newer: install one, or name one in "
            "HOLDFAST_TERRAFORM"
        )
    return Path(found)


def need_terraform() -> Path:
    """As ``find_terraform``. Raises ``SandboxError`` without any."""
    program = find_terraform()
    if program is None:
        raise SandboxError("no terraform or tofu on PATH: install one (1.8 or newer)")
    return program


def _version(program: Path) -> tuple[int, int] | None:
    try:
        answer = subprocess.run(
            [program, "version", "-json"], capture_output=True, text=True, timeout=30, check=True
        )
        major, minor = json.loads(answer.stdout)["terraform_version"].split(".")[:2]
        return int(major), int(minor)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def pinned_version() -> str:
    """The provider's version in ``go.mod``, without the v."""
    match = _PINNED.search((MODULE / "go.mod").read_text())
    if not match:
        raise ValueError(f"go.mod does not require {PACKAGE}")
    return match[1]


def is_built(cache: Path) -> bool:
    """Whether ``provider`` has nothing to build."""
    return os.access(_program(cache), os.X_OK)


def provider(cache: Path, say: Say) -> Path:
    """The provider's program, built once below ``cache``/terraform (about four minutes).

    Two parallel calls build once. Raises ``SandboxError`` when the build fails; a later call
    continues where this one stopped.
    """
    program = _program(cache)
    if is_built(cache):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with (cache / "terraform" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_built(cache):
            _build(cache, program, say)
    return program


def cli_config(terraform: Path, program: Path, folder: Path) -> Path:
    """Writes a CLI configuration into ``folder`` that installs the provider from a mirror there.

    Terraform and OpenTofu look for a mirror below the host name of their own registry: the program
    itself is asked for it.
    """
    version = pinned_version()
    place = folder / "mirror" / _address(terraform) / version / f"linux_{_architecture()}"
    place.mkdir(parents=True, exist_ok=True)
    link = place / f"terraform-provider-kubectl_v{version}"
    link.unlink(missing_ok=True)
    link.symlink_to(program)
    config = folder / "terraform.rc"
    config.write_text(
        "disable_checkpoint = true\n"
        f"provider_installation {{\n  filesystem_mirror {{\n    path = {json.dumps(str(folder / 'mirror'))}\n  }}\n}}\n"
    )
    return config


def _address(terraform: Path) -> str:
    """The provider's full address, with the host name of the program's registry."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "main.tf").write_text(
            f'terraform {{\n  required_providers {{\n    kubectl = {{ source = "{SOURCE}" }}\n  }}\n}}\n'
        )
        answer = subprocess.run(
            [terraform, "providers"],
            cwd=folder,
            env={**os.environ, "TF_CLI_CONFIG_FILE": os.devnull},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    match = re.search(rf"provider\[([^\]]+/{re.escape(SOURCE)})\]", answer.stdout)
    if not match:
        raise SandboxError(f"{terraform} providers printed no address: {answer.stderr.strip()}")
    return match[1]


def _architecture() -> str:
    return _ARCHITECTURE.get(platform.machine(), platform.machine())


def _program(cache: Path) -> Path:
    go_mod, go_sum = ((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(go_mod + b"\0" + go_sum).hexdigest()[:12]
    return cache / "terraform" / f"kubectl-{pinned_version()}-{digest}" / "terraform-provider-kubectl"


def _build(cache: Path, program: Path, say: Say) -> None:
    go = find_go(cache / "kube", required_go((MODULE / "go.mod").read_text()), say)
    env = go_env(os.environ, None)
    say(f"building the Terraform provider {SOURCE} from its Go module (about 4 minutes, once) …")
    began = time.monotonic()
    unfinished = program.with_suffix(".unfinished")
    argv = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    argv += ["-o", str(unfinished), PACKAGE]
    watched(argv, "building the provider", say, unit="packages", cwd=MODULE, env=env)
    unfinished.rename(program)
    say(f"built it in {time.monotonic() - began:.0f} s")
