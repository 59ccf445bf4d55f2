"""What happened to a recorded server in a period."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner import extras
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.history.analysis.happened import Summary


def history(
    directory: Path | str | None = None,
    *,
    instance: str | None = None,
    since: float | str = "1h",
    until: datetime | None = None,
    cpus: int | None = None,
    top: int = 10,
) -> Summary:
    """Summarise a period: load by wait class, statements, checkpoints, the busiest minute, changes.

    `directory` is where ``mrtuner record`` wrote, by default its own place. The period is the last
    `since` [s, or a text such as ``"6h"``] before `until`, by default the last sample; it begins no
    earlier than the first. `cpus` is what the server can use if that was not recorded; `top` limits
    the statements.

    Raises:
        UsageError: there is no such history or instance.
        MissingPart: DuckDB is not installed.
    """
    extras.require("duckdb")
    from mrtuner.history.analysis.happened import summary
    from mrtuner.history.analysis.period import period, since_recorded
    from mrtuner.history.directory import history_directory
    from mrtuner.history.reading import open_history

    place = history_directory(None if directory is None else Path(directory))
    with open_history(place) as opened:
        found = period(opened, instance, since=parse_duration(since), until=until)
        return summary(opened, since_recorded(opened, found), top=top, cpus=cpus)
