"""``scripts/docs_reference``: writes the generated pages, or compares them with the code (``--check``)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from reference.pages import FOLDER, PAGES, stale


def main(argv: Sequence[str]) -> int:
    """0: written, or nothing to write; 1: ``--check`` found a page that is out of date."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="scripts/docs_reference",
        description="Generate the pages of docs/reference that come from the code.",
        epilog="example: scripts/docs_reference --check",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a page is out of date"
    )
    check = parser.parse_args(argv).check
    old = stale()
    for name in old:
        if check:
            print(f"docs/reference/{name}: out of date; run scripts/docs_reference")
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"docs/reference/{name}: written")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
