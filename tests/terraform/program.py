"""Terraform in a copy of ``terraform/``, for tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_S = 200

TREE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one run of Terraform printed. ``text``: both outputs, without frames and line breaks."""

    status: int
    out: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """The program in one folder. ``config``: its CLI configuration (``TF_CLI_CONFIG_FILE``).

    ``prefix``: a command that runs it elsewhere, such as in a box's network.
    """

    program: Path
    folder: Path
    config: Path = Path(os.devnull)
    prefix: tuple[str, ...] = ()

    def run(self, *args: str, **values: object) -> Answer:
        """``values`` are input variables, given in a file."""
        given = self.folder / "given.auto.tfvars.json"
        given.write_text(json.dumps(values))
        done = subprocess.run(
            [*self.prefix, self.program, *args, *(["-no-color"] if args[0] != "version" else [])],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        # Messages are wrapped inside a frame.
        text = " ".join(re.sub(r"[│╷╵]", " ", done.stdout + done.stderr).split())
        return Answer(status=done.returncode, out=done.stdout, text=text)

    def ok(self, *args: str, **values: Any) -> Answer:
        answer = self.run(*args, **values)
        assert answer.status == 0, answer.text[-3000:]
        return answer

    @property
    def environment(self) -> Mapping[str, str]:
        """This process's, without what people set for Terraform."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        return {
            **own,
            "TF_CLI_CONFIG_FILE": str(self.config),
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "CHECKPOINT_DISABLE": "1",
        }

    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the last apply."""
        read = json.loads(self.ok("output", "-json").out)
        return {name: one["value"] for name, one in read.items()}


def copy_tree(to: Path) -> Path:
    """A copy of ``terraform/`` without what earlier runs left in it."""
    ignore = shutil.ignore_patterns(".terraform", "*.tfstate*", ".terraform.lock.hcl")
    return Path(shutil.copytree(TREE / "terraform", to / "terraform", ignore=ignore))
