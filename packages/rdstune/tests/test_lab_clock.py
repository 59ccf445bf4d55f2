"""The lab's clock: faster than the wall clock; actions run in order, each at its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rdstune.lab.clock import Clock
from rdstune.lab.windows import next_window

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday


class Wall:
    """A wall clock that moves only when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_minute_takes_a_second_at_sixty_times_the_speed() -> None:
    wall = Wall()
    clock = Clock(60, NOON, wall)
    wall.seconds = 2
    assert clock.now() == NOON + timedelta(minutes=2)


def test_what_is_due_is_done_in_order_and_at_its_own_moment() -> None:
    wall = Wall()
    clock = Clock(1, NOON, wall)
    done: list[tuple[str, datetime]] = []
    clock.after(20, lambda: done.append(("second", clock.now())))
    clock.after(10, lambda: done.append(("first", clock.now())))
    clock.after(90, lambda: done.append(("not yet", clock.now())))
    clock.advance(timedelta(seconds=30))
    clock.run_due()
    assert done == [
        ("first", NOON + timedelta(seconds=10)),
        ("second", NOON + timedelta(seconds=20)),
    ]
    assert clock.now() == NOON + timedelta(seconds=30)


def test_what_follows_from_a_task_counts_from_that_tasks_moment() -> None:
    clock = Clock(1, NOON, Wall())
    done: list[datetime] = []
    clock.after(10, lambda: clock.after(5, lambda: done.append(clock.now())))
    clock.advance(timedelta(hours=1))
    clock.run_due()
    assert done == [NOON + timedelta(seconds=15)]


def test_the_wait_is_in_seconds_of_the_wall() -> None:
    clock = Clock(60, NOON, Wall())
    assert clock.wait() is None
    clock.after(120, lambda: None)
    assert clock.wait() == 2


def test_a_window_opens_this_week_or_the_next() -> None:
    """2 March 2026 is a Monday."""
    assert next_window("wed:04:00-wed:04:30", NOON) == datetime(2026, 3, 4, 4, tzinfo=UTC)
    assert next_window("mon:11:00-mon:11:30", NOON) == datetime(2026, 3, 9, 11, tzinfo=UTC)
    assert next_window("mon:12:00-mon:12:30", NOON) == datetime(2026, 3, 9, 12, tzinfo=UTC)
