"""``scripts/hold_against``: tests Holdfast's values in other projects' charts, and records the result."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import TREE

from charts import slinky, soperator
from charts.chart import Checkout, NotHeld

RECORD = TREE / "tests/data/deploy"
_PROJECTS = {"soperator": soperator.held, "slinky": slinky.held}


def main(argv: Sequence[str]) -> int:
    """Exit status 0: the chart accepts the values and the record is written; 1: it does not; 2: usage error."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/hold_against",
        description="Render real charts with Holdfast's values; dry-run the result on a real API server.",
        epilog="example: scripts/hold_against soperator ~/src/soperator --helm ~/go/bin/helm",
    )
    parser.add_argument("project", choices=_PROJECTS)
    parser.add_argument("checkout", type=Path, help="git working tree of the project")
    parser.add_argument("--helm", default="helm", help="the helm program (default: from PATH)")
    args = parser.parse_args(argv)
    if not shutil.which(args.helm):
        print(f"hold_against: {args.helm} not found; install Helm 3 and pass its path with --helm")
        return 2
    try:
        with tempfile.TemporaryDirectory() as folder:
            tree = Checkout(path=args.checkout)
            found = _PROJECTS[args.project](tree, args.helm, Path(folder))
    except (NotHeld, SandboxError) as error:
        print(f"hold_against: {error}", file=sys.stderr)
        return 1
    RECORD.mkdir(parents=True, exist_ok=True)
    (RECORD / f"{args.project}.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"{args.project} {found['chart']} accepts it: {found['accepted']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
