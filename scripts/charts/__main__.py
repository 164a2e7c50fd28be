"""``scripts/hold_against``: tests Holdfast's values in other projects' charts, and records the result."""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import SandboxError
from testbed.kube.programs import binaries
from testbed.paths import TREE, cache

from charts import slinky, soperator
from charts.chart import Tools
from charts.digest import BESIDE, CHARTS, MANAGER, RUNNER, digests
from charts.errors import NotHeld
from charts.operators import beside

Part = Callable[[Path, Tools], dict[str, Any]]

RECORD = TREE / "tests/data/deploy"
_PARTS: dict[str, dict[str, Part]] = {
    "soperator": {CHARTS: soperator.charts, RUNNER: soperator.answers},
    "slinky": {CHARTS: slinky.charts},
}
_RECONCILED = {"soperator": soperator.reconciled, "slinky": slinky.reconciled}


def main(argv: Sequence[str]) -> int:
    """Exit status 0: every release accepts the values and the record is written; 1: one does not; 2:
    usage error.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    for program in (args.helm, args.manager, args.flux, args.beside):
        if program is not None and not shutil.which(program):
            return _wrong(
                f"{program} not found; --helm takes Helm 3, --manager and --beside an operator's program, "
                "--flux Flux's helm-controller"
            )
    parts = _parts(args)
    if not parts:
        option = BESIDE if args.only == BESIDE else MANAGER
        return _wrong(f"nothing to do: --only {args.only} of {args.project} (with --{option}?)")
    file = RECORD / f"{args.project}.json"
    found: dict[str, Any] = {}
    try:
        kubectl = binaries(cache(), lambda text: print(text, flush=True)).kubectl
        with tempfile.TemporaryDirectory() as folder:
            tools = Tools(helm=args.helm, kubectl=kubectl, folder=Path(folder))
            for part in parts.values():
                found |= part(args.checkout, tools)
    except (NotHeld, SandboxError) as error:
        print(f"hold_against: {error}", file=sys.stderr)
        return 1
    before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    found = {**before, **found, "values": _values(args.project, parts, before)}
    file.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{args.project} {', '.join(found.get('releases', ()))}: {', '.join(parts)} accepted")
    return 0


def _parts(args: argparse.Namespace) -> Mapping[str, Part]:
    parts: dict[str, Part] = {
        name: part for name, part in _PARTS[args.project].items() if args.only in (None, name)
    }
    if args.manager is not None and args.only in (None, MANAGER):
        more = {"flux": args.flux} if args.project == "soperator" else {}
        reconciled = functools.partial(_RECONCILED[args.project], program=args.manager, **more)
        parts[MANAGER] = reconciled
    if args.beside is not None and args.only in (None, BESIDE):
        found_there = functools.partial(
            beside.histories, project=args.project, lasts_s=args.seconds
        )
        parts[BESIDE] = functools.partial(found_there, program=args.beside)
    return parts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/hold_against",
        description="Render the real charts of each release with Holdfast's values, run Flux's "
        "post-render and the real check runner, and dry-run the result on a real API server. With an "
        "operator's program, also let it reconcile the result, or act beside the bridge. As root.",
        epilog="example: scripts/hold_against soperator ~/src/soperator --helm ~/go/bin/helm",
    )
    parser.add_argument("project", choices=_PARTS)
    parser.add_argument(
        "checkout", type=Path, help="git working tree of the project, with its tags"
    )
    parser.add_argument("--helm", default="helm", help="the helm program (default: from PATH)")
    parser.add_argument(
        "--manager",
        type=Path,
        help="the operator's manager (Soperator's ./cmd, slurm-operator's ./cmd/manager), built from the "
        "commit that is checked out: it reconciles the result, as the page puts it in and takes it out",
    )
    parser.add_argument(
        "--flux",
        type=Path,
        help="Flux's helm-controller (github.com/fluxcd/helm-controller), with --manager of Soperator: the "
        "values also go in and out with Flux",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="PROGRAM",
        help="the operator's program that drains nodes (Soperator's ./cmd/soperatorchecks, "
        "slurm-operator's ./cmd/manager): it runs beside the bridge in random histories",
    )
    parser.add_argument(
        "--seconds", type=float, default=600, help="how long --beside takes (default: 600)"
    )
    parser.add_argument(
        "--only",
        choices=(CHARTS, RUNNER, MANAGER, BESIDE),
        help="one part; the record keeps what the other parts found before",
    )
    return parser


def _values(project: str, parts: Iterable[str], before: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the values that each part was tested with; those of other parts stay."""
    today = digests(project)
    return {**before.get("values", {}), **{part: today[part] for part in parts if part in today}}


def _wrong(text: str) -> int:
    print(f"hold_against: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
