"""Staggered windows: which clash, which move where, and that none clash afterwards."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mrtuner.aws.rows import Instance
from rdstune.fleet.maintenance_windows import Window
from rdstune.fleet.stagger import CalendarEntry, Move, WindowClash, clashes, places, staggered


def place(
    name: str, window: str, *groups: str, backup: str | None = None, stays: bool = False
) -> CalendarEntry:
    return CalendarEntry(
        identifier=name,
        groups=frozenset(groups),
        window=Window.parse(window),
        backup=Window.parse(backup) if backup else None,
        stays=stays,
    )


def test_two_of_one_group_at_the_same_time_clash() -> None:
    calendar = [
        place("a", "sun:05:00-sun:05:30", "shop"),
        place("b", "sun:05:15-sun:05:45", "shop"),
        place("c", "sun:05:00-sun:05:30", "mail"),
    ]
    assert clashes(calendar) == (WindowClash(first="a", second="b", group="shop", apart=0),)


def test_work_may_run_over_so_windows_too_near_clash_as_well() -> None:
    calendar = [
        place("a", "sun:05:00-sun:05:30", "shop"),
        place("b", "sun:05:45-sun:06:15", "shop"),
    ]
    assert clashes(calendar, gap=30) == (
        WindowClash(first="a", second="b", group="shop", apart=15),
    )
    assert clashes(calendar, gap=15) == ()


def test_the_second_moves_to_the_nearest_later_place() -> None:
    """It must begin at 06:00 or later: 05:30 and half an hour between."""
    calendar = [
        place("a", "sun:05:00-sun:05:30", "shop"),
        place("b", "sun:05:00-sun:05:30", "shop"),
    ]
    (move,) = staggered(calendar)
    assert move == Move(
        identifier="b",
        now=Window.parse("sun:05:00-sun:05:30"),
        to=Window.parse("sun:06:00-sun:06:30"),
    )
    assert move.command == (
        "aws rds modify-db-instance --db-instance-identifier b"
        " --preferred-maintenance-window sun:06:00-sun:06:30"
    )


def test_the_third_goes_before_the_first_when_that_is_nearer() -> None:
    calendar = [place(name, "sun:05:00-sun:05:30", "shop") for name in ("a", "b", "c")]
    moves = {move.identifier: str(move.to) for move in staggered(calendar)}
    assert moves == {"b": "sun:06:00-sun:06:30", "c": "sun:04:00-sun:04:30"}


def test_nobody_is_moved_into_its_own_backup() -> None:
    calendar = [
        place("a", "sun:05:00-sun:05:30", "shop"),
        place("b", "sun:05:00-sun:05:30", "shop", backup="06:00-06:30"),
    ]
    (move,) = staggered(calendar)
    assert str(move.to) == "sun:04:00-sun:04:30"


def test_production_keeps_its_window_whatever_its_name() -> None:
    calendar = [
        place("a", "sun:05:00-sun:05:30", "shop"),
        place("z", "sun:05:00-sun:05:30", "shop", stays=True),
    ]
    assert [move.identifier for move in staggered(calendar)] == ["a"]


def test_a_week_without_room_is_said_not_hidden() -> None:
    calendar = [
        place("a", "mon:00:00-sun:23:00", "shop"),
        place("b", "sun:05:00-sun:05:30", "shop"),
    ]
    (move,) = staggered(calendar)
    assert (move.to, move.command) == (None, None)


def test_who_belongs_together() -> None:
    base = Instance(
        identifier="main", arn="", resource_id="", class_name="db.r6g.large", engine="postgres",
        engine_version="17.2", status="available", groups=(), replicas=("copy",),
        maintenance_window="sun:05:00-sun:05:30", tags={"app": "shop"},
    )  # fmt: skip
    rows = [
        base,
        replace(base, identifier="copy", replicas=("second",), replica_of="main", tags={}),
        replace(
            base, identifier="abroad", replicas=(), replica_of="arn:aws:rds:eu-west-1:1:db:main"
        ),
        replace(base, identifier="member", replicas=(), cluster="c", engine="aurora-postgresql"),
        replace(base, identifier="whole-1", replicas=(), cluster="whole"),
        replace(base, identifier="whole-2", replicas=(), cluster="whole"),
        replace(base, identifier="second", replicas=(), replica_of="copy", tags={}),
        replace(base, identifier="bare", replicas=(), maintenance_window=None),
    ]
    found = {one.identifier: one.groups for one in places(rows, tag="app")}
    assert found == {
        "main": {"replicas of main", "app = shop"},
        "copy": {"replicas of main", "replicas of copy"},
        "abroad": {"replicas of main", "app = shop"},
        "member": {"cluster c", "app = shop"},
        "whole": {"cluster whole", "app = shop"},
        "second": {"replicas of copy"},
    }
    whole = next(one for one in places(rows) if one.identifier == "whole")
    together = replace(whole, groups=frozenset("x"))
    moved = [replace(together, identifier="a"), together]
    assert [move.command for move in staggered(moved)] == [
        "aws rds modify-db-cluster --db-cluster-identifier whole"
        " --preferred-maintenance-window sun:06:00-sun:06:30"
    ]


starts = st.integers(0, 7 * 48 - 1).map(lambda half: half * 30)
fleets = st.lists(st.tuples(starts, st.sampled_from(["x", "y"])), min_size=1, max_size=12)


@given(fleets)
def test_after_the_moves_no_minute_belongs_to_two_of_a_group(fleet: list[tuple[int, str]]) -> None:
    """Checked minute by minute; the half hour after each window counts as part of it."""
    calendar = [
        CalendarEntry(
            identifier=f"i{number:02}", groups=frozenset({group}), window=Window(start, 30)
        )
        for number, (start, group) in enumerate(fleet)
    ]
    moved = {move.identifier: move.to for move in staggered(calendar, gap=30)}
    minutes = {}
    for one in calendar:
        window = moved.get(one.identifier, one.window)
        assert window is not None
        minutes[one.identifier] = {(window.start + n) % 10080 for n in range(60)}
    for one, other in combinations(calendar, 2):
        if one.groups & other.groups:
            assert not minutes[one.identifier] & minutes[other.identifier]
