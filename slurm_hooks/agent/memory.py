"""Keeps the memory of the agent's process constant over months.

Python keeps freed tuples for later, up to 2,000 of each length from 1 to 20 (4 MB in all). A tuple that is made
from an iterator is taken from the list for another length than the one to which it returns, so these lists grow
with each pass. Python empties them when it collects the oldest generation, which an agent that leaves no garbage
never causes.
"""

from __future__ import annotations

import gc

PASSES = 20
"""Between two collections. One takes milliseconds: what was there at the start is frozen (``main``)."""


class Memory:
    """Of the process that calls it."""

    def __init__(self) -> None:
        self._passes = 0

    def passed(self) -> None:
        """A pass over the probes ended."""
        self._passes += 1
        if self._passes % PASSES == 0:
            gc.collect()
