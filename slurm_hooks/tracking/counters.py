"""Counters that only grow, until they saturate, wrap or are reset. Pure: no I/O here.

The counters of a healthy H100 node are not all zero, so only growth since a baseline is judged,
never a value (rule 9). ``None`` always means unknown (nothing to compare with, or a saturated
counter), never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_POINTS = 12
"""A window has at most so many points, so a rate covers at most 1/12 more time than requested."""

Point = tuple[float, int]
"""(epoch seconds, value with wraps added)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter of one device in this boot, made by ``advance`` alone.

    ``value``     as last read; None: never read.
    ``baseline``  the value from which growth counts; comparable to ``value + wrapped``.
    ``at_s``      epoch seconds of the last reading that changed anything here.
    ``window``    some earlier readings, oldest first.
    ``wrapped``   what the wraps since the baseline add to ``value``.
    ``known``     False if the last reading cannot be compared: first reading, reset, saturated, unreadable.
    """

    value: int | None = None
    baseline: int | None = None
    at_s: float = 0.0
    window: tuple[Point, ...] = ()
    wrapped: int = 0
    known: bool = False

    @property
    def new(self) -> int | None:
        """Growth since the baseline."""
        if not self.known or self.value is None or self.baseline is None:
            return None
        return self.value + self.wrapped - self.baseline

    def new_in(self, window_s: float) -> int | None:
        """Growth in the last ``window_s`` before ``at_s``; None until it was followed for that
        long.

        As for ``rate_per_s``, the window may be longer by the distance of two points.
        """
        then = self._then(window_s)
        return None if then is None else self._total() - then[1]

    def rate_per_s(self, window_s: float) -> float | None:
        """Mean rate over the last ``window_s`` before ``at_s``; None until it was followed for that
        long."""
        then = self._then(window_s)
        return None if then is None else (self._total() - then[1]) / (self.at_s - then[0])

    def _total(self) -> int:
        return (self.value or 0) + self.wrapped

    def _then(self, window_s: float) -> Point | None:
        if not self.known or window_s <= 0:
            return None
        old = [point for point in self.window if self.at_s - point[0] >= window_s]
        return old[-1] if old else None


def advance(
    before: Counter | None,
    value: int | None,
    now: float,
    *,
    saturates_at: int | None = None,
    wraps_at: int | None = None,
    keep_s: float = 0.0,
) -> Counter:
    """The counter after this reading. ``now`` in epoch seconds; ``value`` None: could not be read.

    ``saturates_at``: the largest value, at which it stays (InfiniBand's 8-, 16- and 32-bit
    counters). ``wraps_at``: the first value that does not fit, after which it begins at 0. A
    smaller value is a wrap only if the counter advanced by less than half its range; otherwise, and
    without ``wraps_at``, it is a reset and a new baseline. ``keep_s``: the longest window that will
    be requested; 0 keeps none.

    Returns ``before`` itself if nothing changed, so that an idle node's tracked state does not
    change either.
    """
    if value is None or value < 0:
        return replace(before, known=False) if before else Counter()
    if saturates_at is not None and value >= saturates_at:
        full = before or Counter(baseline=value)
        # It stays at this value for ever; a new time at each pass would write the state file each
        # time.
        since = full.at_s if full.value == value else now
        return replace(full, value=value, at_s=since, window=(), known=False)
    if before is None or before.value is None or before.baseline is None:
        return _begun(value, now, keep_s)
    wrapped = before.wrapped
    if value < before.value:
        if saturates_at is not None and before.value >= saturates_at:
            return _begun(value, now, keep_s)  # it was full, so it does not wrap
        # Growth, if it did wrap.
        turn = (wraps_at or 0) - before.value + value
        if wraps_at is None or not 0 <= turn < wraps_at // 2:
            return _begun(value, now, keep_s)
        wrapped += wraps_at
    return _grown(before, value, now, wrapped=wrapped, keep_s=keep_s)


def rebased(counter: Counter) -> Counter:
    """The counter with a new baseline: growth so far no longer counts, for example after a person
    resumed the node.
    """
    if counter.value is None:
        return counter
    total = counter.value + counter.wrapped
    return replace(counter, baseline=total, window=())


def _begun(value: int, now: float, keep_s: float) -> Counter:
    window = ((now, value),) if keep_s > 0 else ()
    return Counter(value=value, baseline=value, at_s=now, window=window)


def _grown(before: Counter, value: int, now: float, *, wrapped: int, keep_s: float) -> Counter:
    window = _windowed(before.window, (now, value + wrapped), keep_s)
    same = value == before.value and wrapped == before.wrapped and before.known
    if same and window == before.window:
        return before
    return replace(before, value=value, at_s=now, window=window, wrapped=wrapped, known=True)


def _windowed(window: tuple[Point, ...], point: Point, keep_s: float) -> tuple[Point, ...]:
    """The window with this point, if the last one is old enough, and without points older than
    ``keep_s``.

    Of the older points the newest stays, as the begin of the window. If the clock was set back, the
    window begins again.
    """
    if keep_s <= 0:
        return ()
    now = point[0]
    if not window or now < window[-1][0]:
        return (point,)
    if now - window[-1][0] < keep_s / (MAX_POINTS - 2):
        return window
    beyond = sum(now - at >= keep_s for at, _ in window)
    return (*window[max(0, beyond - 1) :], point)[-MAX_POINTS:]
