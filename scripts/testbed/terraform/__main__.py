"""``scripts/terraform``: runs Terraform or OpenTofu with the provider that this project builds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import cache
from testbed.running_box import RunningBox
from testbed.terraform.example import variables
from testbed.terraform.programs import RELEASES, TFLINT, cli_config, need_terraform, provider

_USAGE = """\
scripts/terraform [--release NAME] [--box NAME] [ARGUMENTS …]

Runs the machine's Terraform (or OpenTofu) where its registry cannot be reached: the provider is built
once from its Go module (about 4 minutes). Without arguments: only build it, and tflint, which the tests
use (2 minutes). With --box, in the network of
a running box (scripts/sandbox up), with TF_VAR_kubeconfig set to its kubeconfig; needs root. In a box with
pods (up --pods) also with both images, slurm.conf and a token of the bridge's Slurm user. With --release,
another release instead of the machine's, built once from its Go module (about 6 minutes):
terraform (the oldest that terraform/ is written for) or tofu.

example: scripts/terraform --box default -chdir=terraform/examples/sandbox apply
"""


_WANTED = {
    "--box": "the name of a running box, for example 'default'",
    "--release": f"one of {', '.join(RELEASES)}",
}


def main(argv: Sequence[str]) -> int:
    """Becomes Terraform; 2 without one."""
    if list(argv) in (["--help"], ["-h"]):
        print(_USAGE, end="")
        return 0
    try:
        given, arguments = _options(list(argv))
        box = RunningBox.find(given["--box"]) if "--box" in given else None
        program = _program(given.get("--release"))
        built = provider(cache(), _say)
        config = cli_config(program, built, cache() / "terraform" / program.name)
    except SandboxError as error:
        print(f"terraform: {error}", file=sys.stderr)
        return 2
    if not arguments:
        _build_linter()
        print(f"TF_CLI_CONFIG_FILE={config}")
        print(f"HOLDFAST_TERRAFORM={program}")
        return 0
    environ = {**os.environ, "TF_CLI_CONFIG_FILE": str(config)}
    command = [str(program), *arguments]
    if box is not None:
        environ |= variables(box)
        command = ["nsenter", f"--target={box.pid}", "--net", "--", *command]
    os.execvpe(command[0], command, environ)


def _build_linter() -> None:
    """Without it one test is skipped: a failure is told, and nothing else."""
    try:
        TFLINT.built(cache(), _say)
    except SandboxError as error:
        _say(f"terraform: tflint was not built: {error}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options before Terraform's own arguments, and these. Raises ``SandboxError``."""
    given = {}
    while argv and argv[0] in _WANTED:
        if len(argv) < 2:
            raise SandboxError(f"{argv[0]} needs {_WANTED[argv[0]]}")
        given[argv[0]], argv = argv[1], argv[2:]
    return given, argv


def _program(release: str | None) -> Path:
    """The machine's Terraform, or the release. Raises ``SandboxError``."""
    if release is None:
        return need_terraform()
    if release not in RELEASES:
        raise SandboxError(f"no release {release!r}: --release needs {_WANTED['--release']}")
    return RELEASES[release].built(cache(), _say)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
