"""What a pass of the loop was, for traces."""

from __future__ import annotations

import time
from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of the loop. Times are nanoseconds since 1970: of its begin, of the end of the look at both
    sides, and of its end. ``error``: what ended it early.
    """

    begun_ns: int
    looked_ns: int
    ended_ns: int
    planned: int = 0
    written: int = 0
    error: str = ""


def now_ns() -> int:
    """The time for a ``Pass``."""
    return time.time_ns()
