"""Deadlocks, as the databases counted them."""

from __future__ import annotations

from collections.abc import Iterator

from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import grown_together, span_of
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.wording import as_name, first_few, plural_was


def deadlocks(history: History, about: HistoryPeriod) -> Iterator[Incident]:
    for rows in grown_together(history, about, "databases", "deadlocks"):
        names = sorted({as_name(row["database"]) for row in rows if row["database"]})
        number = plural_was(int(sum(row["deadlocks"] for row in rows)), "deadlock")
        yield Incident(
            kind="deadlocks", begin=span_of(rows[0])[0], end=span_of(rows[-1])[1],
            screen="connections", text=f"{number} resolved in {first_few(names, 3)}",
        )  # fmt: skip
