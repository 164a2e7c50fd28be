"""``holdfast faults [CODE | WORD …]``: the fault catalogue."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.cli.console import complain, say, say_json, table
from holdfast.faults import FAULTS, Fault
from holdfast.remedy import NEEDS
from holdfast.vocabulary import Severity

EXAMPLE = """\
examples:
  holdfast faults                   every fault
  holdfast faults XID79             its runbook; so does 79
  holdfast faults SXID12028         an NVSwitch's; so does 12028
  holdfast faults C04               a code of holdfast diagnose
  holdfast faults nvlink training   every fault that speaks of both words
  holdfast faults --class storage --json

exit status: 0 found, 1 nothing found, 2 used wrongly
"""

_FIRST_SXID = 10_000
"""NVIDIA numbers SXids from here; no Xid has more than three digits."""

_WIDTH = 88
_NUMBER = re.compile(r"(S?XID)(\d{1,9})")

_SEVERITY = {
    Severity.FATAL: "work on the node is lost or wrong: it leaves service at once",
    Severity.WARN: "the node is degraded and goes on working",
    Severity.INFO: "a record, no opinion about the node",
}


def main(argv: Sequence[str]) -> int:
    """The command. 0: printed; 1: the catalogue has nothing like it."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast faults",
        description="What each fault means, how bad it is, and what must happen to the node.",
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
    parser.add_argument("--class", dest="of", choices=classes, help="only faults of this part")
    parser.add_argument("--json", action="store_true", help="a list of rows, one object each")
    asked = parser.parse_args(argv)
    rows = [row for row in FAULTS.values() if asked.of in (None, row.fault_class.value)]
    page = _one(asked.words)
    signature = None if page or asked.of else _signature(asked.words)
    if signature is not None:
        say_json([signature]) if asked.json else say(_signature_page(signature))
        return 0
    if page is not None:
        rows = [page]
    elif asked.words:
        rows = [row for row in rows if _speaks_of(row, asked.words)]
    if not rows:
        complain(f"holdfast faults: {_nothing(asked.words, asked.of)}")
        return 1
    if asked.json:
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


def _one(words: Sequence[str]) -> Fault | None:
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
    facts = [(name, row[name]) for name in ("class", "suspect", "retry", "pattern")]
    return "\n".join(
        [f"{row['code']}: {row['title']}", *(_line(name, text) for name, text in facts)]
    )


def _speaks_of(row: Fault, words: Sequence[str]) -> bool:
    if _NUMBER.fullmatch(_code(words)):
        return False  # a number that has no row is not part of another number
    said = f"{row.code} {row.title} {row.runbook} {row.fault_class.value} {row.action.value}"
    return all(word.casefold() in said.casefold() for word in words)


def _nothing(words: Sequence[str], of: str | None) -> str:
    text, code = " ".join(words), _code(words)
    if of is not None:
        return f"no fault of class {of} speaks of {text!r}"
    if _NUMBER.fullmatch(code):
        return (
            f"{code} is not in the catalogue: such a number is a warning and never drains a node; look it up "
            "at NVIDIA and keep the kernel log"
        )
    return f"no fault {text!r}{_did_you_mean(code) or '; `holdfast faults` lists them all'}"


def _did_you_mean(code: str) -> str:
    """Never for a number: another one that looks alike is another fault."""
    close = difflib.get_close_matches(code, FAULTS, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


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
    facts = [
        ("severity", f"{row.severity.name.lower()}: {_SEVERITY[row.severity]}"),
        ("part", row.fault_class.value),
        ("drains", _drains(row)),
        ("needs", f"{NEEDS[row.action]} ({row.action.value})"),
        ("do", row.runbook),
        ("source", row.source),
    ]
    if row.consequence:
        facts.insert(1, ("follows", "another fault or a kill: look for what came just before it"))
    if row.by_users:
        said = "any user with a job there can cause it: counts against node.budget.users_share too"
        facts.insert(3, ("users", said))
    return "\n".join([f"{row.code}: {row.title}", *(_line(name, text) for name, text in facts)])


def _drains(row: Fault) -> str:
    if not row.drains:
        return "no"
    if row.severity is Severity.FATAL:
        return "yes, at once, where its check is in mode drain"
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
