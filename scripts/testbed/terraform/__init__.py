"""Terraform for the tests of ``terraform/``: the machine's program, and the provider that it needs.

    terraform(cache)                the machine's terraform or tofu
    provider(cache, say)            the provider kubectl, built once from its Go module
    cli_config(program, ...)        a configuration file by which the program finds that provider

``example`` applies ``terraform/examples/sandbox`` to a box.
"""

from testbed.terraform.programs import (
    cli_config,
    find_terraform,
    is_built,
    need_terraform,
    provider,
)

__all__ = ["cli_config", "find_terraform", "is_built", "need_terraform", "provider"]
