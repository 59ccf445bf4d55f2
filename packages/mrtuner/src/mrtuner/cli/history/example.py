"""`mrtuner history example`: a generated history whose story is known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.cli.common import options, prerequisites, terminal

if TYPE_CHECKING:
    from mrtuner.history.example.record import Happened
    from mrtuner.history.example.server import Minute
    from mrtuner.limits.examples.upgrade import Upgrade


@options.command("example")
@options.path_option(
    "--dir", "DIR", "Directory for the history; it must not hold one yet.",
    name="directory", required=True,
)  # fmt: skip
@options.json_option
def command(directory: Path, as_json: bool) -> None:
    """Write a history to try things on: three days of an RDS instance limited by its class.

    \b
    Examples:
      mrtuner history example --dir /tmp/example
      mrtuner serve --dir /tmp/example
      mrtuner history show --dir /tmp/example --since 24h

    The data are generated, always the same, after a case of 2021: for hours, statements took 10 to
    100 times as long, while CPU, memory, connections and operations stayed below 70 %. More
    provisioned IOPS did not help; a larger class did. Finding the limit is left to you.
    """
    prerequisites.require("duckdb", "numpy")
    from mrtuner.history.example.record import INSTANCE, record_example
    from mrtuner.history.store.status import size
    from mrtuner.limits.examples.upgrade import DAYS, START, simulated_upgrade

    told = simulated_upgrade()
    terminal.print_note(f"writing {DAYS} days of {INSTANCE}")
    record_example(
        directory, START, minutes_of(told), list(_happened()), forgotten=_forgotten(START)
    )
    if as_json:
        terminal.answer(size(directory), (), as_json)
        return
    terminal.print_line(f"{INSTANCE}, {START:%Y-%m-%d}, {DAYS} days; to see it in the browser:")
    terminal.print_line(f"  mrtuner serve --dir {directory}")
    terminal.print_line("then, for example:")
    for what, fragment in _views(START):
        terminal.print_line(f"  http://127.0.0.1:8080/#{fragment}  # {what}")


def minutes_of(told: Upgrade) -> list[Minute | None]:
    """Return the minutes as the server's model takes them; None while the instance is down."""
    from mrtuner.history.example.server import Minute

    # The ceiling never lets less than two thirds of the demand through.
    held_back = 1 - told.served
    most = 0.35
    found: list[Minute | None] = []
    for number in range(told.series.points):
        metrics = {name: float(values[number]) for name, values in told.series.metrics.items()}
        away = metrics["ReadIOPS"] != metrics["ReadIOPS"]  # NaN: no data point
        jam = max(0.0, min(1.0, (held_back[number] - 0.05) / (most - 0.05)))
        found.append(None if away else Minute(
            number=number, working=bool(told.working[number]), job=bool(told.jobs[number]),
            jam=float(jam), metrics=metrics,
        ))  # fmt: skip
    return found


def _happened() -> Iterator[Happened]:
    """Yield what was tried, and what RDS reported."""
    from mrtuner.history.example.record import Happened
    from mrtuner.limits.examples.upgrade import (
        AWAY,
        CLASS_AFTER,
        CLASS_BEFORE,
        IOPS_AFTER,
        IOPS_BEFORE,
        LARGER_CLASS,
        MORE_IOPS,
        START,
    )

    yield Happened(
        at=START, machine={"class_name": CLASS_BEFORE, "iops": str(IOPS_BEFORE)}
    )  # fmt: skip
    for day in range(3):
        backup = START + timedelta(days=day, hours=1, minutes=10)
        yield Happened(at=backup, detail="Backing up DB instance")
        yield Happened(at=backup + timedelta(minutes=14), detail="Finished DB instance backup")
    yield Happened(at=START + timedelta(hours=15, minutes=20), settings={"work_mem": "16384"})
    yield Happened(
        at=MORE_IOPS,
        detail=f"Finished applying modification to provisioned IOPS: {IOPS_BEFORE:,} to "
        f"{IOPS_AFTER:,}",
        machine={"iops": str(IOPS_AFTER)},
    )
    yield Happened(
        at=LARGER_CLASS - timedelta(minutes=5),
        detail="Applying modification to database instance class",
    )
    yield Happened(at=LARGER_CLASS, detail="DB instance shutdown")
    back = LARGER_CLASS + timedelta(minutes=AWAY)
    yield Happened(at=back, detail="DB instance restarted")
    yield Happened(
        at=back, kind="restart", detail=f"started at {back:%Y-%m-%d %H:%M:%S} UTC",
        settings={"shared_buffers": "4063232", "effective_cache_size": "8126464"},
    )  # fmt: skip
    yield Happened(
        at=back + timedelta(minutes=2),
        detail=f"Finished applying modification to DB instance class: {CLASS_BEFORE} to "
        f"{CLASS_AFTER}",
        machine={"class_name": CLASS_AFTER},
    )
    yield Happened(
        at=START + timedelta(days=2, hours=13), settings={"max_wal_size": "16384"}
    )  # fmt: skip


def _forgotten(start: datetime) -> tuple[datetime, datetime]:
    """Begin and end of a transaction that somebody left open over lunch."""
    begin = start + timedelta(days=1, hours=11, minutes=5)
    return begin, begin + timedelta(minutes=95)


def _views(start: datetime) -> Iterator[tuple[str, str]]:
    def fragment(screen: str, begin: datetime, hours: int, more: str = "") -> str:
        end = begin + timedelta(hours=hours)
        return f"screen={screen}&from={int(begin.timestamp())}&to={int(end.timestamp())}{more}"

    monday = start + timedelta(hours=6)
    yield "Monday: what the sessions waited for", fragment("load", monday, 14)
    yield "and what was at its limit", fragment("headroom", monday, 14)
    yield (
        "Wednesday compared with Tuesday, on the larger class",
        fragment("compare", start + timedelta(days=2, hours=10), 7, "&compare=1d"),
    )
