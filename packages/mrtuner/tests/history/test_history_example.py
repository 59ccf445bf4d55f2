"""The example's history tells the story of the field notes, on every screen.

Figures are those of the notes of 2021: 213 and 443 MB/s at the ceiling, 325 MB/s on the larger
class, reads of 5 and then 1 ms, writes of 100 and then 15 ms, a queue of 50 to 100.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from mrtuner.cli.history.example import minutes_of
from mrtuner.history.example.record import Happened, record_example
from mrtuner.history.reading import History, open_history
from mrtuner.limits import CeilingKind, MetricSeries, Resource, limits
from mrtuner.limits.examples.upgrade import START, simulated_upgrade
from mrtuner.web.answers import fleet_answer, screen_answer
from mrtuner.web.screens import SCREENS

pytest.importorskip("numpy")

#: Hours at the ceiling, the same hours with more IOPS, and on the larger class.
MONDAY = ("2026-03-02 12:00", "2026-03-02 16:00")
TUESDAY = ("2026-03-03 12:30", "2026-03-03 16:30")
WEDNESDAY = ("2026-03-04 12:00", "2026-03-04 16:00")
#: Limits of a db.r5.2xlarge: all day, and for half an hour a day.
IOPS, IOPS_BURST = 12_000, 18_750


@pytest.fixture(scope="module")
def history(example: Path) -> Iterator[History]:
    with open_history(example) as found:
        yield found


def metrics(history: History, period: tuple[str, str], what: str) -> Any:
    """An aggregate of CloudWatch's metrics over a period."""
    return history.row(
        f"SELECT {what} AS found FROM cloudwatch WHERE time >= $begin AND time < $end",
        dict(zip(("begin", "end"), map(datetime.fromisoformat, period), strict=True)),
    )["found"]


BOTH = "read_throughput + write_throughput"


def test_reads_plus_writes_are_at_the_ceiling_and_nothing_else_above_70_per_cent(
    history: History,
) -> None:
    for day in (MONDAY, TUESDAY):
        lowest, highest = (metrics(history, day, f"{of}({BOTH}) / 1e6") for of in ("min", "max"))
        assert 210 < lowest < highest < 216
        assert metrics(history, day, "avg(read_iops + write_iops)") / IOPS > 0.5
        assert metrics(history, day, "max(read_iops + write_iops)") / IOPS < 0.7
        assert metrics(history, day, "max(cpu)") < 70
    used = history.row(
        "SELECT max(clients / maximum) AS share FROM connections WHERE time < '2026-03-04 03:30'"
    )
    assert used["share"] < 0.7


def test_operations_never_reach_their_limit_and_cpu_and_memory_have_room_all_the_time(
    history: History,
) -> None:
    """Operations are highest in the morning, while the burst lasts and nothing is slow."""
    before = ("2026-03-02 00:00", "2026-03-04 03:30")
    assert metrics(history, before, "max(read_iops + write_iops)") < IOPS_BURST
    assert metrics(history, before, "max(cpu)") < 70
    # Of 64 GiB.
    assert metrics(history, before, "min(free_memory)") > 0.25 * 64 * 2**30


def test_limits_finds_the_old_ceilings_in_what_was_recorded(history: History) -> None:
    """From the metrics alone, as `mrtuner limits` reads them from CloudWatch."""
    from mrtuner.history.recording.managed import METRICS
    from mrtuner.stats.plateaus import numpy

    rows = history.rows("SELECT * FROM cloudwatch WHERE time < '2026-03-04 03:30' ORDER BY time")
    found = {
        metric: numpy().array([row[column] for row in rows], dtype=float)
        for column, metric in METRICS.items()
        if any(row[column] is not None for row in rows)
    }
    start = rows[0]["time"].replace(tzinfo=UTC)
    told = limits(
        MetricSeries(start=start, step=60, metrics=found), class_name="db.r5.2xlarge",
        storage="io1:1000GB,20000iops",
    )  # fmt: skip
    assert {one.resource for one in told.pegged} == {Resource.THROUGHPUT}
    levels = sorted(one.plateau.level for one in told.pegged)
    assert levels == [pytest.approx(213e6, rel=0.01), pytest.approx(443e6, rel=0.01)]
    assert all(
        one.ceiling is not None and one.ceiling.kind is CeilingKind.FORMER for one in told.pegged
    )


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("avg(read_latency) * 1000", (4, 6.5), (0.7, 1.3)),
        ("avg(write_latency) * 1000", (80, 120), (12, 19)),
        (f"avg({BOTH}) / 1e6", (211, 215), (318, 332)),
        ("avg(queue_depth)", (50, 100), (5, 30)),
    ],
)
def test_the_larger_class_gives_what_the_notes_saw(
    history: History, what: str, before: tuple[float, float], after: tuple[float, float]
) -> None:
    assert before[0] < metrics(history, MONDAY, what) < before[1]
    assert after[0] < metrics(history, WEDNESDAY, what) < after[1]


