"""``holdfast config check FILE``: report all problems of a configuration before a rollout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.console import complain, say, say_json
from holdfast.config.load import check
from holdfast.config.path import config_path
from holdfast.config.sections import SECTIONS, schema_of

EXAMPLE = """\
example:
  holdfast config check /etc/holdfast/holdfast.yaml

exit status: 0 the file is valid, 1 it has problems (one line each), 2 there is no such file
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
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
        help="print all problems of the file, with line numbers",
        description="Print all problems of a configuration file, each with its line number.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument(
        "file", nargs="?", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/holdfast.yaml"
    )
    verb.add_argument("--json", action="store_true", help="print {file, problems, unchecked}")
    return parser


def main(argv: Sequence[str]) -> int:
    """The command. 0: no problem; 1: problems, one line each; 2: usage error."""
    arguments = parser().parse_args(argv)
    path = config_path(arguments.file)
    # Everywhere else a missing file means defaults; a check needs a file.
    unusable = (
        "is a folder; name a file" if path.is_dir() else "" if path.exists() else "no such file"
    )
    if unusable:
        complain(f"holdfast config: {path}: {unusable}")
        return 2
    schemas, unchecked = _schemas()
    problems = check(path, schemas)
    _print(path, problems, unchecked, as_json=arguments.json)
    return 1 if problems else 0


def _schemas() -> tuple[dict[str, Any], dict[str, str]]:
    """The schema of every section, and why some cannot be checked here (their package is not installed)."""
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
        say(f"{path}: valid")
