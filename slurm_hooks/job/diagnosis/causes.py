"""Finds the cause of a failure in the lines of a log. Pure.

The cause is the earliest line that is not a consequence of another (recovery.md section 3.3). What
NCCL, torchrun and srun print while a job fails is a consequence. In a log with several attempts, the
last attempt that shows a cause counts. A bad node that the launcher names outranks other lines, since
Slurm or the node's agent confirmed it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from slurm_hooks.job.diagnosis.launcher_lines import PREFIX, is_confirmed, node_fault_in
from slurm_hooks.job.signatures import SIGNATURES, Kind, Retry, Signature, Suspect

_MAX_LINE_CHARS = 4000
_NO_LOG_LINE = frozenset({"L07", "P01", "P02", "P03"})
"""L07 is the text of a node's Reason; the P rows show progress."""
_WEAK = frozenset({"L05", "L06", "R02"})
"""A task failed, or could not be started: any other line is a better cause."""

_HINTS = (
    "error", "fail", "xid", "fatal", "fallen off", "nvswitch", "uncorrect", "machine check",
    "mce:", "edac", "anic -", "oops", "bug:", "stall", "blocked for", "stuck", "mlx5", "event",
    "arrier", "not respond", "memory", "disk", "read-only", "nvme", "oom", "libnccl", "invalid",
    "lustre", "vastnfs", "virtiofs", "connection", "assert", "indexselect", "launch",
    "misaligned", "illegal", "stack", "unavailable", "not ready", "no cuda", "no cuda-capable",
    "driver", "initialized", "cublas", "cudnn", "capac", "asynchronously", "cuda", "timeout",
    "watchdog", "desync", "mismatch", "peer", "ibv_", "route", "not found", "no socket",
    "dev/shm", "nvls", "pipe", "recv", "socket", "signal", "exitcode", "root cause", "host",
    "store", "in use", "eaddrinuse", "worker", "limit", "errno", "space", "quota", "stale",
    "endpoint", "eof", "truncated", "central directory", "metadata", "distcp", "zero_pp",
    "trainer_state", "exception", "no such", "missing key", "unexpected key", "too many",
    "shapes", "size of tensor", "same device", "require grad", "unrecognized", "required",
    "argument", "pyxis", "nan", "inf", "non-finite", "loss scale", "overflow",
    "skipped iterations", "resource_exhausted", "heartbeat", "unhealthy", "waiting for",
    "termination", "aborted", "deadline", "tasks that", "synchronize", "cancelled", "held",
    "requeue", "entire process", "nccl", "bad_alloc", "gzip", "unable to", "zero bytes", "rank",
    "collective", "collectives", "client error", "root", "system", "context", "temperature",
    "power", "module", "credential", "execve", "can't open", "cannot open", "can't find",
)  # fmt: skip
"""Every signature contains one of these words in lower case (a test checks it). Most lines contain
none, so most lines need no pattern.
"""

_ATTEMPT = re.compile(r"^holdfast: attempt \d+ of job \d+ starts ")
_REQUEUED = "DUE TO JOB REQUEUE"
"""The end of a line of L02 that follows a requeue. Any other line is a better cause."""

_PREFIX = r"(?P<prefix>(?:(?:\[\w+\]|\d{1,6}): ?)*(?: *\|)?)"
_SOURCE_FILE = re.compile(rf"^{_PREFIX}(?P<indent> +)File \".*\", line \d+")
_INDENTED = re.compile(rf"^{_PREFIX}(?P<indent> *)")
_RANK = (
    re.compile(r"^\s*(?P<rank>\d{1,6}): "),  # srun --label
    re.compile(r"\[rank(?P<rank>\d+)\]"),
    re.compile(r"\[?\bRank (?P<rank>\d+)\b"),
)
_HOST = (
    re.compile(r"\bslurmstepd-(?P<host>[\w.-]+): "),
    re.compile(r"srun: error: (?P<host>[\w.-]+): tasks? "),
    re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>\S+) "),
)
_CHANGING = re.compile(r"0x[0-9a-f]+|\d+|(?:/[\w.+-]+)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log; ``number`` counts from 1."""

    file: str
    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The line that explains the failure. ``host`` and ``rank`` are None if the line has none."""

    signature: Signature
    line: LogLine
    host: str | None
    rank: int | None

    @property
    def fingerprint(self) -> str:
        """Equal for lines that differ only in numbers, addresses and paths."""
        return f"{self.signature.code}:{_CHANGING.sub('#', self.line.text)[:200]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``cause`` None: no line explains the failure. ``others``: code → count of other lines that match,
    consequences included.
    """

    cause: Cause | None
    suspects: tuple[str, ...]
    others: dict[str, int]


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[Signature, re.Pattern[str]], ...]:
    """Compiled on first use: 100 patterns take about 50 ms."""
    usable = [row for row in SIGNATURES if row.code not in _NO_LOG_LINE]
    # Consequences come last: a line that also matches another row is more than a consequence.
    ordered = sorted(usable, key=lambda row: row.kind is Kind.CASCADE)
    return tuple((row, re.compile(row.pattern)) for row in ordered)


def match(text: str) -> tuple[Signature, re.Match[str]] | None:
    """The first signature that fits a line, and its match."""
    text = text[:_MAX_LINE_CHARS]
    if text.startswith(PREFIX):
        return node_fault_in(text)
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    for signature, pattern in _patterns():
        found = pattern.search(text)
        if found:
            return signature, found
    return None


