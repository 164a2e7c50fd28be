"""The incidents of a job, kept in its AdminComment in Slurm, which every user can read.

One line, ``holdfast: CODE node=NAME gpu=3 step=0 pid=4711 n=2 run=0 at=1795239019; CODE …;
journal=/mnt/training/.holdfast/job-7.jsonl``. Each node's agent adds its own entries; the launcher,
``holdfast explain`` and people read them. A comment that does not begin with ``holdfast:`` is somebody
else's and is never changed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.faults import fault_of
from holdfast.vocabulary import FaultClass, Severity

PREFIX = "holdfast:"
MAX_CHARS = 900
"""Slurm documents no maximum length; longer comments are hard to read on a screen."""

MAX_JOURNAL_CHARS = 400
"""A longer path is not written: the incidents need the room."""

STEPD_KILLED = "STEPD_KILLED"
"""A slurmstepd of the job was killed: its step never ends by itself."""
NODE_TESTED = "NODE_TESTED"
"""A node that the job excluded has passed an inspection."""

_JOURNAL = "journal="
_JOURNAL_CHARS = "/._-+=@,:~"
"""Besides letters and digits; the others are percent-encoded."""
_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,39}")
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,253}")


class Attribution(str, Enum):
    """What an incident is attributed to."""

    NODE = "node"
    JOB = "job"
    NONE = "none"
    """It explains other incidents, and is no evidence by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One kind of event that affected one run of a job, on one GPU or on a whole node.

    ``code``     as in the fault catalogue.
    ``gpu``      index on the node; None: not about one GPU.
    ``step``     the step's number; empty: unknown. ``pid``: as the kernel logged it.
    ``count``    how often; ``at``: the last time, epoch seconds.
    ``run``      the job's restart count.
    ``observe_only``   its check is in mode observe: reported, and not acted on.
    """

    code: str
    node: str
    gpu: int | None = None
    step: str = ""
    pid: int | None = None
    count: int = 1
    at: int = 0
    run: int = 0
    observe_only: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for entries about the same event."""
        return (self.run, self.code, self.node, self.gpu, self.step)

    @property
    def severity(self) -> Severity:
        return fault_of(self.code).severity

    @property
    def attribution(self) -> Attribution:
        """From the fault catalogue: an application fault is attributed to the job, a fatal or lasting
        fault of the machine to the node."""
        return attribution_of(self.code)

    def __str__(self) -> str:
        words = [self.code, f"node={self.node}"]
        if self.gpu is not None:
            words.append(f"gpu={self.gpu}")
        if self.step:
            words.append(f"step={self.step}")
        if self.pid is not None:
            words.append(f"pid={self.pid}")
        if self.count != 1:
            words.append(f"n={self.count}")
        words += [f"run={self.run}", f"at={self.at}"]
        return " ".join(words + ["observed"] * self.observe_only)

    def record(self) -> dict[str, object]:
        """The entry for journals and reports."""
        return {
            "code": self.code,
            "title": fault_of(self.code).title,
            "node": self.node,
            "gpu": self.gpu,
            "step": self.step,
            "pid": self.pid,
            "count": self.count,
            "run": self.run,
            "at": self.at,
            "observe_only": self.observe_only,
            "attribution": self.attribution.value,
            "fatal": self.severity is Severity.FATAL,
        }


_ALWAYS_CONSEQUENCES = frozenset({"XID45"})
"""Follows each kill of a process on a GPU; healthy nodes log thousands of them (NVSentinel 1748)."""


def attribution_of(code: str) -> Attribution:
    """What a code is attributed to, by the catalogue's class and severity."""
    fault = fault_of(code)
    if code in _ALWAYS_CONSEQUENCES:
        return Attribution.NONE
    if fault.fault_class is FaultClass.APPLICATION:
        return Attribution.JOB
    if fault.severity is Severity.FATAL or (fault.severity is Severity.WARN and fault.drains):
        return Attribution.NODE
    return Attribution.NONE


def verdict(entries: Iterable[Incident]) -> Attribution:
    """What all entries together are attributed to: a broken machine explains an application's faults."""
    found = {entry.attribution for entry in entries}
    # In this order: a GPU that fails makes programs fail in ways that look like their own errors.
    for attribution in (Attribution.NODE, Attribution.JOB):
        if attribution in found:
            return attribution
    return Attribution.NONE


