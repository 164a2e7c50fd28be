"""``holdfast faults [CODE]``: the fault catalogue."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.console import complain, say, say_json, table
from holdfast.faults import FAULTS, Fault

EXAMPLE = """\
examples:
  holdfast faults
  holdfast faults XID79
  holdfast faults 79 --json

exit status: 0 found, 1 no such code, 2 used wrongly
"""


def main(argv: Sequence[str]) -> int:
    """The command. 0: printed; 1: the catalogue has no such code."""
    parser = argparse.ArgumentParser(
        prog="holdfast faults",
        description="What each fault means, how bad it is, and what must happen to the node.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("code", nargs="?", help="one code; a bare number means an Xid")
    parser.add_argument("--json", action="store_true", help="a list of rows, one object each")
    asked = parser.parse_args(argv)
    rows = list(FAULTS.values())
    if asked.code:
        code = f"XID{asked.code}" if asked.code.isdigit() else asked.code.upper().replace(" ", "")
        if code not in FAULTS:
            complain(f"holdfast faults: no fault {asked.code!r}{_did_you_mean(code)}")
            return 1
        rows = [FAULTS[code]]
    if asked.json:
        say_json([_as_json(row) for row in rows])
    else:
        say(_page(rows[0]) if asked.code else _list(rows))
    return 0


def _did_you_mean(code: str) -> str:
    close = difflib.get_close_matches(code, FAULTS, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else "; `holdfast faults` lists them all"


def _as_json(row: Fault) -> dict[str, Any]:
    return {
        "code": row.code,
        "title": row.title,
        "severity": row.severity.name.lower(),
        "class": row.fault_class.value,
        "action": row.action.value,
        "drains": row.drains,
        "runbook": row.runbook,
        "source": row.source,
    }


def _list(rows: Iterable[Fault]) -> str:
    head = ("CODE", "SEVERITY", "CLASS", "ACTION", "DRAINS", "TITLE")
    body = [
        (
            row.code,
            row.severity.name.lower(),
            row.fault_class.value,
            row.action.value,
            "yes" if row.drains else "no",
            row.title,
        )
        for row in rows
    ]
    return table([head, *body])


def _page(row: Fault) -> str:
    return "\n".join(
        (
            f"{row.code}: {row.title}",
            f"  severity  {row.severity.name.lower()}",
            f"  class     {row.fault_class.value}",
            f"  action    {row.action.value} before the node returns",
            f"  drains    {'yes, where the check may' if row.drains else 'no'}",
            f"  do        {row.runbook}",
            f"  source    {row.source}",
        )
    )
