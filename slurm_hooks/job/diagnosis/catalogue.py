"""The codes that ``holdfast diagnose`` prints, described for ``holdfast faults``."""

from __future__ import annotations

from slurm_hooks.job.diagnosis.causes import CLASS_OF, RETRY_OF
from slurm_hooks.job.diagnosis.lines.launcher_lines import HANG, NODE_STATES, signature_of
from slurm_hooks.job.signatures import SIGNATURES, Kind, Retry, Signature, Suspect

_RETRY = {
    "same": "on the same nodes",
    "exclude": "on other nodes",
    "hold": "a person must decide",
    "fail": "no retry, the program must be corrected",
}
_DO = {
    Retry.PLAIN: "Start the job again.",
    Retry.ONCE: "Start the job again, once. If it fails in the same way, find the cause first.",
    Retry.AFTER_A_WHILE: "Start the job again after some minutes.",
    Retry.ROLLED_BACK: "Start the job again from a checkpoint before the newest one.",
    Retry.EXCLUDING: "Start the job again on other nodes.",
    Retry.NEVER: "Find the cause before you start the job again.",
    Retry.NOT_AT_ALL: "Correct the program: a retry would fail in the same way.",
    Retry.UNDECIDED: "Look for the cause in other lines: this one does not tell it.",
}
_NO_FAILURE = (Kind.PROGRESS, Kind.PLACE)
_SUSPECT = {
    Suspect.YES: "the node that printed the line",
    Suspect.NO: "no node",
    Suspect.IF_REPEATED: "the node that printed the line, if only that node prints it repeatedly",
    Suspect.IF_ALONE: "the node that printed the line, if no other node prints it",
    Suspect.NAMED_RANK: "the node of the rank that the line names",
    Suspect.BOTH_ENDS: "the nodes at both ends of the connection",
    Suspect.ONE_NODE: "the node whose tasks alone failed",
}

_TITLES = {
    Kind.GPU: "a GPU fault",
    Kind.NETWORK: "a network fault",
    Kind.HOST: "a fault of the host",
    Kind.STORAGE: "a storage fault",
    Kind.HOST_MEMORY: "host memory exhausted",
    Kind.GPU_MEMORY: "GPU memory exhausted",
    Kind.CODE: "an error of the program",
    Kind.DATA: "invalid or unavailable data",
    Kind.COLLECTIVE_TIMEOUT: "a timeout of a collective",
    Kind.NUMERIC: "a numeric error",
    Kind.HANG: "a hang",
    Kind.CHECKPOINT: "an invalid checkpoint",
    Kind.ENVIRONMENT: "an error of the environment",
    Kind.SCHEDULER: "an event of the scheduler",
    Kind.CASCADE: "a consequence of another failure",
    Kind.PROGRESS: "training progress, not a failure",
    Kind.PLACE: "the host of a rank, not a failure",
}


def describe(code: str) -> dict[str, str] | None:
    """The row of ``code`` as text for each column; ``None`` for an unknown code."""
    if code in NODE_STATES:
        return _row(signature_of(code), NODE_STATES[code], "the node that the line names")
    if code == HANG.code:
        title = "the job made no progress, and the launcher ended the attempt"
        return _row(HANG, title, "the nodes that the line names")
    row = next((row for row in SIGNATURES if row.code == code), None)
    if row is None:
        return None
    return _row(row, f"{_TITLES[row.kind]}, found in a log", _SUSPECT[row.suspect])


def _what_to_do(row: Signature, suspect: str) -> str:
    if row.kind in _NO_FAILURE:
        return "Nothing: this is no failure."
    if row.suspect is Suspect.NO:
        return _DO[row.retry]
    return f"{_DO[row.retry]} Check {suspect}: holdfast explain NODE."


def _row(row: Signature, title: str, suspect: str) -> dict[str, str]:
    retry = RETRY_OF[row.retry]
    once = ", once" if row.retry is Retry.ONCE else ""
    return {
        "code": row.code,
        "title": title,
        "do": _what_to_do(row, suspect),
        "class": CLASS_OF[row.kind],
        "suspect": suspect,
        "retry": f"{retry}: {_RETRY[retry]}{once}",
        "pattern": row.pattern,
    }
