"""The codes that ``holdfast diagnose`` prints, described for ``holdfast faults``."""

from __future__ import annotations

from slurm_hooks.job.diagnosis.causes import CLASS_OF, RETRY_OF
from slurm_hooks.job.diagnosis.launcher_lines import NODE_STATES, signature_of
from slurm_hooks.job.signatures import SIGNATURES, Retry, Signature, Suspect

_RETRY = {
    "same": "on the same nodes",
    "exclude": "on other nodes",
    "hold": "a person must decide",
    "fail": "none: the program must be corrected",
}
_SUSPECT = {
    Suspect.YES: "the node that printed the line",
    Suspect.NO: "no node",
    Suspect.IF_REPEATED: "the node that printed the line, if only that node prints it repeatedly",
    Suspect.NAMED_RANK: "the node of the rank that the line names",
    Suspect.BOTH_ENDS: "the nodes at both ends of the connection",
    Suspect.ONE_NODE: "the node whose tasks alone failed",
}


def describe(code: str) -> dict[str, str] | None:
    """The row of ``code`` as text for each column; ``None`` for an unknown code."""
    if code in NODE_STATES:
        return _row(signature_of(code), NODE_STATES[code])
    row = next((row for row in SIGNATURES if row.code == code), None)
    return _row(row, f"a line of a job's log: {row.kind.value}") if row else None


def _row(row: Signature, title: str) -> dict[str, str]:
    retry = RETRY_OF[row.retry]
    once = ", once" if row.retry is Retry.ONCE else ""
    return {
        "code": row.code,
        "title": title,
        "class": CLASS_OF[row.kind],
        "suspect": _SUSPECT[row.suspect],
        "retry": f"{retry}: {_RETRY[retry]}{once}",
        "pattern": row.pattern,
    }
