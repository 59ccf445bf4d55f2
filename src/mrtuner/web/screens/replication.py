"""Replication: how far standbys are behind, and the WAL that slots keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.history.series import Kind, Measure
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_STANDBY: Final = "coalesce(nullif(application, ''), 'receiver') || coalesce(' ' || client, '')"
_NONE: Final = "no receiver of WAL was seen in this period"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    return [
        *(
            Chart(
                name=name, title=title, unit=unit, missing=_NONE,
                series=view.split("replication", Measure(Kind.LAST, of), _STANDBY),
            )
            for name, title, unit, of in (
                ("replay_lag", "Time until WAL is replayed", "s", "replay_lag"),
                ("flush_lag", "Time until WAL is flushed", "s", "flush_lag"),
                ("replay_behind", "WAL not yet replayed", "bytes", "replay_behind"),
                ("sent_behind", "WAL not yet sent", "bytes", "sent_behind"),
            )
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
