"""A person with a checkout who types the commands of a page on the machines of a box."""

from __future__ import annotations

import os
import shutil

import pytest
from testbed.box import Box
from testbed.paths import TREE

from holdfast.version import VERSION
from tests.e2e.install.page import Page

_CHECKOUT = "mnt/inference/checkout"
_RELEASED = ("pyproject.toml", "README.md", "LICENSE", "holdfast", "slurm_hooks", "k8s_bridge")


def slurm_alone(release: str, nodes: int) -> Box:
    """A box without Holdfast; the caller ends it."""
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: run them with sudo", pytrace=False)
    name = f"install-{release}-{os.getpid()}"
    return Box.up(name, nodes=nodes, slurm=release, owner_pid=os.getpid(), holdfast=False)


class Person:
    """The nodes of a box share /etc, /opt and /usr."""

    def __init__(self, box: Box, page: Page) -> None:
        self.box, self.page = box, page
        self.checkout = box.folder / _CHECKOUT

    def on_a_node(self, script: str) -> str:
        """What has to be on every node, and is then, because the nodes share it."""
        return self._run("worker-0", script)

    def on_every_node(self, script: str) -> str:
        return "".join(self._run(node.name, script) for node in self.box.nodes)

    def on_the_controller(self, script: str) -> str:
        at = f"cd /{_CHECKOUT}\n{script}"
        return self.box.run(["sh", "-euc", at], timeout_s=120).stdout

    def _run(self, node: str, script: str) -> str:
        at = f"cd /{_CHECKOUT}\n{script}"
        return self.box.node(node).run(["sh", "-euc", at], timeout_s=300).stdout

    def check_out(self, version: str) -> None:
        shutil.rmtree(self.checkout, ignore_errors=True)
        self.checkout.mkdir()
        for name in _RELEASED:
            if (TREE / name).is_dir():
                shutil.copytree(TREE / name, self.checkout / name)
            else:
                shutil.copy(TREE / name, self.checkout / name)
        for name in ("pyproject.toml", "holdfast/version.py"):
            path = self.checkout / name
            path.write_text(path.read_text().replace(f'"{VERSION}"', f'"{version}"', 1))
