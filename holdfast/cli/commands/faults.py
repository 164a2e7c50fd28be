"""``holdfast faults [CODE | WORD …]``: the fault catalogue."""

from __future__ import annotations

import argparse
import importlib
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.faults import FAULTS, Fault
from holdfast.text.remedy import NEEDS
from holdfast.text.tables import table
from holdfast.text.wording import did_you_mean
from holdfast.vocabulary import Severity

EXAMPLE = """\
examples:
  holdfast faults                   every fault
  holdfast faults XID79             its runbook; so does 79
  holdfast faults SXID12028         an NVSwitch's; so does 12028
  holdfast faults C04               a code of holdfast diagnose
  holdfast faults nvlink training   every fault that contains both words
  holdfast faults --class storage --json

exit status: 0 found, 1 nothing found, 2 usage error
"""

_FIRST_SXID = 10_000
"""NVIDIA numbers SXids from here; no Xid has more than three digits."""

_WIDTH = 88
_WITH_CLASS = 100
"""Below this width the table has no column CLASS: the titles need the room."""
_NUMBER = re.compile(r"(S?XID)(\d{1,9})")

_SEVERITY = {
    Severity.FATAL: "work on the node is lost or wrong: it has to leave service at once",
    Severity.WARN: "the node is degraded, and running jobs go on",
    Severity.INFO: "a record only, no statement about the node",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast faults",
        description="Show what each fault means, its severity, and what must happen to the node.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CODE or WORD",
        help="one code or number, or words to search for",
    )
    classes = sorted({row.fault_class.value for row in FAULTS.values()})
    parser.add_argument("--class", dest="of", choices=classes, help="only faults of this class")
    parser.add_argument("--json", action="store_true", help="a list of rows, one object each")
    return parser


def main(argv: Sequence[str]) -> int:
    """The command. 0: printed; 1: no matching fault."""
    arguments = parser().parse_args(argv)
    rows = [row for row in FAULTS.values() if arguments.of in (None, row.fault_class.value)]
    page = _exact(arguments.words)
    signature = None if page or arguments.of else _signature(arguments.words)
    if signature is not None:
        say_json([signature]) if arguments.json else say(_signature_page(signature))
        return 0
    if page is not None:
        rows = [page]
    elif arguments.words:
        rows = [row for row in rows if _matches(row, arguments.words)]
    if not rows:
        complain(f"holdfast faults: {_no_match(arguments.words, arguments.of)}")
        return 1
    if arguments.json:
        say_json([_as_json(row) for row in rows])
    else:
        say(_page(page) if page is not None else _list(rows))
    return 0


def _code(words: Sequence[str]) -> str:
    """The words as one code: ``xid 79``, ``XID79``, ``79``, ``SXid 12028``, ``gpu_lost``."""
    text = "".join("".join(words).split()).upper()
    if not text.isdecimal() or len(text) > 6:
        return text
    return f"SXID{text}" if int(text) >= _FIRST_SXID else f"XID{int(text)}"


def _exact(words: Sequence[str]) -> Fault | None:
    """The row that the words name exactly."""
    return FAULTS.get(_code(words)) if words else None


def _signature(words: Sequence[str]) -> dict[str, str] | None:
    """The row of a code that ``holdfast diagnose`` prints, where the node part is installed."""
    try:
        catalogue = importlib.import_module("slurm_hooks.job.diagnosis.catalogue")
    except ModuleNotFoundError:
        return None
    text = "".join(words)
    # DOWN and LOST are also ordinary words to search for.
    found: dict[str, str] | None = catalogue.describe(text if text.isalpha() else text.upper())
    return found


def _signature_page(row: dict[str, str]) -> str:
    facts = [_line(name, row[name]) for name in ("do", "suspect", "retry", "class")]
    # in one line: a break within a regular expression would change it
    pattern = f"  {'pattern':<9} {row['pattern']}"
    return "\n".join([f"{row['code']}: {row['title']}", *facts, pattern])


def _matches(row: Fault, words: Sequence[str]) -> bool:
    if _NUMBER.fullmatch(_code(words)):
        return False  # a number that has no row is not part of another number
    text = f"{row.code} {row.title} {row.runbook} {row.fault_class.value} {row.action.value}"
    return all(word.casefold() in text.casefold() for word in words)


def _no_match(words: Sequence[str], of: str | None) -> str:
    text, code = " ".join(words), _code(words)
    if of is not None:
        return f"no fault of class {of} matches {text!r}"
    if _NUMBER.fullmatch(code):
        return (
            f"{code} is not in the catalogue: an unknown number is a warning and never drains a node; look it "
            "up in NVIDIA's documentation and keep the kernel log"
        )
    # Never for a number: a similar number is another fault.
    return f"no fault {text!r}{did_you_mean(code, FAULTS) or '; `holdfast faults` lists them all'}"


def _as_json(row: Fault) -> dict[str, Any]:
    return {
        "code": row.code,
        "title": row.title,
        "severity": row.severity.name.lower(),
        "class": row.fault_class.value,
        "action": row.action.value,
        "drains": row.drains,
        "consequence": row.consequence,
        "by_users": row.by_users,
        "moves_jobs": row.moves_jobs,
        "runbook": row.runbook,
        "source": row.source,
    }


def _list(rows: Iterable[Fault]) -> str:
    width = screen_width()
    wide = width is None or width >= _WITH_CLASS
    head = ("CODE", "SEVERITY", *(["CLASS"] if wide else []), "ACTION", "DRAINS", "TITLE")
    body = [
        (
            row.code,
            row.severity.name.lower(),
            *([row.fault_class.value] if wide else []),
            row.action.value,
            "yes" if row.drains else "no",
            row.title,
        )
        for row in rows
    ]
    return table([head, *body], width)


def _page(row: Fault) -> str:
    facts = [
        ("severity", f"{row.severity.name.lower()}: {_SEVERITY[row.severity]}"),
        ("part", row.fault_class.value),
        ("drains", _drains(row)),
        ("needs", f"{NEEDS[row.action]} ({row.action.value})"),
        ("do", row.runbook),
        ("source", row.source),
    ]
    if row.consequence:
        facts.insert(1, ("follows", "another fault or a kill: look for the event just before it"))
    if row.by_users:
        text = "any user with a job there can cause it: counts against node.budget.users_share too"
        facts.insert(3, ("users", text))
    return "\n".join([f"{row.code}: {row.title}", *(_line(name, text) for name, text in facts)])


def _drains(row: Fault) -> str:
    if not row.drains:
        return "no"
    if row.severity is Severity.FATAL:
        return "yes, at once, where its check is in mode drain"
    if row.moves_jobs:
        return "yes, where its check is in mode drain; jobs of holdfast run leave at their next checkpoint"
    return "yes, once its jobs have ended, where its check is in mode drain"


def _line(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=f"  {name:<9} ",
        subsequent_indent=" " * 12,
        break_on_hyphens=False,
        break_long_words=False,
    )
