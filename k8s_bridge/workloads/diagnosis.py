"""What ``holdfast diagnose`` says about the termination messages of a workload.

It runs as a process of its own: the messages are their user's text, and the patterns would take the bridge's
memory. Its JSON is documented (docs/reference/commands.md).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate

from holdfast.adapters import command
from holdfast.adapters.log import Log
from holdfast.errors import CommandError
from holdfast.own_program import own_program
from k8s_bridge.workloads.decision import Diagnosed

log = Log("bridge")

TIMEOUT_S = 20.0
MOST_KEPT = 256
MOST_IN_A_LOOK = 20
"""Processes for one look; what is left is diagnosed in the next ones."""
UNKNOWN = Diagnosed("UNKNOWN", "unknown")

Messages = tuple[str, ...]


class Diagnoses:
    """Remembers the last messages, so that the same ones are diagnosed once."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Diagnosed] = OrderedDict()
        self._left = MOST_IN_A_LOOK

    def begin(self) -> None:
        """A new look."""
        self._left = MOST_IN_A_LOOK

    def of(self, messages: Messages) -> Diagnosed:
        """What explains a failure with these messages; UNKNOWN where it cannot be found out now."""
        key = hash(messages)
        found = self._known.get(key)
        if found is None:
            if self._left <= 0:
                return UNKNOWN
            self._left -= 1
            try:
                found = _diagnosed(messages)
            except CommandError as error:
                log.warning("termination messages could not be diagnosed", why=error)
                return UNKNOWN
        self._known[key] = found
        self._known.move_to_end(key)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found


def _diagnosed(messages: Messages) -> Diagnosed:
    """Raises ``CommandError``."""
    argv = own_program("holdfast", "diagnose", "--json", "-")
    texts = [message.replace("\r", " ").rstrip("\n") + "\n" for message in messages]
    done = command.complete(argv, timeout_s=TIMEOUT_S, stdin="".join(texts))
    if done.status not in (0, 1):
        raise CommandError(argv, f"exit status {done.status}", done.err, done.status)
    try:
        cause = json.loads(done.out)["cause"]
        ends = list(accumulate(text.count("\n") for text in texts))
        index = bisect_right(ends, int(cause["line"] or 1) - 1)
        return Diagnosed(str(cause["code"]), str(cause["class"]), min(index, len(texts) - 1))
    except (ValueError, TypeError, KeyError):
        raise CommandError(argv, "no diagnosis in its output", done.out[:200]) from None
