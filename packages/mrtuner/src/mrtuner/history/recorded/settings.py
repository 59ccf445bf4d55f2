"""The recorded settings of an instance."""

from __future__ import annotations

from datetime import UTC, datetime

from mrtuner.history.analysis.changes import HistoryChange
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.store.layout import last_value
from mrtuner.history.unchanged import while_same


def settings(history: History, about: HistoryPeriod, *names: str) -> dict[str, str]:
    """The values of these settings at the end of a period, in their base units, where known."""
    if not history.has("settings"):
        return {}
    end = about.end.replace(tzinfo=None)
    rows = while_same(
        history, "settings", ("settings", about.instance, names), lambda: history.rows(
            f"""SELECT name, {last_value("value")} AS value FROM settings
                WHERE instance = $instance AND time <= $end AND list_contains($names, name)
                GROUP BY name""",
            {"instance": about.instance, "end": end, "names": list(names)},
        ), until=end,
    )  # fmt: skip
    return {row["name"]: row["value"] for row in rows if row["value"] is not None}


def other_value_between(
    history: History, instance: str, change: HistoryChange, begin: datetime
) -> bool:
    """Return if a setting had a value other than `change.before` from `begin` to the change."""
    found = history.row(
        """SELECT count(*) AS number FROM settings
           WHERE instance = $instance AND name = $name AND time > $begin AND time < $end
             AND value IS DISTINCT FROM $before""",
        {
            "instance": instance, "name": change.name, "before": change.before,
            "begin": begin.astimezone(UTC).replace(tzinfo=None),
            "end": change.at.astimezone(UTC).replace(tzinfo=None),
        },
    )  # fmt: skip
    return bool(found["number"])
