"""When a line was printed, by the time stamps of kernels, Slurm and frameworks.

Many stamps lack the year, and no log tells its time zone, so the answer only serves to order the lines of
the logs of one job.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH = "|".join(_MONTHS)
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
_STAMPS = (
    # 2026-08-01T10:00:09.123, 2026-08-01 10:00:09,123; [2026-08-01 …
    re.compile(rf"(?P<year>20\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T]{_CLOCK}"),
    # 08/01/2026 10:00:09
    re.compile(rf"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>20\d\d) {_CLOCK}"),
    # dmesg -T: [Sat Aug  1 10:00:09 2026]; syslog: Aug  1 10:00:09 worker-1 kernel:
    re.compile(rf"\b(?P<name>{_MONTH}) +(?P<day>\d{{1,2}}) {_CLOCK}(?: (?P<year>20\d\d))?"),
    # glog: E0801 10:00:09.123456; torch: [E801 10:00:09.123456789
    re.compile(rf"\b[IWEF](?P<month>1[0-2]|0?[1-9])(?P<day>[0-3]\d) {_CLOCK}"),
)
_YEARLESS = 1972
"""A leap year before any log."""
_ZONE = timezone.utc
"""Stands for the zone of the log, which is not known."""


def time_in(text: str) -> datetime | None:
    """The time in a line; the year is 1972 if the line has none."""
    for stamp in _STAMPS:
        found = stamp.search(text)
        if found:
            named = found.groupdict()
            month = named.get("month") or _MONTHS.index(named["name"]) + 1
            return _time(named.get("year"), int(month), int(named["day"]), named["clock"])
    return None


def _time(year: str | None, month: int, day: int, clock: str) -> datetime | None:
    whole, _, fraction = clock.replace(",", ".").partition(".")
    hour, minute, second = (int(part) for part in whole.split(":"))
    micros = int((fraction + "000000")[:6])
    try:
        found = datetime(int(year or _YEARLESS), month, day, hour, minute, second, tzinfo=_ZONE)
        return found.replace(microsecond=micros)
    except ValueError:
        return None


def local_now() -> datetime:
    """The present time as the logs of this machine print it."""
    return datetime.now(_ZONE).astimezone().replace(tzinfo=_ZONE)


def last_time_before(before: bytes) -> datetime | None:
    """The time of the last line that has one."""
    for line in reversed(before.decode("utf-8", "replace").split("\n")[-40:]):
        found = time_in(line[:400])
        if found:
            return found
    return None


def comparable(times: list[datetime]) -> list[datetime]:
    """The same times, all without their year if one of them has none."""
    if any(time.year == _YEARLESS for time in times):
        return [time.replace(year=_YEARLESS) for time in times]
    return times
