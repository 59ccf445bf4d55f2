"""Replication: how far standbys are behind, and the WAL that slots keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.history.series import Kind, Measure
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_STANDBY: Final = "coalesce(nullif(application, ''), 'receiver') || coalesce(' ' || client, '')"
_LAGS: Final = (
    ("replay_lag", "Time until WAL is replayed", "s"),
    ("flush_lag", "Time until WAL is flushed", "s"),
    ("replay_behind", "WAL not yet replayed", "bytes"),
    ("sent_behind", "WAL not yet sent", "bytes"),
)
_NONE: Final = "no receiver of WAL was seen in this period"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    lags = view.splits(
        "replication", {name: Measure(Kind.LAST, name) for name, _, _ in _LAGS}, _STANDBY
    )
    return [
        *(
            Chart(name=name, title=title, unit=unit, series=lags[name], missing=_NONE)
            for name, title, unit in _LAGS
        ),
        Chart(
            name="slots", title="WAL kept for slots", unit="bytes",
            missing="there was no replication slot in this period",
            series=view.split("slots", Measure(Kind.LAST, "retained"), "name"),
        ),
    ], []  # fmt: skip


SCREEN: Final = Screen(
    name="replication",
    title="Replication",
    help="How far standbys are behind, and what slots keep",
    sources=("replication", "slots"),
    build=_build,
)
