"""``scripts/hold_against``: our values in their charts, and their words on it in tests/data/deploy."""

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
    """0: they take what we render, and the record is written. 1: they do not. 2: used wrongly."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/hold_against",
        description="Render real charts with our values; dry-run the result on a real API server.",
        epilog="example: scripts/hold_against soperator ~/src/soperator --helm ~/go/bin/helm",
    )
    parser.add_argument("project", choices=_PROJECTS)
    parser.add_argument("checkout", type=Path, help="its git working tree")
    parser.add_argument("--helm", default="helm", help="the helm program (default: in the PATH)")
    asked = parser.parse_args(argv)
    if not shutil.which(asked.helm):
        print(f"hold_against: no program {asked.helm}; get Helm 3 and name it with --helm")
        return 2
    try:
        with tempfile.TemporaryDirectory() as folder:
            tree = Checkout(path=asked.checkout)
            found = _PROJECTS[asked.project](tree, asked.helm, Path(folder))
    except (NotHeld, SandboxError) as error:
        print(f"hold_against: {error}", file=sys.stderr)
        return 1
    RECORD.mkdir(parents=True, exist_ok=True)
    (RECORD / f"{asked.project}.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"{asked.project} {found['chart']} takes it: {found['accepted']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
