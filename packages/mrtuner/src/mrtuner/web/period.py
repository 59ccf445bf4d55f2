"""The period that an address names: `from` and `to`, or the last `since`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.history.analysis.coverage import recorded
from mrtuner.history.analysis.period import HistoryPeriod, period
from mrtuner.history.reading import History
from mrtuner.units import parse_duration

#: Longer than summaries are kept [s].
_LONGEST: Final = 10 * 366 * 86_400.0
_SHORTEST: Final = 10.0
#: Years of a time that an address may name; a period may begin ten years before them, and more.
_YEARS: Final = range(1800, 2200)
_DEFAULT: Final = "1h"
_WEEK, _DAY, _MINUTE = timedelta(days=7), timedelta(days=1), timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)


def period_of(history: History, given: Mapping[str, str]) -> HistoryPeriod:
    """Return the period that the parameters of an address name.

    A period back from now starts no earlier than the first sample.

    Raises:
        BadValue: a time cannot be read, or the period is reversed, too short or too long.
        UsageError: there is no such instance.
    """
    begin, end = (_moment(given, name) for name in ("from", "to"))
    if begin is not None and end is None:
        raise BadValue("`from` without `to`", "Give both, or since=1h.")
    since = parse_duration(given.get("since", _DEFAULT))
    if begin is not None and end is not None:
        since = (end - begin).total_seconds()
    if not _SHORTEST <= since <= _LONGEST:
        raise BadValue(
            f"a period of {since:.0f} seconds cannot be shown",
            "Give an end after the beginning: at least ten seconds, at most ten years.",
        )
    about = period(history, given.get("instance"), since=since, until=end)
    return about if begin is not None else _as_recorded(history, about)


def _as_recorded(history: History, about: HistoryPeriod) -> HistoryPeriod:
    """Return the period without the time before the first sample, but at least its last minute.

    Averages are then those of what was recorded, and a demo of three minutes fills the charts.
    """
    hour = history.spans()[about.instance][0]
    if about.begin >= (hour + _HOUR).replace(tzinfo=UTC):
        return about
    first = (history.first_sample(about.instance) or hour).replace(tzinfo=UTC)
    return replace(about, begin=max(about.begin, min(first, about.end - _MINUTE)))


def earlier(about: HistoryPeriod, given: Mapping[str, str]) -> HistoryPeriod | None:
    """Return the period that is earlier by the duration in `compare`; None without `compare`.

    Raises:
        BadValue: it is no duration, or out of range.
    """
    if not (offset := given.get("compare")):
        return None
    seconds = parse_duration(offset)
    if not 0 < seconds <= _LONGEST:
        raise BadValue(f"compare={offset} is out of range", "Give a duration, such as 1d or 7d.")
    return _moved(about, timedelta(seconds=seconds))


def usual_comparison(history: History, about: HistoryPeriod) -> HistoryPeriod | None:
    """Return the period to compare with by default; None if nothing older was recorded.

    That is a week before, since most loads repeat weekly; if nothing was recorded then, a day
    before, or else the time just before.
    """
    candidates = (_moved(about, back) for back in (_WEEK, _DAY, about.end - about.begin))
    return next((one for one in candidates if recorded(history, one) is not None), None)


def _moved(about: HistoryPeriod, back: timedelta) -> HistoryPeriod:
    return replace(about, begin=about.begin - back, end=about.end - back)


def _moment(given: Mapping[str, str], name: str) -> datetime | None:
    if not (text := given.get(name)):
        return None
    try:
        found = _time(text)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found.year not in _YEARS:
        raise BadValue(
            f"{name}={text!r} is not a time", "Write 2026-11-23T10:00, or seconds since 1970."
        )
    return found


def _time(text: str) -> datetime:
    if text.replace(".", "", 1).isdigit():
        return datetime.fromtimestamp(float(text), UTC)
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
