"""The text and JSON of ``holdfast history``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from holdfast.faults import fault_of
from holdfast.history import event as names
from holdfast.history.event import Event
from holdfast.history.kill_switches import switches_on
from holdfast.history.lemon import LEMON_DRAINS, WINDOW_S, Rating, Score
from holdfast.history.subject import SubjectHistory
from holdfast.text.tables import fitted, table
from holdfast.text.wording import counted as plural

MEANING: Mapping[Rating, str] = {
    Rating.GOOD: "nothing unusual in 28 days",
    Rating.WATCH: "fails more often than others: schedule it last (Weight in slurm.conf), inspect it when idle",
    Rating.LEMON: "returns to service and fails again: run long tests (dcgmi diag -r 3, pairwise NCCL) before it "
    "is used again, and request a replacement",
}

_SIGNALS: Mapping[str, tuple[str, str]] = {
    "faults": ("hardware fault", "hardware faults"),
    "repairs": ("repair by a person or with a new part", "repairs by a person or with a new part"),
    "drains": ("drain", "drains"),
    "affected_jobs": ("affected job", "affected jobs"),
}

_OF_THE_NODE = frozenset(
    {
        *(names.BOOT, names.AGENT_STARTED, names.AGENT_ENDED),
        *(names.DRAINED, names.RETURNED, names.WITHDRAWN, names.OVER_BUDGET, names.RESUMED),
    }
)
"""Events of a whole node, which a GPU's fault may have caused: a GPU's page marks them."""

_PLAIN: Mapping[str, str] = {
    names.BOOT: "booted",
    names.AGENT_STARTED: "agent started",
    names.AGENT_ENDED: "agent ended",
    names.STATE_LOST: "tracked state lost",
    names.OPENED: "fault",
    names.CLOSED: "fault over",
    names.INVENTORY: "GPUs listed",
    names.KILL_SWITCHES: "kill switches",
}
"""Events with a better text than their name; the others are shown by their name."""


_SHORT_CHARS = 12
_LONGEST_S = 1e11


def past_page(
    past: SubjectHistory,
    score: Score,
    events: Sequence[Event],
    since: float,
    width: int | None = None,
) -> str:
    """One node or GPU: rating, counts and events. ``events`` are those to show; ``width`` as in
    ``holdfast.text.tables``.
    """
    parts = [fitted("\n".join(_past_lines(past, score)), width)]
    often = list(_often(events, short=width is not None))
    if often:
        what = ("TIMES", "CODE", "ON", "FIRST", "LAST", "WHAT IT IS")
        parts.append(table([what, *often], width, indent=2))
    rows = [_row(event, of_gpu=past.kind == "gpu") for event in events]
    none = f"  no events since {when(since)}"
    head = ("WHEN", "NODE", "EVENT", "WHAT")
    parts.append(table([head, *rows], width, indent=2) if rows else none)
    return "\n\n".join(parts)


def _past_lines(past: SubjectHistory, score: Score) -> Iterator[str]:
    what = "GPU " if past.kind == "gpu" else ""
    yield f"{what}{past.name}: {score.rating.value}, lemon score {score.value:.2f} of 1 in {_days()} days"
    yield f"  means     {MEANING[score.rating]}"
    yield f"  counted   {counted(score)}"
    on = switches_on(event for event in past.events if event.node == past.name)
    if on:
        yield f"  switches  on: {', '.join(sorted(on))}"
    if past.gpus:
        listed = (f"{gpu.get('gpu')} {gpu.get('gpu_uuid')}" for gpu in past.gpus)
        yield f"  GPUs      {', '.join(listed)}"


def counted(score: Score) -> str:
    """The counts behind the score, in one line."""
    parts = []
    for name, count in score.counts.items():
        threshold = f" (threshold {score.reference[name]:g})" if count else ""
        parts.append(f"{plural(count, *_SIGNALS[name])}{threshold}")
    twice = score.rating is Rating.LEMON and score.counts.get("drains", 0) >= LEMON_DRAINS
    rule = f" ({LEMON_DRAINS} drains are enough)" if twice else ""
    return ", ".join(parts) + rule


def ranking_page(rows: Iterable[tuple[SubjectHistory, Score]], width: int | None = None) -> str:
    """Every node, the worst first."""
    head = ("NODE", "SCORE", "RATING", "FAULTS", "DRAINS", "LAST FAULT", "WHEN")
    return table([head, *(_ranked(past, score) for past, score in rows)], width)


def _ranked(past: SubjectHistory, score: Score) -> tuple[str, ...]:
    faults = [event for event in past.counted if event.event == names.OPENED]
    last = max(faults, key=lambda event: event.t, default=None)
    return (
        past.name,
        f"{score.value:.2f}",
        score.rating.value,
        str(score.counts.get("faults", 0)),
        str(score.counts.get("drains", 0)),
        last.code if last else "-",
        when(last.t) if last else "-",
    )


def _often(events: Iterable[Event], *, short: bool) -> Iterator[tuple[str, ...]]:
    """One row for each fault and its part, the most frequent first. ``short``: the first characters of a
    UUID, which the command takes too."""
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.event == names.OPENED and event.code:
            on = event.gpu_uuid or str(event.facts.get("subject") or "node")
            groups.setdefault((event.code, on), []).append(event)
    for (code, on), found in sorted(groups.items(), key=lambda row: (-len(row[1]), row[0])):
        first, last = when(found[0].t), when(found[-1].t)
        part = on[:_SHORT_CHARS] if short and on.startswith("GPU-") else on
        yield (str(len(found)), code, part, first, last, fault_of(code).title)


def _row(event: Event, *, of_gpu: bool) -> tuple[str, str, str, str]:
    name = _PLAIN.get(event.event, event.event.replace("_", " "))
    if of_gpu and event.event in _OF_THE_NODE:
        name = f"node {name}"
    return (when(event.t), event.node, name, sentence(event))


def sentence(event: Event) -> str:
    """The event in one line."""
    if event.event == names.OPENED:
        mode = event.facts.get("mode")
        limited = f" ({mode} only)" if mode in ("observe", "comment") else ""
        return f"{event.code} on {_on(event)}: {event.detail}{limited}"
    if event.event == names.CLOSED:
        open_s = event.facts.get("open_s")
        after = ""
        if isinstance(open_s, (int, float)) and 0 <= open_s < _LONGEST_S:
            after = f" after {lasted(open_s)}"
        return f"{event.code} on {_on(event)}{after}"
    if event.event == names.INVENTORY:
        gpus = event.facts.get("gpus")
        return plural(len(gpus), "GPU") if isinstance(gpus, list) else "-"
    if event.event == names.KILL_SWITCHES:
        on = event.facts.get("on")
        return f"on: {', '.join(map(str, on))}" if isinstance(on, list) and on else "none is on"
    pairs = " ".join(f"{name}={value}" for name, value in event.facts.items())
    detail = event.detail.removeprefix(f"{event.event.replace('_', ' ')}: ")
    return detail or " ".join(filter(None, (event.code, pairs))) or "-"


def _on(event: Event) -> str:
    if event.gpu is not None:
        return f"GPU {event.gpu}"
    return str(event.facts.get("subject") or "node")


def lasted(seconds: float) -> str:
    """A duration as text."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def as_json(past: SubjectHistory, score: Score, events: Sequence[Event]) -> dict[str, Any]:
    """One node or GPU as JSON; times in epoch seconds."""
    return {
        "kind": past.kind,
        "name": past.name,
        **score_json(score),
        "gpus": list(past.gpus),
        "events": [event.record() for event in events],
    }


def score_json(score: Score) -> dict[str, Any]:
    """The score as JSON."""
    return {
        "score": round(score.value, 4),
        "rating": score.rating.value,
        "rating_description": MEANING[score.rating],
        "counts": dict(score.counts),
        "reference": dict(score.reference),
        "window_s": WINDOW_S,
    }


def when(at: float) -> str:
    """A time as text, in this machine's time zone."""
    try:
        moment = datetime.fromtimestamp(at, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):
        return "-"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _days() -> int:
    return round(WINDOW_S / 86400)
