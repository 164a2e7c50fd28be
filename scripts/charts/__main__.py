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
from testbed.kube.programs import binaries
from testbed.paths import TREE, cache

from charts import slinky, soperator
from charts.chart import Tools
from charts.errors import NotHeld

RECORD = TREE / "tests/data/deploy"
_PROJECTS = {"soperator": soperator.held, "slinky": slinky.held}


def main(argv: Sequence[str]) -> int:
    """Exit status 0: every release accepts the values and the record is written; 1: one does not; 2: usage
    error.
    """
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/hold_against",
        description="Render the real charts of each release with Holdfast's values, run Flux's "
        "post-render and the real check runner, and dry-run the result on a real API server. As root.",
        epilog="example: scripts/hold_against soperator ~/src/soperator --helm ~/go/bin/helm",
    )
    parser.add_argument("project", choices=_PROJECTS)
    parser.add_argument(
        "checkout", type=Path, help="git working tree of the project, with its tags"
    )
    parser.add_argument("--helm", default="helm", help="the helm program (default: from PATH)")
    parser.add_argument(
        "--manager",
        type=Path,
        help="Soperator's manager, built from the commit that is checked out: it reconciles the "
        "result. Without it, the record keeps what it found the last time.",
    )
    args = parser.parse_args(argv)
    for program in (args.helm, args.manager):
        if program is not None and not shutil.which(program):
            print(f"hold_against: {program} not found", file=sys.stderr)
            print("hold_against: --helm takes Helm 3, --manager a program", file=sys.stderr)
            return 2
    try:
        kubectl = binaries(cache(), lambda text: print(text, flush=True)).kubectl
        with tempfile.TemporaryDirectory() as folder:
            tools = Tools(helm=args.helm, kubectl=kubectl, folder=Path(folder))
            found = _PROJECTS[args.project](args.checkout, tools, args.manager)
    except (NotHeld, SandboxError) as error:
        print(f"hold_against: {error}", file=sys.stderr)
        return 1
    file = RECORD / f"{args.project}.json"
    if args.manager is None and file.exists():
        found = {
            **{k: v for k, v in json.loads(file.read_text()).items() if k == "manager"},
            **found,
        }
    file.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{args.project} {', '.join(found['releases'])}: accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
