"""Commands of the installation pages, run on an API server as a person runs them."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

from testbed.kube.local import ApiServer, KubectlError
from testbed.paths import TREE

from charts.errors import NotHeld

BLOCKS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "soperator": {
        "render": ("soperator.md", "holdfast render soperator --values"),
        "apply": ("soperator.md", "soperator CHART -f your-values.yaml -f holdfast-values.yaml"),
        "settings": ("soperator.md", "cat >settings.yaml"),
        "remove": ("soperator.md", "soperator CHART -f your-values.yaml\n"),
        "apply with Flux": ("soperator.md", "--set as=flux"),
        "remove with Flux": ("soperator.md", "delete configmap slurm-cluster"),
    },
    "slinky": {
        "apply": ("slinky.md", "mounts=/mnt/training >holdfast-values.yaml"),
        "settings": ("slinky.md", "cat >settings.yaml"),
        "remove": ("slinky.md", "charts/slurm -f your-values.yaml\n"),
        "remove the token": ("slinky.md", "delete token.slinky.slurm.net"),
    },
}
"""Project → what its blocks of commands do → page, and a text that only that block has."""


def typed(project: str, what: str) -> str:
    """The block of commands that does this."""
    return block(*BLOCKS[project][what])


def command(page: str, begin: str) -> str:
    """The command of docs/howto/PAGE that begins so, with its further lines (``|``, ``\\``, a here document).

    Raises ``NotHeld`` if the page has it not exactly once.
    """
    lines = (TREE / "docs/howto" / page).read_text().splitlines()
    (at, *more) = [i for i, line in enumerate(lines) if line.startswith(begin)] or [-1, -1]
    if at < 0 or more:
        raise NotHeld(f"{page} does not have the command {begin!r} once")
    found = [lines[at]]
    document = re.search(r"<<'(\w+)'", lines[at])
    for line in lines[at + 1 :]:
        goes_on = found[-1] != document[1] if document else found[-1].endswith(("|", "\\"))
        if not goes_on:
            break
        found.append(line)
    return "\n".join(found)


def block(page: str, holds: str) -> str:
    """The block of commands of docs/howto/PAGE that has this text. Raises ``NotHeld`` if it is not exactly one."""
    text = (TREE / "docs/howto" / page).read_text()
    blocks = re.findall(r"^( *)```sh\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    found = [one for _indent, one in blocks if holds in one]
    if len(found) != 1:
        raise NotHeld(f"{page} does not have one block with {holds!r}")
    return textwrap.dedent(found[0])


def run(text: str, server: ApiServer, kubectl: Path) -> None:
    """In bash, with that kubectl as the admin. Raises ``NotHeld`` with the message if it fails."""
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    env["PATH"] = f"{kubectl.parent}:{env['PATH']}"
    script = f"set -eo pipefail\n{text}\n"
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise NotHeld(f"{text.splitlines()[0]} …: {done.stderr.strip()}")


def secret(server: ApiServer, namespace: str, name: str) -> dict[str, bytes]:
    """Key → value of a Secret; empty if there is none."""
    try:
        text = server.kubectl("-n", namespace, "get", "secret", name, "-o", "json")
    except KubectlError:
        return {}
    data: dict[str, str] = json.loads(text).get("data", {})
    return {key: base64.b64decode(value) for key, value in data.items()}