def diagnose(lines: Iterable[LogLine]) -> Diagnosis:
    """The cause among lines in the order in which they were printed."""
    best: _Attempt | None = None
    for attempt in _attempts(lines):
        if best is None or attempt.strong or not best.strong:
            best = attempt if attempt.hits else best or attempt
    return best.diagnosis() if best else Diagnosis(cause=None, suspects=(), others={})


class _Attempt:
    """The lines of one attempt that match a signature."""

    def __init__(self) -> None:
        self.hits: list[Cause] = []
        self._counts: Counter[str] = Counter()

    def add(self, line: LogLine, signature: Signature, found: re.Match[str]) -> None:
        self._counts[signature.code] += 1
        # Only the first few of each code count; a log may hold a million of them.
        if self._counts[signature.code] <= 8:
            named = found.groupdict()
            rank = named.get("rank") or _first(_RANK, "rank", line.text)
            host = named.get("host") or named.get("node") or _first(_HOST, "host", line.text)
            self.hits.append(
                Cause(signature=signature, line=line, host=host, rank=int(rank) if rank else None)
            )

    @property
    def strong(self) -> list[Cause]:
        """Possible causes other than a failed task or a requeue; a confirmed bad node alone."""
        strong = [
            hit for hit in self.hits if hit.signature.kind is not Kind.CASCADE and not _is_weak(hit)
        ]
        confirmed = [hit for hit in strong if is_confirmed(hit.signature.code, hit.line.text)]
        return confirmed or strong

    def diagnosis(self) -> Diagnosis:
        possible = self.strong or [hit for hit in self.hits if _is_weak(hit)]
        cause = possible[0] if possible else None
        others = dict(self._counts)
        if cause:
            others[cause.signature.code] -= 1
        return Diagnosis(
            cause=cause,
            suspects=tuple(_suspects(cause, possible)) if cause else (),
            others={code: count for code, count in others.items() if count},
        )


def _is_weak(hit: Cause) -> bool:
    return hit.signature.code in _WEAK or _REQUEUED in hit.line.text


def _without_source(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """The lines without the source code in tracebacks: the exception's own line is the cause.

    A traceback shows a ``File`` line and below it, indented further, the source code. Ranks that
    print at the same time are told apart by their prefix (``[rank3]:``, ``3:``).
    """
    open_files: dict[str, int] = {}
    for line in lines:
        text = line.text[:_MAX_LINE_CHARS]
        indented = _INDENTED.match(text)
        prefix, indent = (indented["prefix"], len(indented["indent"])) if indented else ("", 0)
        if prefix in open_files and indent > open_files[prefix] and text.strip():
            continue
        open_files.pop(prefix, None)
        found = _SOURCE_FILE.match(text)
        if found:
            open_files[prefix] = indent
            continue
        yield line


def _attempts(lines: Iterable[LogLine]) -> Iterator[_Attempt]:
    attempt = _Attempt()
    for line in _without_source(lines):
        if _ATTEMPT.match(line.text):
            yield attempt
            attempt = _Attempt()
            continue
        found = match(line.text)
        if found:
            attempt.add(line, *found)
    yield attempt


def _suspects(cause: Cause, possible: list[Cause]) -> Iterator[str]:
    """Hosts that the cause makes suspect. The host of a victim is not suspect (``NAMED_RANK``)."""
    if cause.host is None:
        return
    same = [other for other in possible if other.signature.code == cause.signature.code]
    hosts = {other.host for other in same}
    match cause.signature.suspect:
        case Suspect.YES | Suspect.BOTH_ENDS:
            yield cause.host
        case Suspect.IF_REPEATED:
            if len(same) > 1 and hosts == {cause.host}:
                yield cause.host
        case Suspect.NO | Suspect.NAMED_RANK | Suspect.ONE_NODE:
            return  # for ONE_NODE, a log does not show how many nodes the job had


def _first(patterns: Iterable[re.Pattern[str]], group: str, text: str) -> str | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return found[group]
    return None


CLASS_OF: dict[Kind, str] = {
    Kind.GPU: "hardware",
    Kind.HOST: "hardware",
    Kind.NETWORK: "network",
    Kind.COLLECTIVE_TIMEOUT: "network",
    Kind.STORAGE: "storage",
    Kind.CHECKPOINT: "storage",
    Kind.HANG: "infrastructure",
    Kind.ENVIRONMENT: "infrastructure",
    Kind.HOST_MEMORY: "application",
    Kind.GPU_MEMORY: "application",
    Kind.DATA: "application",
    Kind.NUMERIC: "application",
    Kind.CODE: "user",
    Kind.SCHEDULER: "scheduler",
    Kind.CASCADE: "unknown",
    Kind.PROGRESS: "unknown",
}
"""The class that ``holdfast diagnose`` prints (design.md section 6)."""

RETRY_OF: dict[Retry, str] = {
    Retry.PLAIN: "same",
    Retry.ONCE: "same",
    Retry.AFTER_A_WHILE: "same",
    Retry.ROLLED_BACK: "same",
    Retry.UNDECIDED: "same",
    Retry.EXCLUDING: "exclude",
    Retry.NEVER: "hold",
    Retry.NOT_AT_ALL: "fail",
}
