"""``scripts/terraform``: runs Terraform or OpenTofu with the provider that this project builds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from testbed.errors import SandboxError
from testbed.paths import cache
from testbed.terraform.programs import cli_config, find_terraform, provider

_USAGE = """\
scripts/terraform [ARGUMENTS …]

Runs the machine's Terraform (or OpenTofu) where its registry cannot be reached: the provider is built
once from its Go module (about 4 minutes). Without arguments: only build it.

example: scripts/terraform -chdir=terraform/examples/sandbox init
"""


def main(argv: Sequence[str]) -> int:
    """Becomes Terraform; 2 without one."""
    if list(argv) in (["--help"], ["-h"]):
        print(_USAGE, end="")
        return 0
    try:
        program = find_terraform()
        if program is None:
            raise SandboxError("no terraform or tofu on PATH: install one (1.8 or newer)")
        built = provider(cache(), lambda text: print(text, file=sys.stderr, flush=True))
        config = cli_config(program, built, cache() / "terraform" / program.name)
    except SandboxError as error:
        print(f"terraform: {error}", file=sys.stderr)
        return 2
    if not argv:
        print(f"TF_CLI_CONFIG_FILE={config}")
        return 0
    os.execve(program, [str(program), *argv], {**os.environ, "TF_CLI_CONFIG_FILE": str(config)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
