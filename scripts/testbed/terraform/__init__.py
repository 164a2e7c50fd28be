"""Terraform for the tests of ``terraform/``: the machine's program, the provider that it needs, a linter.

    terraform(cache)                the machine's terraform or tofu
    provider(cache, say)            the provider kubectl, built once from its Go module
    cli_config(program, ...)        a configuration file by which the program finds that provider
    TFLINT                          the linter, built once from its Go module
    RELEASES                        other releases of Terraform and OpenTofu, built once

``example`` applies ``terraform/examples/sandbox`` to a box.
"""

from testbed.terraform.programs import (
    RELEASES,
    TFLINT,
    cli_config,
    find_terraform,
    is_built,
    need_terraform,
    provider,
)

__all__ = ["RELEASES", "TFLINT", "cli_config", "find_terraform", "is_built", "need_terraform", "provider"]