def test_more_iops_changed_nothing(history: History) -> None:
    for what in (BOTH, "read_latency", "read_iops + write_iops"):
        monday, tuesday = (metrics(history, day, f"avg({what})") for day in (MONDAY, TUESDAY))
        assert tuesday == pytest.approx(monday, rel=0.02)


def ask(history: History, screen: str, period: tuple[str, str], **more: str) -> Any:
    return screen_answer(history, screen, dict(zip(("from", "to"), period, strict=True)) | more)


def test_the_top_statements_took_10_to_100_times_as_long(history: History) -> None:
    """Each statement of the day, on Top SQL at the ceiling and two days later."""
    times: list[dict[str, float]] = []
    for period in (MONDAY, WEDNESDAY):
        (table,) = ask(history, "statements", period).tables
        names = [column.name for column in table.columns]
        times.append({row[names.index("text")]: row[names.index("mean")] for row in table.rows})
    slower = {text: times[0][text] / times[1][text] for text in times[0]}
    assert len(slower) >= 10
    assert all(9 < ratio < 100 for ratio in slower.values()), slower


def test_sessions_pile_up_in_waits_for_io(history: History) -> None:
    for period, low, high in ((MONDAY, 40, 100), (WEDNESDAY, 2, 8)):
        (chart,) = ask(history, "load", period).charts
        totals = [sum(values) for values in zip(*(one.values for one in chart.series), strict=True)]
        assert low < sum(totals) / len(totals) < high
    waits = {one.name: one.values for one in ask(history, "load", MONDAY).charts[0].series}
    assert max(waits, key=lambda name: sum(waits[name])) == "IO"


def test_every_screen_has_something_to_show(history: History) -> None:
    """Over all three days; RDS gives neither the host's own figures nor its log to SQL."""
    whole = ("2026-03-02 00:00", "2026-03-05 00:00")
    for name in SCREENS:
        told = ask(history, name, whole, **({"compare": "1d"} if name == "compare" else {}))
        drawn = [chart for chart in told.charts if chart.missing is None]
        filled = [table for table in told.tables if table.rows]
        assert drawn or filled, name
        lacking = [chart.missing for chart in told.charts if chart.missing]
        assert [why for why in lacking if "host" not in why and "log" not in why] == [], name


def test_on_the_page_one_finds_the_ceiling(history: History) -> None:
    """Headroom in the slow hours of Monday: throughput at the old limit of the class it had then,
    and everything else under 70 % of its own."""
    told = ask(history, "headroom", ("2026-03-02 11:00", "2026-03-02 17:00"))
    (throughput,) = [chart for chart in told.charts if chart.name == "throughput"]
    levels = [sum(of) for of in zip(*(one.values for one in throughput.series), strict=True)]
    (ceiling,) = [one.value for one in throughput.limits if 205e6 < one.value < 220e6]
    assert all(level == pytest.approx(ceiling, rel=0.02) for level in levels)
    (headroom,) = [table for table in told.tables if table.name == "headroom"]
    highest = {row[0]: row[1] for row in headroom.rows}
    assert {"requests to the disk", "connections", "CPU"} <= highest.keys()
    assert highest["throughput of the disk"] == pytest.approx(1, rel=0.02)
    (limit,) = [row[-1] for row in headroom.rows if row[0] == "throughput of the disk"]
    assert limit == "instance throughput, before December 2019 212.5 MB/s"
    others = {name: share for name, share in highest.items() if "throughput" not in name}
    assert max(others.values()) < 0.7, others
    (remedies,) = [table for table in told.tables if table.name == "remedies"]
    advice = " ".join(row[0] for row in remedies.rows)
    assert "started before December 2019" in advice
    assert "Raising provisioned IOPS will not help" in advice
    assert "In the same family: db.r5.4xlarge" in advice