def may_write(comment: str) -> bool:
    """True for a comment that is empty or Holdfast's own."""
    return not comment.strip() or comment.lstrip().startswith(PREFIX)


def parse(comment: str) -> tuple[Incident, ...]:
    """The entries of a comment; none if it is not Holdfast's. Entries that do not parse are left out."""
    text = comment.strip()
    if not text.startswith(PREFIX):
        return ()
    found = (_entry(part) for part in text[len(PREFIX) :].split(";"))
    return tuple(entry for entry in found if entry is not None)


def journal_in(comment: str) -> str:
    """The path of the job's journal that a comment names; empty: none. The job's user chose it."""
    from urllib.parse import unquote  # noqa: PLC0415 - rarely needed; the agent stays small

    text = comment.strip()
    if not text.startswith(PREFIX):
        return ""
    # Never split inside the path: ";" is not in _JOURNAL_CHARS, so it is percent-encoded there.
    parts = (part.strip() for part in text[len(PREFIX) :].split(";"))
    path = next((part[len(_JOURNAL) :] for part in parts if part.startswith(_JOURNAL)), "")
    path = unquote(path, errors="surrogateescape")
    return path if path.startswith("/") and "\0" not in path else ""


def _journal_text(path: str) -> str:
    """The part of a comment that names the journal; empty for a path that is too long."""
    from urllib.parse import quote  # noqa: PLC0415

    text = _JOURNAL + quote(path, safe=_JOURNAL_CHARS, errors="surrogateescape") if path else ""
    return text if len(text) <= MAX_JOURNAL_CHARS else ""


def _entry(text: str) -> Incident | None:
    code, *words = text.split() or [""]
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    node = pairs.get("node", "")
    if not _CODE.fullmatch(code) or not _WORD.fullmatch(node):
        return None
    try:
        return Incident(
            code=code,
            node=node,
            gpu=_whole(pairs["gpu"]) if "gpu" in pairs else None,
            step=pairs.get("step", "")[:40],
            pid=_whole(pairs["pid"]) if "pid" in pairs else None,
            count=_whole(pairs.get("n", "1")),
            at=_whole(pairs.get("at", "0")),
            run=_whole(pairs.get("run", "0")),
            observe_only="observed" in words,
        )
    except ValueError:
        return None


def _whole(text: str) -> int:
    # int() takes more: signs, spaces, underscores and digits of other scripts, and any length.
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(text)
    return int(text)


def merge(old: Iterable[Incident], new: Iterable[Incident]) -> tuple[Incident, ...]:
    """Both, with one entry for each event: the later one, with the larger count."""
    found: dict[tuple[object, ...], Incident] = {}
    for entry in (*old, *new):
        before = found.get(entry.key)
        if before is None:
            found[entry.key] = entry
        else:
            last = max(before, entry, key=lambda item: (item.at, item.pid or 0, item.observe_only))
            # Not the sum: both may have counted the same events.
            found[entry.key] = replace(last, count=max(entry.count, before.count))
    return tuple(sorted(found.values(), key=_order))


def _order(entry: Incident) -> tuple[object, ...]:
    """Newest run first; within a run what is attributed to the node, then to the job; worst and oldest first."""
    rank = (Attribution.NODE, Attribution.JOB, Attribution.NONE).index(entry.attribution)
    return (-entry.run, rank, -entry.severity, entry.at, *map(str, entry.key))


def render(entries: Sequence[Incident], journal: str = "") -> str:
    """The comment, most important entries first, cut after a whole entry to ``MAX_CHARS``.

    ``journal``: the path of the job's journal, the last part.
    """
    tail = _journal_text(journal)
    # The journal's path is worth more than the last incidents: it leads to all of them.
    room = MAX_CHARS - (len(tail) + len("; ") if tail else 0)
    text, left = "", list(entries)
    while left:
        more = f"{text}; {left[0]}" if text else f"{PREFIX} {left[0]}"
        if len(more) > room:
            text = f"{text}; and {len(left)} more"
            break
        text = more
        left.pop(0)
    if not tail:
        return text
    return f"{text}; {tail}" if text else f"{PREFIX} {tail}"
