"""Changes: settings, restarts, upgrades, and gaps of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.history.analysis import changes, gaps
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_COLUMNS: Final = (
    ("at", "When", "time"), ("what", "What", "text"), ("detail", "Detail", "text"),
)  # fmt: skip


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    found = [
        {"at": one.at, "what": one.what, "detail": one.detail}
        for one in changes(view.history, view.about)
    ]
    found += [
        {"at": gap.begin, "what": "gap", "detail": f"nothing recorded until {gap.end:%H:%M:%S} UTC"}
        for gap in gaps(view.history, view.about)
    ]  # fmt: skip
    found.sort(key=lambda row: str(row["at"]), reverse=True)
    return [], [
        Table(name="changes", title="Changes, the latest first", columns=_COLUMNS, rows=found)
    ]


SCREEN: Final = Screen(
    name="changes",
    title="Changes",
    help="What was changed, restarted or upgraded",
    sources=("settings", "events"),
    build=_build,
)
