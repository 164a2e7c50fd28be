"""``terraform/examples/sandbox`` in a running box, applied by the machine's Terraform and destroyed again."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.rootfs.layers import Say
from testbed.running_box import RunningBox
from testbed.shape import AUTHS, SLURM_TOKEN
from testbed.terraform.programs import cli_config, need_terraform, provider

NAMESPACE = "holdfast"
KINDS = (
    "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,clusterroles,"
    "clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,namespaces"
)
"""The kinds of objects that may be left behind."""

_TIMEOUT_S = 600
_NOT_COPIED = shutil.ignore_patterns(".terraform", "*.tfstate*", ".terraform.lock.hcl")


def variables(box: RunningBox) -> dict[str, str]:
    """The example's input variables that a box sets, as Terraform reads them from its environment."""
    given = {"kubeconfig": str(box.folder / "kube" / "admin.kubeconfig")}
    if box.shape.pods:
        given |= {
            "bridge_image": box.shape.bridge_image,
            "agent_image": box.shape.debian_image,
            "slurm_conf": _slurm_conf(box),
            "slurm_token": (box.folder / SLURM_TOKEN).read_text().strip(),
            "slurm_key": base64.b64encode(box.path(AUTHS[box.shape.auth]).read_bytes()).decode(),
        }
    return {f"TF_VAR_{name}": value for name, value in given.items()}


def prepare(say: Say) -> tuple[Path, Path]:
    """The machine's Terraform, and the provider: built once, in minutes. Raises ``SandboxError``."""
    return need_terraform(), provider(cache(), say)


@contextmanager
def deployed(box: RunningBox, say: Say, *, keep: bool = False) -> Iterator[list[str]]:
    """Applies a copy of the example, and destroys it after the block unless ``keep``.

    Yields a list of problems, to which the end adds what was left behind. Raises ``SandboxError``
    when there is no Terraform, or when it fails.
    """
    program, built = prepare(say)
    problems: list[str] = []
    before = _slurm_conf(box)
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "terraform")
        shutil.copytree(TREE / "terraform", tree, ignore=_NOT_COPIED)
        config = cli_config(program, built, Path(scratch))
        argv = ["nsenter", f"--target={box.pid}", "--net", "--", str(program)]
        argv += [f"-chdir={tree}/examples/sandbox"]
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TF_")},
            **variables(box),
            "TF_CLI_CONFIG_FILE": str(config),
            "TF_IN_AUTOMATION": "1",
            # as often as the bridge of a box without pods
            "TF_VAR_poll_s": "0.5",
        }
        _terraform(argv, environ, say, "init", "-input=false")
        _terraform(argv, environ, say, "apply", "-auto-approve", "-input=false")
        try:
            yield problems
        finally:
            if not keep:
                _terraform(argv, environ, say, "destroy", "-auto-approve", "-input=false")
    if not keep:
        left = left_behind(box)
        problems += [f"left behind by terraform destroy: {name}" for name in left]
        say(f"objects of Holdfast left in Kubernetes: {len(left)}")
    if _slurm_conf(box) != before:
        problems.append("slurm.conf was changed")


def left_behind(box: RunningBox) -> list[str]:
    """Names of all objects with Holdfast's label."""
    selected = "--selector=app.kubernetes.io/part-of=holdfast"
    return box.kubectl("get", KINDS, "--all-namespaces", selected, "--output=name").split()


def pods(box: RunningBox) -> list[tuple[str, str, str]]:
    """(name, Kubernetes Node, phase) of the bridge's and the agents' pods."""
    columns = "custom-columns=P:.metadata.name,N:.spec.nodeName,S:.status.phase"
    words = ("get", "pods", f"--namespace={NAMESPACE}", "--no-headers", f"--output={columns}")
    rows = (row.split() for row in box.kubectl(*words).splitlines())
    return [(name, node, phase) for name, node, phase in rows]


def _terraform(argv: Sequence[str], environ: Mapping[str, str], say: Say, *words: str) -> None:
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
    summary = next((line for line in done.stdout.splitlines() if "complete!" in line), "")
    counts = summary.partition("complete! Resources: ")[2].rstrip(".")
    took = f"{time.monotonic() - began:.0f} s"
    say(f"terraform {words[0]}: {took}" + (f" ({counts})" if counts else ""))


def _slurm_conf(box: RunningBox) -> str:
    return box.path("/etc/slurm/slurm.conf").read_text()
