"""Maintenance and backup windows: when they open, in which time zone, and what they overlap.

RDS writes them in UTC, weekly as ``sun:05:00-sun:05:30`` and daily as ``05:00-05:30``. They last
at least 30 minutes, and an instance's two windows must not overlap. Work may overrun the window.
Source: RDS API 2014-10-31, PreferredMaintenanceWindow and PreferredBackupWindow;
RDS User Guide, "Maintaining a DB instance".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from mrtuner.errors import BadValue

DAY: Final = 1440  # minutes
WEEK: Final = 7 * DAY
SHORTEST: Final = 30
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME: Final = r"([01]\d|2[0-3]):([0-5]\d)"
_WEEKLY: Final = re.compile(rf"({'|'.join(DAYS)}):{_TIME}-({'|'.join(DAYS)}):{_TIME}")
_DAILY: Final = re.compile(rf"{_TIME}-{_TIME}")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time span in which a window is open; both ends are timezone-aware."""

    start: datetime
    end: datetime

    def local(self, zone: tzinfo | None) -> Occurrence:
        """Return the same span in a time zone; None is this machine's."""
        return Occurrence(self.start.astimezone(zone), self.end.astimezone(zone))


@dataclass(frozen=True, slots=True)
class Window:
    """A time span that recurs every `period` minutes; weeks begin on Monday, 00:00 UTC."""

    start: int  # minute of the period
    length: int  # minutes
    period: int = WEEK

    @classmethod
    def parse(cls, text: str) -> Window:
        """Parse RDS's notation; BadValue for anything else and for less than 30 minutes.

        >>> Window.parse("sun:23:45-mon:00:15")
        Window(start=10065, length=30, period=10080)
        >>> str(Window.parse("23:30-00:30"))
        '23:30-00:30'
        """
        written = text.strip().lower()
        if match := _WEEKLY.fullmatch(written):
            first, second = match.groups()[:3], match.groups()[3:]
            return cls._between(_minute(*first), _minute(*second), WEEK, text)
        if match := _DAILY.fullmatch(written):
            hours, minutes, end_hours, end_minutes = map(int, match.groups())
            return cls._between(hours * 60 + minutes, end_hours * 60 + end_minutes, DAY, text)
        raise BadValue(
            f"invalid window: {text!r}",
            "Use sun:05:00-sun:05:30 for a weekly window, 05:00-05:30 for a daily one; in UTC.",
        )

    @classmethod
    def _between(cls, start: int, end: int, period: int, text: str) -> Window:
        length = (end - start) % period
        if length < SHORTEST:
            raise BadValue(
                f"the window {text!r} is {length} minutes long", "RDS requires at least 30 minutes."
            )
        return cls(start, length, period)

    def __str__(self) -> str:
        ends = (_written(self.start, self.period), _written(self.start + self.length, self.period))
        return "-".join(ends)

    def moved(self, minutes: int) -> Window:
        return Window((self.start + minutes) % self.period, self.length, self.period)

    def at_or_after(self, moment: datetime) -> Occurrence:
        """Return the occurrence that is open at a moment, or the next one; in UTC."""
        utc = moment.astimezone(UTC)
        monday = datetime(utc.year, utc.month, utc.day, tzinfo=UTC) - timedelta(days=utc.weekday())
        start = monday + timedelta(minutes=self.start - self.period)
        while start + timedelta(minutes=self.length) <= utc:
            start += timedelta(minutes=self.period)
        return Occurrence(start, start + timedelta(minutes=self.length))

    def beginning_after(self, moment: datetime) -> Occurrence:
        """Return the first occurrence that begins at a moment or later; in UTC."""
        found = self.at_or_after(moment)
        if found.start >= moment:
            return found
        later = timedelta(minutes=self.period)
        return Occurrence(found.start + later, found.end + later)

    def distance(self, other: Window) -> int:
        """Return the minutes between the two where they are closest; 0 when they touch or overlap.

        A daily window is compared on every day of the week.

        >>> Window.parse("sun:05:00-sun:05:30").distance(Window.parse("05:45-06:15"))
        15
        """
        return 0 if self.overlaps(other) else min(self._gaps(other))

    def overlaps(self, other: Window) -> bool:
        return min(self._gaps(other)) < 0

    def _gaps(self, other: Window) -> tuple[int, int]:
        """Return the minutes from the end of each to the next start of the other."""
        period = min(self.period, other.period)
        ahead, behind = (other.start - self.start) % period, (self.start - other.start) % period
        return ahead - self.length, behind - other.length


def _minute(day: str, hours: str, minutes: str) -> int:
    return DAYS.index(day) * DAY + int(hours) * 60 + int(minutes)


def _written(minute: int, period: int) -> str:
    day, rest = divmod(minute % period, DAY)
    time = f"{rest // 60:02}:{rest % 60:02}"
    return f"{DAYS[day]}:{time}" if period == WEEK else time


def zone_named(name: str | None) -> tzinfo | None:
    """Return a time zone by IANA name, this machine's for None. BadValue if unknown."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadValue(
            f"unknown time zone: {name!r}", "Use a name such as Europe/Vienna or UTC."
        ) from error
