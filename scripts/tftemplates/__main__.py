"""``scripts/terraform_templates``: writes the generated files of terraform/, or compares them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tftemplates.files import stale, write


def main(argv: Sequence[str]) -> int:
    """0: written, or nothing to write; 1: ``--check`` found a file that is out of date."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/terraform_templates",
        description="Generate the templates and tables of terraform/ from those of holdfast render.",
        epilog="example: scripts/terraform_templates --check",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file is out of date"
    )
    if parser.parse_args(argv).check:
        old = stale()
        for name in old:
            print(f"terraform/{name}: out of date; run scripts/terraform_templates")
        return 1 if old else 0
    for name in write():
        print(f"terraform/{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
