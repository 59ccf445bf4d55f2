"""Windows: read, written, found on a calendar and on another clock, compared with one another."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mrtuner.errors import BadValue
from rdstune.fleet.maintenance_windows import Occurrence, Window, zone_named

WEDNESDAY = datetime(2026, 1, 7, 12, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0, *, month: int = 1) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize("text", ["sun:05:00-sun:05:30", "sun:23:45-mon:00:15", "23:30-00:30"])
def test_a_window_is_written_as_it_was_read(text: str) -> None:
    assert str(Window.parse(text)) == text


def test_minutes_are_counted_from_monday() -> None:
    """Sunday is the seventh day: 6 x 1440 + 300."""
    assert Window.parse("Sun:05:00-Sun:05:30") == Window(8940, 30)


@pytest.mark.parametrize("text", ["", "sunday 5am", "sun:25:00-sun:25:30", "05:00", "xyz:1:2-3:4"])
def test_what_is_no_window_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadValue, match="invalid window") as caught:
        Window.parse(text)
    assert "sun:05:00-sun:05:30" in str(caught.value.hint)


def test_a_window_of_less_than_half_an_hour_is_refused() -> None:
    with pytest.raises(BadValue, match="20 minutes long"):
        Window.parse("sun:05:00-sun:05:20")


def test_the_next_window_of_a_wednesday_is_on_sunday() -> None:
    found = Window.parse("sun:05:00-sun:05:30").at_or_after(WEDNESDAY)
    assert found == Occurrence(at(11, 5), at(11, 5, 30))


def test_a_window_across_the_end_of_the_week_is_open_on_monday() -> None:
    window = Window.parse("sun:23:45-mon:00:15")
    assert window.at_or_after(at(5, 0, 5)) == Occurrence(at(4, 23, 45), at(5, 0, 15))
    assert window.at_or_after(at(5, 0, 15)) == Occurrence(at(11, 23, 45), at(12, 0, 15))


def test_a_window_that_is_open_does_not_begin_again_before_a_week() -> None:
    window = Window.parse("wed:11:45-wed:12:15")
    assert window.at_or_after(WEDNESDAY).start == at(7, 11, 45)
    assert window.beginning_after(WEDNESDAY).start == at(14, 11, 45)


def test_a_daily_window_comes_on_the_same_or_the_next_day() -> None:
    window = Window.parse("03:00-03:30")
    assert window.at_or_after(at(7, 2)).start == at(7, 3)
    assert window.at_or_after(WEDNESDAY).start == at(8, 3)


def test_utc_stays_so_the_local_hour_moves_with_summer_time() -> None:
    """Vienna is one hour ahead in January and two in July."""
    window, vienna = Window.parse("sun:05:00-sun:05:30"), zone_named("Europe/Vienna")
    january = window.at_or_after(WEDNESDAY).local(vienna)
    july = window.at_or_after(at(1, 0, month=7)).local(vienna)
    assert (january.start.hour, july.start.hour) == (6, 7)
    assert f"{july.start:%a %d %b %Z}" == "Sun 05 Jul CEST"


def test_a_time_zone_nobody_knows_is_refused() -> None:
    with pytest.raises(BadValue, match="unknown time zone: 'Mars/Olympus'"):
        zone_named("Mars/Olympus")


@pytest.mark.parametrize(
    ("one", "other", "overlap", "apart"),
    [
        ("sun:05:00-sun:05:30", "sun:05:15-sun:05:45", True, 0),
        ("sun:05:00-sun:05:30", "sun:05:30-sun:06:00", False, 0),
        ("sun:05:00-sun:05:30", "sun:06:15-sun:06:45", False, 45),
        ("sun:23:30-mon:00:30", "mon:00:00-mon:00:30", True, 0),
        ("sun:23:00-sun:23:30", "mon:00:00-mon:00:30", False, 30),
        ("sun:05:00-sun:05:30", "04:45-05:15", True, 0),
        ("sun:05:00-sun:05:30", "04:15-04:45", False, 15),
        ("mon:05:00-sun:05:00", "03:00-03:30", True, 0),
    ],
)
def test_two_windows_overlap_or_lie_apart(one: str, other: str, overlap: bool, apart: int) -> None:
    first, second = Window.parse(one), Window.parse(other)
    assert (first.overlaps(second), second.overlaps(first)) == (overlap, overlap)
    assert (first.distance(second), second.distance(first)) == (apart, apart)
