"""What befell a job, told where everybody can read it: the job's AdminComment in Slurm.

One line, ``holdfast: CODE node=NAME gpu=3 step=0 pid=4711 n=2 run=0 at=1795239019; CODE …``. Each
node's agent adds its own entries; the launcher, ``holdfast explain`` and people read them. A comment
that does not begin with our word is somebody else's and is left alone. Pure.
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
"""Slurm keeps a comment as text without a documented bound; what no screen shows helps nobody."""

_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,39}")
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,253}")


class Attribution(str, Enum):
    """Whose fault an entry speaks of."""

    NODE = "node"
    JOB = "job"
    NOBODY = "nobody"
    """A record that explains others: no evidence by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One kind of thing that happened to one run of a job, on one GPU or on a node as a whole.

    ``code``     as in the fault catalogue.
    ``gpu``      index on the node; None: not one GPU's matter.
    ``step``     the step's number, empty: not known. ``pid``: as the kernel named it.
    ``count``    how often; ``at`` when last, epoch seconds.
    ``run``      the job's restart count.
    ``observe_only``   the check behind it may not act yet (mode observe): told, not to be acted on.
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
        """Equal for entries that tell of the same thing."""
        return (self.run, self.code, self.node, self.gpu, self.step)

    @property
    def severity(self) -> Severity:
        return fault_of(self.code).severity

    @property
    def attribution(self) -> Attribution:
        """By the fault catalogue: an application's fault is the job's, a fatal or lasting one of
        the machine is the node's."""
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
        """For journals and reports."""
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
"""Follows each kill of a process on a GPU, by the thousand on healthy nodes (NVSentinel 1748)."""


def attribution_of(code: str) -> Attribution:
    """Whose fault a code speaks of, by the catalogue's class and severity."""
    fault = fault_of(code)
    if code in _ALWAYS_CONSEQUENCES:
        return Attribution.NOBODY
    if fault.fault_class is FaultClass.APPLICATION:
        return Attribution.JOB
    if fault.severity is Severity.FATAL or (fault.severity is Severity.WARN and fault.drains):
        return Attribution.NODE
    return Attribution.NOBODY


def verdict(entries: Iterable[Incident]) -> Attribution:
    """Whose fault all of it is: a broken machine explains what the application saw on it."""
    blames = {entry.attribution for entry in entries}
    for blame in (Attribution.NODE, Attribution.JOB):
        if blame in blames:
            return blame
    return Attribution.NOBODY


def is_ours(comment: str) -> bool:
    """True where we may write: nothing there, or our own words."""
    return not comment.strip() or comment.lstrip().startswith(PREFIX)


def parse(comment: str) -> tuple[Incident, ...]:
    """The entries of a comment; none in one that is not ours. What does not parse is left out."""
    text = comment.strip()
    if not text.startswith(PREFIX):
        return ()
    found = (_entry(part) for part in text[len(PREFIX) :].split(";"))
    return tuple(entry for entry in found if entry is not None)


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
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(text)
    return int(text)


def merge(old: Iterable[Incident], new: Iterable[Incident]) -> tuple[Incident, ...]:
    """Both, one entry for each thing: the later word on it, the larger count."""
    found: dict[tuple[object, ...], Incident] = {}
    for entry in (*old, *new):
        before = found.get(entry.key)
        if before is None:
            found[entry.key] = entry
        else:
            last = max(before, entry, key=lambda one: (one.at, one.pid or 0, one.observe_only))
            found[entry.key] = replace(last, count=max(entry.count, before.count))
    return tuple(sorted(found.values(), key=_order))


def _order(entry: Incident) -> tuple[object, ...]:
    """Newest run first; in it what blames the node, then the job, worst and oldest first."""
    rank = (Attribution.NODE, Attribution.JOB, Attribution.NOBODY).index(entry.attribution)
    return (-entry.run, rank, -entry.severity, entry.at, *map(str, entry.key))


def render(entries: Sequence[Incident]) -> str:
    """The comment, most telling entries first, cut at whole entries to ``MAX_CHARS``."""
    text, left = "", list(entries)
    while left:
        more = f"{text}; {left[0]}" if text else f"{PREFIX} {left[0]}"
        if len(more) > MAX_CHARS:
            return f"{text}; and {len(left)} more"
        text = more
        left.pop(0)
    return text
