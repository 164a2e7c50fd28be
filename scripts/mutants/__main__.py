"""``scripts/test mutants [FILE …]``: list changes to the code that decides about nodes that no test detects."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.errors import SandboxError, did_you_mean

from mutants import explained
from mutants.mutant import Mutant
from mutants.run import copy_tree, mutants_of
from mutants.target import TARGETS, Target


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0: every survivor is explained; 1: some are not; 2: usage error."""
    known = {target.file: target for target in TARGETS}
    parser = argparse.ArgumentParser(
        prog="scripts/test mutants",
        allow_abbrev=False,
        description=__doc__,
        epilog=f"Files: {', '.join(known)}. About 20 minutes for all of them. "
        "Survivors that are no defect are listed with the reason in scripts/mutants/explained.yaml.",
    )
    parser.add_argument("file", nargs="*", metavar="FILE", help="only these (default: all)")
    parser.add_argument(
        "--jobs", type=int, default=2, help="files to mutate in parallel (default: 2)"
    )
    args = parser.parse_args(argv)
    for name in args.file:
        if name not in known:
            parser.error(f"{name}: not one of the mutated files{did_you_mean(name, known)}")
    begin = time.monotonic()
    try:
        with ThreadPoolExecutor(args.jobs) as pool:
            found = list(pool.map(_run, [known[name] for name in args.file or known]))
    except SandboxError as error:
        print(f"scripts/test mutants: {error}", file=sys.stderr)
        return 2
    mutants = [mutant for of_file in found for mutant in of_file]
    return _report(mutants, args.file or known, time.monotonic() - begin)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(target: Target) -> list[Mutant]:
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        found = list(mutants_of(target, Path(folder), _say))
    survived = sum(mutant.survived for mutant in found)
    _say(f"  {target.file}: {len(found)} mutants, {survived} survived")
    return found


def _report(found: Sequence[Mutant], files: Collection[str], took_s: float) -> int:
    survivors = [mutant for mutant in found if mutant.survived]
    explanations = tuple(e for e in explained.load() if e.file in files)
    unexplained, unused = explained.unexplained(survivors, explanations)
    for mutant in unexplained:
        print(mutant)
    for explanation in unused:
        print(f"No survivor is explained by {explanation}: remove it from {explained.PATH.name}")
    print(
        f"{len(found)} mutants in {took_s / 60:.0f} min: {len(found) - len(survivors)} detected by a test, "
        f"{len(survivors) - len(unexplained)} survivors explained, {len(unexplained)} unexplained"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
