"""``scripts/test releases``: tests ``terraform/`` with other releases of Terraform, and records the result.

The record keeps a digest of each file: after a change it is no longer about today's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.terraform.programs import RELEASES, provider

RECORD = TREE / "tests/data/deploy/terraform.json"
COMMAND = "scripts/test releases"

_TESTS = "tests/terraform"
_NOT_RUN = ("test_pods*.py", "test_tflint.py")
"""They start a box, or do not run Terraform."""

_TEXT = re.compile(r"\s*(#|//|description\s*=|$)")
_EXPRESSION = re.compile(r"[$%]\{.*?\}")


def main(argv: Sequence[str]) -> int:
    """Exit status 0: all passed, and the record is written. ``argv``: for pytest."""
    found = {}
    try:
        provider(cache(), _say)
        for name, release in RELEASES.items():
            program = release.built(cache(), _say)
            _say(f"{name} {release.version} …")
            found[name] = {"version": release.version, "tests": _tested(program, argv)}
    except SandboxError as error:
        _say(f"releases: {error}")
        return 1
    if argv:
        _say("releases: passed; nothing is recorded for a part of the tests")
        return 0
    RECORD.write_text(json.dumps({"programs": found, "files": digests(TREE)}, indent=2) + "\n")
    return 0


def _tested(program: Path, more: Sequence[str]) -> int:
    """How many tests passed. Raises ``SandboxError`` if one failed or was skipped."""
    environ = {**os.environ, "HOLDFAST_TERRAFORM": str(program)}
    subject = TREE / "terraform"
    formatted = subprocess.run(
        [program, "fmt", "-check", "-diff", "-recursive", subject],
        env={**environ, "TF_CLI_CONFIG_FILE": os.devnull},
        check=False,
    )
    if formatted.returncode:
        raise SandboxError(f"{program} fmt would change terraform/")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", _TESTS]
        argv += [f"--ignore-glob=*/{name}" for name in _NOT_RUN]
        done = subprocess.run([*argv, *more], cwd=TREE, env=environ, check=False)
        if done.returncode:
            raise SandboxError(f"tests failed with {program}")
        (suite,) = ElementTree.parse(report).getroot()
    if int(suite.attrib["skipped"]):
        raise SandboxError(f"tests were skipped with {program}")
    return int(suite.attrib["tests"])


def digests(tree: Path) -> Mapping[str, str]:
    """File of ``terraform/`` → SHA-256 of what Terraform parses in it, without descriptions and comments.

    Of a template that is what it inserts: its other lines are text.
    """
    top = tree / "terraform"
    files = [each for end in ("tf", "tftest.hcl", "tftpl") for each in top.rglob(f"*.{end}")]
    return {
        str(file.relative_to(tree)): hashlib.sha256(_parsed(file).encode()).hexdigest()[:16]
        for file in sorted(files)
        if ".terraform" not in file.parts
    }


def _parsed(file: Path) -> str:
    text = file.read_text()
    if file.suffix == ".tftpl":
        return "\n".join(_EXPRESSION.findall(text))
    return "\n".join(line for line in text.splitlines() if not _TEXT.match(line))


def not_tried(recorded: Mapping[str, str], tree: Path = TREE) -> list[str]:
    """A line for each file that is another one than that of the record."""
    today = digests(tree)
    changed = sorted(
        name for name in recorded.keys() | today.keys() if recorded.get(name) != today.get(name)
    )
    return [f"{name} was not tried with {_names(RELEASES)}: run {COMMAND}" for name in changed]


def _names(names: Iterable[str]) -> str:
    return " and ".join(f"{name} {RELEASES[name].version}" for name in names)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
