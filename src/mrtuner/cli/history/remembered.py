"""A history that another command takes its figures from: --history DIR and --instance NAME."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.cli.common import prerequisites
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner.history.period import HistoryPeriod
    from mrtuner.history.reading import History


@contextmanager
def remembered(
    directory: Path, instance: str | None, *, since: float, watch: float | None
) -> Iterator[tuple[History, HistoryPeriod]]:
    """Open the history, with the period of the last `since` seconds of the instance.

    Raises:
        UsageError: a watch was asked for as well, or there is no such history or instance.
    """
    if watch is not None:
        raise UsageError("--history and --watch cannot be used together", "Omit one of them.")
    prerequisites.require("duckdb")
    from mrtuner.history.period import period
    from mrtuner.history.reading import open_history

    with open_history(directory) as history:
        yield history, period(history, instance, since=since)
