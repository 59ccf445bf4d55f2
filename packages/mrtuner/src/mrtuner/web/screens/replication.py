"""Replication: how far standbys lag behind, and the WAL that slots keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mrtuner.history.analysis.series import Kind, Measure
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_STANDBY: Final = "coalesce(nullif(application, ''), 'receiver') || coalesce(' ' || client, '')"
_LAGS: Final = (
    ("replay_lag", "Time until WAL is replayed", "s"),
    ("flush_lag", "Time until WAL is flushed", "s"),
    ("replay_behind", "WAL not yet replayed", "bytes"),
    ("sent_behind", "WAL not yet sent", "bytes"),
)
_NONE: Final = "no receiver of WAL was seen in this period"
_NO_SLOT: Final = "there was no replication slot in this period"
_RECEIVERS: Final = (
    ("application", "Receiver", "text"),
    ("client", "Address", "text"),
    ("state", "State", "text"),
    ("sync_state", "Synchronous", "text"),
    ("replay_lag", "Behind", "s"),
    ("replay_behind", "WAL not yet replayed", "bytes"),
)
_SLOTS: Final = (
    ("name", "Slot", "text"),
    ("kind", "Kind", "text"),
    ("in_use", "In use", "text"),
    ("status", "Its WAL is", "text"),
    ("retained", "WAL kept", "bytes"),
    ("safe", "Until it is lost", "bytes"),
    ("xmin_age", "Transactions held back", "integer"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    lags = view.splits(
        "replication", {name: Measure(Kind.LAST, name) for name, _, _ in _LAGS}, _STANDBY
    )
    none, no_slot = view.unless_unrecorded(_NONE), view.unless_unrecorded(_NO_SLOT)
    return [
        *(
            Chart(name=name, title=title, unit=unit, series=lags[name], missing=none)
            for name, title, unit in _LAGS
        ),
        Chart(
            name="slots", title="WAL kept for slots", unit="bytes",
            missing=no_slot,
            series=view.split("slots", Measure(Kind.LAST, "retained"), "name"),
        ),
    ], [
        Table(name="receivers", title="Receivers of WAL at the end of the period",
              columns=_RECEIVERS, rows=_receivers(view), missing=none),
        Table(name="slots", title="Replication slots at the end of the period", columns=_SLOTS,
              rows=_slots(view), missing=no_slot),
    ]  # fmt: skip


def _receivers(view: View) -> Sequence[dict[str, Any]]:
    keys = {"application": "application", "client": "client", "pid": "pid"}
    found = view.latest("replication", keys, ("state", "sync_state", "replay_lag", "replay_behind"))
    there = [row for row in found if row["state"] is not None]
    return sorted(there, key=lambda row: (-(row["replay_behind"] or 0), str(row["application"])))


def _slots(view: View) -> Sequence[dict[str, Any]]:
    columns = ("kind", "active", "status", "retained", "safe", "xmin_age")
    there = [row for row in view.latest("slots", {"name": "name"}, columns) if row["kind"]]
    return [
        row | {"in_use": "yes" if row["active"] else "no"}
        for row in sorted(there, key=lambda row: (-(row["retained"] or 0), row["name"]))
    ]


SCREEN: Final = Screen(
    name="replication",
    title="Replication",
    help="How far standbys are behind, and what slots keep",
    sources=("replication", "slots"),
    build=_build,
)
