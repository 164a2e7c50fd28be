"""``scripts/demo --terraform``: the bridge and the agents are what Terraform created, as pods."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.box import Box
from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.terraform import cli_config, find_terraform, provider
from testbed.terraform.__main__ import variables

from demonstration.live import Live

_TIMEOUT_S = 600
_KINDS = (
    "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,clusterroles,"
    "clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,namespaces"
)


@contextmanager
def by_terraform(box: Box, live: Live) -> Iterator[list[str]]:
    """Applies examples/sandbox to a box with pods, and destroys it at the end of the block.

    Yields a list, to which the end adds what was left behind. Raises ``SandboxError`` when Terraform fails.
    """
    program = find_terraform()
    if program is None:
        raise SandboxError("no terraform or tofu on PATH: install one (1.8 or newer)")
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "terraform")
        ignore = shutil.ignore_patterns(".terraform", "*.tfstate*", ".terraform.lock.hcl")
        shutil.copytree(TREE / "terraform", tree, ignore=ignore)
        config = cli_config(program, provider(cache(), live.say), Path(scratch))
        argv = ["nsenter", f"--target={box.pid}", "--net", "--", str(program)]
        argv += [f"-chdir={tree}/examples/sandbox"]
        environ = {
            **os.environ,
            **variables(box),
            "TF_CLI_CONFIG_FILE": str(config),
            "TF_IN_AUTOMATION": "1",
        }
        before = (box.folder / "etc/slurm/slurm.conf").read_bytes()
        _terraform(argv, environ, live, "init", "-input=false")
        _terraform(argv, environ, live, "apply", "-auto-approve", "-input=false", "-var=poll_s=0.5")
        live.say(f"pods: {_pods(box)}")
        try:
            yield problems
        finally:
            _terraform(argv, environ, live, "destroy", "-auto-approve", "-input=false")
        left = box.kubectl(
            "get",
            _KINDS,
            "--all-namespaces",
            "--selector=app.kubernetes.io/part-of=holdfast",
            "--output=name",
        ).split()
        problems += [f"left behind by terraform destroy: {name}" for name in left]
        if (box.folder / "etc/slurm/slurm.conf").read_bytes() != before:
            problems.append("slurm.conf was changed")
        live.say(f"terraform destroy left {len(left)} objects")


def _terraform(argv: list[str], environ: dict[str, str], live: Live, *words: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [*argv, *words, "-no-color"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        message = " ".join((done.stderr or done.stdout).split())[-600:]
        raise SandboxError(f"terraform {words[0]} failed: {message}")
    live.say(f"terraform {words[0]}: {time.monotonic() - began:.0f} s")


def _pods(box: Box) -> str:
    """``holdfast-bridge-… on system-0, …``."""
    columns = "custom-columns=P:.metadata.name,N:.spec.nodeName"
    rows = box.kubectl("get", "pods", "--namespace=holdfast", "--no-headers", f"--output={columns}")
    return ", ".join(" on ".join(row.split()) for row in rows.splitlines())
