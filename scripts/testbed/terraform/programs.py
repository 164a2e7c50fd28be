"""Terraform from the machine, and the provider kubectl, tflint and other releases, built from Go modules.

``go.mod`` and ``go.sum`` in this folder pin the provider, those in ``tflint`` the linter: its modules
exclude versions that the provider needs. Those in ``oldest`` and ``opentofu`` pin ``RELEASES``. Nothing is installed for the user: the program finds the provider by a configuration
file that ``TF_CLI_CONFIG_FILE`` names.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.toolchain import Say
from testbed.terraform.pinned import Pinned

SOURCE = "gavinbunney/kubectl"
"""The provider's source address, as in ``required_providers``."""

_HERE = Path(__file__).parent

PROVIDER = Pinned(
    module=_HERE,
    package="github.com/gavinbunney/terraform-provider-kubectl",
    program="terraform-provider-kubectl",
    folder="kubectl",
    about=f"the Terraform provider {SOURCE} (about 4 minutes)",
)
TFLINT = Pinned(
    module=_HERE / "tflint",
    package="github.com/terraform-linters/tflint",
    program="tflint",
    folder="tflint",
    about="tflint (about 2 minutes)",
)
"""The linter of ``terraform/``. Its rules for Terraform's language are part of the program."""

_HASHICORP, _OPENTOFU = "github.com/hashicorp/terraform", "github.com/opentofu/opentofu"

RELEASES = {
    made.program: made
    for made in (
        Pinned(
            module=_HERE / "oldest",
            package=_HASHICORP,
            program="terraform",
            folder="terraform",
            about="Terraform (about 6 minutes)",
            # Without it the program calls itself a development version, which no constraint accepts.
            link_flags=f"-X {_HASHICORP}/version.dev=no",
        ),
        Pinned(
            module=_HERE / "opentofu",
            package=f"{_OPENTOFU}/cmd/tofu",
            of=_OPENTOFU,
            program="tofu",
            folder="opentofu",
            about="OpenTofu (about 6 minutes)",
            link_flags=f"-X {_OPENTOFU}/version.dev=no",
        ),
    )
}
"""The releases that ``scripts/test releases`` tries: the oldest Terraform, and OpenTofu."""

OLDEST = (1, 8)
"""The oldest Terraform and OpenTofu that ``terraform/`` is written for."""

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


def is_built(cache: Path) -> bool:
    """Whether ``provider`` has nothing to build."""
    return PROVIDER.is_built(cache)


def provider(cache: Path, say: Say) -> Path:
    """The provider's program, built once below ``cache``/terraform (about four minutes).

    Raises ``SandboxError`` when the build fails; a later call continues where this one stopped.
    """
    return PROVIDER.built(cache, say)


def cli_config(terraform: Path, program: Path, folder: Path) -> Path:
    """Writes a CLI configuration into ``folder`` that installs the provider from a mirror there.

    Terraform and OpenTofu look for a mirror below the host name of their own registry: the program
    itself is asked for it.
    """
    version = PROVIDER.version
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
