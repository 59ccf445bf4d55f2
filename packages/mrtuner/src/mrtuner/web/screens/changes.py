"""Changes: settings, restarts, upgrades, and gaps of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Final

from mrtuner.change.record import ParameterChange
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.recording.rounds import PACE
from mrtuner.postgres.secret_settings import shown
from mrtuner.web.journal import attributed_changes, entry, journal_owner
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_COLUMNS: Final = (
    ("at", "When", "moment"), ("what", "What", "text"), ("detail", "Detail", "text"),
    ("by", "Who", "text"), ("journal", "Journal", "journal"),
    ("compare", "What it did", "compare"),
)  # fmt: skip
_ENTRY: Final = (("what", "Entry", "text"), ("value", "In the journal", "prose"))
_SETTINGS: Final = (
    ("name", "Setting", "text"),
    ("before", "Before", "text"),
    ("after", "After", "text"),
    ("restart", "Takes effect", "text"),
)
_STEPS: Final = (("at", "When", "time"), ("step", "Step", "text"))


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    found = [
        {
            "at": one.change.at, "what": one.change.what, "detail": one.change.detail,
            "by": one.by or None, "journal": None if one.entry is None else str(one.entry),
            "compare": None if one.change.what == PACE else one.change.at,
        }
        for one in attributed_changes(view.history, view.about)
    ]  # fmt: skip
    found += [
        {"at": gap.begin, "what": "gap", "detail": f"nothing recorded until {gap.end:%H:%M:%S} UTC"}
        for gap in gaps(view.history, view.about)
    ]  # fmt: skip
    found.sort(key=lambda row: str(row["at"]), reverse=True)
    entry_tables = [] if view.change is None else _entry(view, view.change)
    return [], [
        *entry_tables,
        Table(name="changes", title="Changes, the latest first", columns=_COLUMNS, rows=found),
    ]


def _entry(view: View, number: int) -> list[Table]:
    """Return the tables of a journal entry: who, when, how, values, steps and the undo command."""
    found, undo = entry(view.history, view.about, number)
    change = found.change
    about = {
        "change": f"{change.id}, {change.state}",
        "when": f"{found.began.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "who": f"user {journal_owner()} on the machine that serves this page",
        "server": change.address,
        "how": change.method if change.file is None else f"{change.method}, {change.file}",
        "takes back": "" if change.undoes is None else f"change {change.undoes}",
        "made for": "a measurement, which reverts it itself" if change.proof else "",
        "parameter group": change.group.attached_after if change.group else "",
        "undo": undo,
    }
    return [
        Table(
            name="entry", title=f"Change {number} in MrTuner's journal", columns=_ENTRY,
            rows=[{"what": what, "value": text} for what, text in about.items() if text],
        ),
        Table(
            name="entry_settings", title="What it changed", columns=_SETTINGS,
            rows=[_setting(one) for one in change.entries],
            missing="it attached a parameter group and changed no value",
        ),
        Table(
            name="entry_steps", title="Steps", columns=_STEPS,
            rows=[{"at": step.at, "step": step.step} for step in found.steps],
        ),
    ]  # fmt: skip


def _setting(one: ParameterChange) -> dict[str, str]:
    return {
        "name": one.name,
        "before": _shown(one.name, one.before),
        "after": _shown(one.name, one.after),
        "restart": "at a restart" if one.restart else "at once",
    }


def _shown(name: str, value: str | None) -> str:
    if value is None:
        return "unset"
    return shown(name, value) or "empty"


SCREEN: Final = Screen(
    name="changes",
    title="Changes",
    help="What was changed, restarted or upgraded, and by whom",
    sources=("settings", "events"),
    build=_build,
)
