"""Maintenance and backup windows, in UTC: ``sun:05:00-sun:05:30`` and ``03:00-03:30``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from rdstune.lab.faults import invalid_value

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY: Final = re.compile(r"([a-z]{3}):(\d\d):(\d\d)-([a-z]{3}):(\d\d):(\d\d)")
_DAILY: Final = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")
_DAY: Final = 24 * 60  # minutes
_WEEK: Final = 7 * _DAY
_SHORTEST: Final = 30


def next_window(window: str, now: datetime) -> datetime:
    """Return when a weekly window opens next, strictly after `now`."""
    start, _ = _weekly(window)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    opens = midnight - timedelta(days=now.weekday()) + timedelta(minutes=start)
    return opens if opens > now else opens + timedelta(days=7)


def check_windows(backup: str, maintenance: str) -> None:
    """Require at least 30 minutes each, and no overlap.

    Source: botocore, CreateDBInstanceMessage.
    """
    first, length = _weekly(maintenance)
    start, span = _daily(backup)
    if min(length, span) < _SHORTEST:
        raise invalid_value("A window must be at least 30 minutes long")
    for day in range(-1, 8):
        opens = day * _DAY + start
        if opens < first + length and first < opens + span:
            raise invalid_value("The backup window and maintenance window must not overlap.")


def _weekly(text: str) -> tuple[int, int]:
    """Return the minutes from Monday midnight, and the length."""
    match = _WEEKLY.fullmatch(text.lower())
    if match is None or {match[1], match[4]} - set(_DAYS):
        raise invalid_value(f"Invalid maintenance window format: {text}")
    start = _DAYS.index(match[1]) * _DAY + int(match[2]) * 60 + int(match[3])
    end = _DAYS.index(match[4]) * _DAY + int(match[5]) * 60 + int(match[6])
    return start, (end - start) % _WEEK


def _daily(text: str) -> tuple[int, int]:
    """Return the minutes from midnight, and the length."""
    match = _DAILY.fullmatch(text)
    if match is None:
        raise invalid_value(f"Invalid backup window format: {text}")
    start = int(match[1]) * 60 + int(match[2])
    return start, (int(match[3]) * 60 + int(match[4]) - start) % _DAY
