"""``holdfast config check FILE``: every problem of a configuration at once, before a rollout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.console import complain, say, say_json
from holdfast.config.load import check
from holdfast.config.location import config_path
from holdfast.config.sections import SECTIONS, schema_of

EXAMPLE = """\
example:
  holdfast config check /etc/holdfast/holdfast.yaml

exit status: 0 the file is good, 1 it has problems (one line each), 2 there is no such file
"""


def main(argv: Sequence[str]) -> int:
    """The command. 0: no problem; 1: problems, one line each; 2: used wrongly."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast config",
        description="Check a configuration file.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="check")
    verb = verbs.add_parser(
        "check",
        allow_abbrev=False,
        help="print every problem of the file, with its line",
        description="Every problem of a configuration file at once, each with its line.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("file", nargs="?", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/…")
    verb.add_argument("--json", action="store_true", help="print {file, problems, unchecked}")
    asked = parser.parse_args(argv)
    path = config_path(asked.file)
    # Everywhere else a missing file means defaults; who asks for a check means a real one.
    unusable = (
        "is a folder; name a file" if path.is_dir() else "" if path.exists() else "no such file"
    )
    if unusable:
        complain(f"holdfast config: {path}: {unusable}")
        return 2
    schemas, unchecked = _schemas()
    problems = check(path, schemas)
    _print(path, problems, unchecked, as_json=asked.json)
    return 1 if problems else 0


def _schemas() -> tuple[dict[str, Any], dict[str, str]]:
    """Every section's schema, and why some cannot be checked here (their half is not installed)."""
    schemas: dict[str, Any] = {}
    unchecked: dict[str, str] = {}
    for name in SECTIONS:
        try:
            schemas[name] = schema_of(name)
        except ImportError as error:
            unchecked[name] = str(error)
    return schemas, unchecked


def _print(path: Path, problems: list[str], unchecked: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        report = {"file": str(path), "problems": problems, "unchecked": unchecked}
        say_json(report)
        return
    for line in problems:
        say(line)
    for name, why in unchecked.items():
        complain(f"{path}: {name}: not checked here: {why}")
    if not problems:
        say(f"{path}: good")