def test_each_moment_is_divided_by_the_ceiling_of_that_moment(history: History) -> None:
    """Over all three days: 213 of 212.5 MB/s by day, 443 of 437.5 at night, and 325 of 593.75 on
    the larger class, which RDS reported at four o'clock."""
    told = ask(history, "headroom", ("2026-03-02 00:00", "2026-03-05 00:00"))
    (chart,) = [one for one in told.charts if one.name == "shares"]
    (values,) = [one.values for one in chart.series if one.name == "throughput of the disk"]
    shares = {
        datetime.fromtimestamp(at, UTC): value
        for at, value in zip(told.times, values, strict=True)
        if value is not None
    }

    def within(begin: str, end: str) -> list[float]:
        first, last = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (begin, end))
        return [share for at, share in shares.items() if first <= at < last]

    for day in (MONDAY, TUESDAY):
        assert within(*day) == [pytest.approx(213 / 212.5, rel=0.02)] * len(within(*day))
    larger = within(*WEDNESDAY)
    assert sum(larger) / len(larger) == pytest.approx(325 / 593.75, rel=0.03)
    nights = within("2026-03-02 00:00", "2026-03-02 06:00")
    assert max(nights) == pytest.approx(443 / 437.5, rel=0.02)
    assert max(shares.values()) < 1.03


def test_what_was_tried_stands_among_the_changes(history: History) -> None:
    (table,) = ask(history, "changes", ("2026-03-02 00:00", "2026-03-05 00:00")).tables
    told = "\n".join(f"{row[1]}: {row[2]}" for row in table.rows)
    for text in (
        "provisioned IOPS: 20,000 to 30,000", "class: db.r5.2xlarge to db.r5.4xlarge",
        "restart: started at", "work_mem: 4MB → 16MB", "max_wal_size: 8GB → 16GB",
        "Backing up DB instance", "gap: nothing recorded until",
    ):  # fmt: skip
        assert text in told


def test_a_forgotten_transaction_is_found_by_name(history: History) -> None:
    _, oldest = ask(history, "connections", ("2026-03-03 11:00", "2026-03-03 13:00")).tables
    names = [column.name for column in oldest.columns]
    row = dict(zip(names, oldest.rows[0], strict=True))
    assert (row["application"], row["state"]) == ("psql", "idle in transaction")
    assert 90 * 60 < row["transaction_seconds"] <= 95 * 60


def test_the_fleet_names_the_instance(history: History) -> None:
    (member,) = fleet_answer(history).instances
    assert member.instance == "shop-prod"
    assert member.tightest is not None
    assert member.cpus == 16  # of a db.r5.4xlarge


def test_the_fleet_says_what_the_screen_says_of_the_last_hour(tmp_path: Path) -> None:
    """A recording that ends on Monday at four in the afternoon, at the ceiling."""
    machine = {"class_name": "db.r5.2xlarge", "iops": "20000"}
    slow = minutes_of(simulated_upgrade())[:960]
    record_example(tmp_path, START, slow, [Happened(at=START, machine=machine)])
    with open_history(tmp_path) as history:
        (member,) = fleet_answer(history).instances
        told = ask(history, "headroom", ("2026-03-02 15:00", "2026-03-02 16:00"))
    assert (member.tightest, member.cpus) == ("throughput of the disk", 8)
    assert member.used == pytest.approx(213 / 212.5, rel=0.02)
    (headroom,) = [table for table in told.tables if table.name == "headroom"]
    assert (headroom.rows[0][0], headroom.rows[0][2]) == (
        member.tightest, pytest.approx(member.used, rel=0.001)
    )  # fmt: skip


def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    """Two hours of it, twice."""
    for name in ("one", "other"):
        record_example(tmp_path / name, START, minutes_of(simulated_upgrade())[:120])
    assert rows_of(tmp_path / "one") == rows_of(tmp_path / "other")


def test_a_history_that_is_there_stays_as_it_is(example: Path) -> None:
    before = rows_of(example)
    done = run("history", "example", "--dir", example)
    assert done.exit_code == 4
    assert "already holds a history" in done.stderr
    assert rows_of(example) == before


def rows_of(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that is in some views."""
    views = ("cloudwatch", "statements", "sessions", "tables", "events", "io")
    with open_history(directory) as history:
        return {name: history.table(f"SELECT * FROM {name} ORDER BY ALL")[1] for name in views}
