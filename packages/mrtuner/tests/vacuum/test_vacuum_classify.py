"""What a table is to vacuum."""

from __future__ import annotations

import pytest
from vacuum_tables import rates, table

from mrtuner.vacuum.classify import classify, lifetime
from mrtuner.vacuum.model import Rates, Table, TableKind

#: Live rows, and inserts, updates, deletes per second; the lifetime is live rows over deletes.
CASES = [
    (table(), rates(events=0), TableKind.STATIC),
    # 0.1 a second are 8,640 a day, 0.9 % of a million
    (table(), rates(updates=0.1), TableKind.STATIC),
    (table(), rates(updates=0.2), TableKind.LONG_LIVED),
    # 1.1 a second are 95,040 a day, 1.2 are 103,680: of a billion, a hundredth of a percent
    (table(live=10**9), rates(updates=1.1), TableKind.STATIC),
    (table(live=10**9), rates(updates=1.2), TableKind.LONG_LIVED),
    (table(live=10**9), rates(inserts=100), TableKind.APPEND_ONLY),
    (table(), rates(inserts=100), TableKind.APPEND_ONLY),
    (table(), rates(inserts=100, updates=0.5, deletes=0.5), TableKind.APPEND_ONLY),
    (table(), rates(inserts=100, updates=30, deletes=0.5), TableKind.MIXED),
    # 1,000 rows, 10 a second go: each lives 100 s
    (table(live=1_000), rates(inserts=10, updates=10, deletes=10), TableKind.QUEUE),
    (table(live=0), rates(inserts=10, deletes=10), TableKind.QUEUE),
    # a million rows, 10 a second go: each lives 100,000 s, a little over a day
    (table(), rates(inserts=10, deletes=10), TableKind.SHORT_LIVED),
    # 11.6 days: no longer short, and updated twice as often as written otherwise
    (table(), rates(inserts=1, updates=4, deletes=1), TableKind.LONG_LIVED),
    (table(), rates(inserts=1, updates=1, deletes=1), TableKind.MIXED),
    # 100 a second for 1,000 s; since the reset a million more came than went, but are missing
    (table(), rates(inserts=100, vanished=100), TableKind.APPEND_ONLY),  # a tenth of what there was
    (table(), rates(inserts=100, vanished=300), TableKind.RELOADED),
    (table(inserted=2_000_000), rates(inserts=100), TableKind.RELOADED),
    (table(inserted=1_400_000), rates(inserts=100), TableKind.APPEND_ONLY),
    (table(inserted=2_000_000, deleted=1_000_000), rates(inserts=100), TableKind.APPEND_ONLY),
    (table(live=100), rates(inserts=1, events=19), TableKind.UNKNOWN),
    (table(), rates(seconds=0.0, events=0), TableKind.UNKNOWN),
]


@pytest.mark.parametrize(("one", "seen", "kind"), CASES)
def test_the_kind_follows_from_the_rates(one: Table, seen: Rates, kind: TableKind) -> None:
    assert classify(one, seen)[0] is kind


def test_a_row_lives_as_long_as_there_are_rows_for_each_one_deleted() -> None:
    assert lifetime(table(live=3_600), rates(deletes=2)) == 1_800
    assert lifetime(table(), rates()) is None


def test_the_reason_has_the_figures() -> None:
    _, because = classify(table(), rates(updates=500, hot_share=0.25))
    assert because == "500 updates/s, 25% of them HOT; a row is updated every 33.3 min"
