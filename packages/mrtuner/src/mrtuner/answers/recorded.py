"""A history that an answer takes its figures from, and for how long back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner import extras

if TYPE_CHECKING:
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.reading import History

#: Told a sentence about what goes on.
Tell = Callable[[str], None]


@contextmanager
def remembered(
    directory: Path | str, instance: str | None, *, since: float
) -> Iterator[tuple[History, HistoryPeriod]]:
    """Open a history, with the period of the last `since` seconds of the instance.

    Raises:
        UsageError: there is no such history or instance.
        MissingPart: DuckDB is not installed.
    """
    extras.require("duckdb")
    from mrtuner.history.analysis.period import period
    from mrtuner.history.reading import open_history

    with open_history(Path(directory)) as history:
        yield history, period(history, instance, since=since)


def silent(_text: str) -> None:
    """Tell nobody."""
