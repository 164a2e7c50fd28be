"""``holdfast history``: the events of a node or a GPU, their counts, and the lemon score."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.cli import site_config
from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.errors import ProbeError, UsageError
from holdfast.history import kill_switches, lemon, observed, page, store, subject
from holdfast.history.store import HistoryLines
from holdfast.history.subject import SubjectHistory
from holdfast.policy.budget import NODE_DEATH
from holdfast.slurm.hostlist import compress
from holdfast.text.tables import fitted
from holdfast.text.wording import counted
from slurm_hooks.worker.worker import Worker, call

EXAMPLE = """\
examples:
  holdfast history                        # all nodes, the worst first
  holdfast history worker-3
  holdfast history GPU-5d3e8a61 --since 7d   # this GPU on all nodes; a board's serial works too
  holdfast history worker-3 --json
  holdfast history --observed             # what checks in mode observe would have drained in 7 days

Reads the files in paths.history: those of all nodes if the folder is shared, else those of this node.

exit status: 0 shown, 1 no events recorded or the folder does not answer, 2 usage error, or the
configuration is invalid (the defaults are used)
"""

_DEADLINE_S = 30.0
_OBSERVED_S = 7 * 86400.0
_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast history",
        description="Show the events of a node or a GPU, their counts, and the lemon score.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", nargs="?", metavar="NODE|GPU", help="a node's name, a GPU's UUID or serial"
    )
    parser.add_argument(
        "--observed",
        action="store_true",
        help="show which nodes checks that only report would have drained",
    )
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="show events after this time: 7d, 12h or 2026-11-21 (default: 28d, with --observed 7d)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; without NODE|GPU a list"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Runs the command. Raises UsageError, and ProbeError if the folder hangs."""
    args = parser().parse_args(argv)
    now = time.time()
    window_s = _OBSERVED_S if args.observed else lemon.WINDOW_S
    since = since_of(args.since, now) if args.since else now - window_s
    found = site_config.load()
    folder = found.cluster.paths.history_folder
    reading = _read(folder, args.what)
    for problem in reading.problems:
        complain(f"holdfast history: {problem}")
    if reading.skipped:
        complain(
            f"holdfast history: {counted(reading.skipped, 'invalid line', 'invalid lines')} skipped"
        )
    if args.observed:
        status = _show_observed(reading, args.what, since, now, as_json=args.json)
    elif args.what is None:
        status = _show_all(reading, now, as_json=args.json)
    else:
        status = _show_one(reading, args.what, folder, since, now, as_json=args.json)
    return found.complain("history") or status


def _show_one(
    reading: HistoryLines, what: str, folder: Path, since: float, now: float, *, as_json: bool
) -> int:
    past = _find(what, reading)
    if past is None:
        complain(f"holdfast history: no events of {what} in {folder}{_hint(what)}")
        return 1
    score = lemon.score(past.counted, now, known=lemon.known_signals(reading.events))
    events = [event for event in past.events if event.t >= since]
    if as_json:
        say_json(page.as_json(past, score, events))
    else:
        say(page.past_page(past, score, events, since, screen_width()))
    return 0


def _show_all(reading: HistoryLines, now: float, *, as_json: bool) -> int:
    rows = subject.ranking(reading.events, now)
    switches = kill_switches.of_nodes(reading.events)
    if as_json:
        say_json(
            [
                {
                    "name": past.name,
                    **page.score_json(score),
                    "kill_switches": switches.get(past.name, []),
                }
                for past, score in rows
            ]
        )
    elif rows:
        say(page.ranking_page(rows, screen_width()))
        for name, nodes in kill_switches.by_name(switches).items():
            say(fitted(f"kill switch {name} is on: {compress(nodes)}", screen_width()))
    else:
        complain("holdfast history: no events recorded yet")
    return 0 if rows else 1


def _show_observed(
    reading: HistoryLines, what: str | None, since: float, now: float, *, as_json: bool
) -> int:
    past = None if what is None else _find(what, reading)
    events = reading.events if what is None else past.events if past else []
    if not events:
        of = "" if what is None else f" of {what}"
        complain(f"holdfast history: no events{of} recorded yet")
        return 1
    rows = observed.observed(events, since, now)
    if as_json:
        say_json(list(observed.as_json(rows)))
    else:
        say(observed.page(rows, since, screen_width()))
    return 0


def since_of(text: str, now: float) -> float:
    """Epoch seconds of ``7d`` (ago) or of a date or time in the local time zone.

    Raises ``UsageError``.
    """
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match:
        return now - int(match[1]) * _UNITS_S[match[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"--since {text!r}: use 30m, 12h, 7d, 4w or 2026-11-21") from None


def _find(what: str, reading: HistoryLines) -> SubjectHistory | None:
    if not what.startswith("GPU-") and any(event.node == what for event in reading.events):
        return subject.of_node(what, reading.events)
    return subject.of_gpu(what, reading.events)


def _hint(what: str) -> str:
    if what.startswith("GPU-"):
        return "; if several GPUs match, give more of the UUID"
    return "; `holdfast history` lists the nodes"


def _read(folder: Path, what: str | None) -> HistoryLines:
    """Reads the relevant events. The folder may hang, so a worker process reads it."""
    worker = Worker("history", lambda: _open(folder), keep=False)
    answer = call(worker, what, deadline_s=_DEADLINE_S)
    worker.close()
    if not answer.complete or not isinstance(answer.items[0], HistoryLines):
        raise ProbeError(f"{folder}: {answer.error}; {answer.evidence}".rstrip("; "))
    return answer.items[0]


def _open(folder: Path) -> Callable[[Any], Iterator[Any]]:
    def serve(what: Any) -> Iterator[HistoryLines]:
        yield gather(folder, what)

    return serve


def gather(folder: Path, what: str | None) -> HistoryLines:
    """All events (None), those of a GPU, or those of a node and of its present GPUs. That a node was dead
    is in the files of its neighbours."""
    if what is None:
        return store.read(folder)
    own = store.read(folder, [what])
    if what.startswith("GPU-") or not own.events:
        matching = store.read(folder, words=[what])
        gpu = subject.of_gpu(what, matching.events)
        return store.read(folder, words=[gpu.name]) if gpu else matching
    uuids = [str(gpu["gpu_uuid"]) for gpu in subject.gpus_of(own.events)]
    others = store.read(folder, words=[*uuids, NODE_DEATH])
    elsewhere = [e for e in others.events if (e.node == what) == (e.code == NODE_DEATH)]
    return HistoryLines([*own.events, *elsewhere], own.skipped, own.problems)
