"""A person who follows an installation page at an API server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.kube.local import ApiServer
from testbed.paths import TREE

from charts.chart import Tools
from charts.errors import NotHeld

_TIMEOUT_S = 400
"""Longer than Helm waits for a hook of a chart."""


class Person:
    """Has a folder, and ``helm``, ``kubectl`` and ``holdfast``. ``instead``: texts of the page that a reader replaces.

    ``post_renderer``: a command through which Helm sends all that it installs.
    """

    def __init__(
        self,
        server: ApiServer,
        tools: Tools,
        instead: Mapping[str, str],
        post_renderer: str = "",
    ) -> None:
        self.folder = tools.folder / "person"
        self._instead = instead
        programs = self.folder / "bin"
        programs.mkdir(parents=True)
        helm = f'exec "{tools.helm}" "$@"'
        if post_renderer:
            script = _program(programs / "post-renderer", post_renderer)
            helm = f'case " $* " in *" install "*|*" upgrade "*) {helm} --post-renderer {script};; esac\n{helm}'
        _program(programs / "helm", helm)
        _program(programs / "kubectl", f'exec "{tools.kubectl}" "$@"')
        command = "import sys; from holdfast.cli.main import main; sys.exit(main())"
        _program(programs / "holdfast", f"exec {sys.executable} -c '{command}' \"$@\"")
        own = {name: str(self.folder / name.lower()) for name in _OF_HELM}
        self._env = {
            **os.environ,
            **own,
            "KUBECONFIG": str(server.kubeconfig),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(TREE),
        }

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def types(self, text: str) -> str:
        """What the commands print. Raises ``NotHeld`` with the message if one fails."""
        for name, value in self._instead.items():
            text = text.replace(name, value)
        done = subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{text}\n"],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise NotHeld(f"{text.splitlines()[0]} …: {done.stderr.strip()}")
        return done.stdout


_OF_HELM = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
