"""What a reader keeps of a store matches what was recorded, even after new or late samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import of_source

from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History, open_history
from mrtuner.history.recorded.host_metrics import (
    CONNECTIONS,
    STEP,
    WAITING,
    ceiling_changes,
    host_ceilings,
    host_metrics,
    ordinary_connections,
)
from mrtuner.history.recorded.machine import facts
from mrtuner.history.recorded.settings import settings
from mrtuner.history.recording.sampler import Row
from mrtuner.history.recording.source import Source, built_in, of_program
from mrtuner.history.store import compaction
from mrtuner.history.store.writer import Writer
from mrtuner.history.workspace import Workspace
from mrtuner.limits.recorded_ceilings import CEILINGS

NIGHT = datetime.fromtimestamp(MIDNIGHT // SECOND, UTC)
HOUR = 3600
LIMITS = of_program("ceilings", CEILINGS)
SOURCES = [*built_in().values(), LIMITS]


@pytest.fixture
def work() -> Iterator[Workspace]:
    with closing(Workspace()) as kept:
        yield kept


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with Writer(tmp_path, SOURCES) as found:
        yield found


def period(begin: float, end: float, instance: str = "db:5432") -> HistoryPeriod:
    """From one second after midnight to another."""
    first, last = (NIGHT + timedelta(seconds=at) for at in (begin, end))
    return HistoryPeriod(instance=instance, begin=first, end=last)


# By step.


class Recorded:
    """A store of a host, and what was put into it, by second."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.seconds: list[int] = []

    def add(self, *seconds: int, instance: str = "db:5432") -> None:
        """Commit a sample of all sources at each of these seconds, in the order given."""
        known = built_in()
        for at in seconds:
            rows: dict[str, list[Row]] = {
                "host": [of_source("host", cpus=4, device="vda", memory_available=at)],
                "connections": [
                    of_source("connections", clients=at // STEP, maximum=100 + at, ordinary=97 + at)
                ],
                "sessions": [
                    of_source("sessions", pid=pid, state="active", wait_type="IO", wait_event="X")
                    for pid in range(waiting(at))
                ],
            }
            came = 15.0 * len(self.seconds)  # a clock that was set back is no gap
            samples = [
                sample(known[name], at, *some, monotonic=came) for name, some in rows.items()
            ]
            self.writer.commit([batch(*samples, instance=instance)])
            self.seconds.append(at)

    def check(self, work: Workspace, *periods: tuple[float, float]) -> None:
        """Each period has what was put into it, and nothing else."""
        with open_history(self.writer.directory, work=work) as history:
            for begin, end in periods:
                self._check(history, begin, end)

    def _check(self, history: History, begin: float, end: float) -> None:
        found = host_metrics(history, period(begin, end))
        first, count = int(begin) // STEP, int(end) // STEP - int(begin) // STEP + 1
        # The first step is read as a whole.
        steps = {at // STEP - first: at for at in self.seconds if first * STEP <= at < end}
        assert found.begin == NIGHT + timedelta(seconds=first * STEP)
        # The first sample has none before it, so nothing is known of its host.
        of_host = {step: at for step, at in steps.items() if at != self.seconds[0]}
        assert placed(found.values["FreeableMemory"]) == of_host
        assert placed(found.values[WAITING]) == {step: waiting(at) for step, at in steps.items()}
        assert placed(found.values[CONNECTIONS]) == {step: at // STEP for step, at in steps.items()}
        assert {len(values) for values in found.values.values()} == {count}
        assert found.device == "vda"
        most = ordinary_connections(history, period(begin, end))
        assert most == 97 + max(steps.values())


def waiting(at: int) -> int:
    """How many sessions wait in the sample of a second."""
    return at // STEP % 4


def placed(values: list[float | None]) -> dict[int, float]:
    """The values that are known, by the number of their step."""
    return {step: value for step, value in enumerate(values) if value is not None}


def test_steps_that_were_read_are_gone_on_with(writer: Writer, work: Workspace) -> None:
    recorded = Recorded(writer)
    recorded.add(0, 15, 30, 45, 60)
    recorded.check(work, (0, 61), (0, 65), (20, 61), (0, 61))
    recorded.add(67, 80)  # 67 is in a step that was read in part
    recorded.check(work, (0, 81), (20, 100), (0, 50))
    recorded.add(200)
    recorded.check(work, (0, 201), (100, 210), (30, 201))


def test_a_sample_that_comes_late_is_among_them(writer: Writer, work: Workspace) -> None:
    recorded = Recorded(writer)
    recorded.add(0, 15, 30, 90, 120)
    recorded.check(work, (0, 125))
    recorded.add(60)
    recorded.check(work, (0, 125), (50, 140))
    recorded.add(105, 150)
    recorded.check(work, (0, 155), (30, 160))


def test_steps_of_rows_that_went_to_files_are_the_same(writer: Writer, work: Workspace) -> None:
    """Later rows get the numbers that moved rows had before."""
    recorded = Recorded(writer)
    recorded.add(0, 15, 30, 45)
    recorded.check(work, (0, 50))
    compaction.move_to_parquet(writer, MIDNIGHT + 60 * SECOND, everything=True)
    recorded.check(work, (0, 50))
    recorded.add(60, 20, 75, 90)  # 20 comes late
    recorded.seconds.remove(15)  # of two in a step the later one counts
    recorded.check(work, (0, 95), (0, 95))


def test_steps_are_those_of_one_instance(writer: Writer, work: Workspace) -> None:
    recorded, other = Recorded(writer), Recorded(writer)
    for at in (0, 15, 30):
        recorded.add(at)
        other.add(at + 90, instance="other")
        recorded.check(work, (0, at + 40) if at else (0, 16)) if at else None
    with open_history(writer.directory, work=work) as history:
        found = host_metrics(history, period(0, 200, "other"))
    assert placed(found.values["FreeableMemory"]) == {7: 105, 8: 120}


# What is stored when it changes.


def put(writer: Writer, source: Source, hour: float, *rows: Row, instance: str = "db:5432") -> None:
    """A sample at an hour after midnight."""
    writer.commit([batch(sample(source, hour * HOUR, *rows), instance=instance)])


def machine(cpus: int) -> Row:
    return of_source("machine", name="cpus", value=str(cpus), origin="cpu.max")


def setting(value: str) -> Row:
    return of_source("settings", name="work_mem", value=value, unit="kB")


def ceiling(value: float) -> Row:
    given = {"resource": "iops", "part": "disk", "value": value, "origin": "io.max"}
    return Row(values=tuple(given.get(column.name) for column in LIMITS.columns), reset=None)


def check(
    directory: Path, work: Workspace, hour: float, cpus: int, work_mem: str, iops: float,
    changed: Sequence[tuple[float, str]],
) -> None:  # fmt: skip
    """Assert what was known at an hour, and the hours of the changes until then."""
    with open_history(directory, work=work) as history:
        about = period(0, hour * HOUR)
        known = facts(history, "db:5432", until=about.end)
        assert known["cpus"].value == str(cpus)
        assert settings(history, about, "work_mem") == {"work_mem": work_mem}
        assert [row["value"] for row in host_ceilings(history, about)] == [iops]
        told = [
            ((one.at - NIGHT) / timedelta(hours=1), one.detail.partition(":")[0])
            for one in changes(history, about)
            if one.what in {"setting", "machine"}
        ]
        told += [
            ((at - NIGHT) / timedelta(hours=1), "ceilings")
            for at in ceiling_changes(history, about)
        ]
        assert sorted(told) == sorted(changed)


def test_what_was_changed_is_known_at_the_next_opening(writer: Writer, work: Workspace) -> None:
    """Changes at hours 3 and 4, in periods that were read before, and at 7, after rows moved."""
    directory, known = writer.directory, built_in()
    put(writer, known["machine"], 1, machine(4))
    put(writer, known["settings"], 1, setting("4096"))
    put(writer, LIMITS, 1, ceiling(3000.0))
    for hour in (2, 2, 5):
        check(directory, work, hour, 4, "4096", 3000.0, [])

    put(writer, known["machine"], 3, machine(8))
    put(writer, known["settings"], 3, setting("8192"))
    put(writer, LIMITS, 3, ceiling(6000.0))
    at_three: list[tuple[float, str]] = [(3, "cpus"), (3, "work_mem"), (3, "ceilings")]
    check(directory, work, 2, 4, "4096", 3000.0, [])
    check(directory, work, 5, 8, "8192", 6000.0, at_three)

    put(writer, known["settings"], 4, setting("1024"))
    check(directory, work, 3.5, 8, "8192", 6000.0, at_three)
    check(directory, work, 5, 8, "1024", 6000.0, [*at_three, (4, "work_mem")])

    compaction.move_to_parquet(writer, MIDNIGHT + 6 * HOUR * SECOND, everything=True)
    check(directory, work, 5, 8, "1024", 6000.0, [*at_three, (4, "work_mem")])
    put(writer, known["machine"], 7, machine(2))
    put(writer, known["settings"], 7, setting("64"))
    put(writer, LIMITS, 7, ceiling(100.0))
    check(directory, work, 5, 8, "1024", 6000.0, [*at_three, (4, "work_mem")])
    at_seven = [(7, "cpus"), (7, "work_mem"), (7, "ceilings")]
    check(directory, work, 8, 2, "64", 100.0, [*at_three, (4, "work_mem"), *at_seven])


def test_rows_with_the_numbers_of_those_that_left_are_others(
    writer: Writer, work: Workspace
) -> None:
    """There is one row at a time, and SQLite counts from the beginning again in an empty table."""
    source = built_in()["settings"]
    for hour, value in enumerate(("1024", "2048", "4096"), start=1):
        put(writer, source, hour, setting(value))
        with open_history(writer.directory, work=work) as history:
            about = period(0, 24 * HOUR)
            assert settings(history, about, "work_mem") == {"work_mem": value}
            assert len([one for one in changes(history, about) if one.what == "setting"]) == (
                hour - 1
            )
        compaction.move_to_parquet(writer, MIDNIGHT + (hour * HOUR + 60) * SECOND, everything=True)
