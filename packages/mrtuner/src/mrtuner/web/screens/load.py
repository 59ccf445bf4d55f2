"""Waits: what went wrong, how many sessions were active, and what they waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.history.analysis.active_sessions import CPU, WAIT_EVENT
from mrtuner.history.analysis.series import ChartLine, Kind, Measure
from mrtuner.history.recorded.server import machine
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.web.screens.screen import Chart, Screen, Table, View, highest

_CLASS: Final = f"coalesce(wait_type, '{CPU}')"
_MOST_EVENTS: Final = 20


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    cpus = _cpus(view)
    sessions = Measure(Kind.NUMBER)
    events = view.split("sessions", sessions, WAIT_EVENT, where=AT_WORK, top=_MOST_EVENTS)
    charts = [
        Chart(
            name="load", title="Active sessions", unit="sessions", stacked=True,
            help="By what they wait for. Above the number of CPUs, sessions wait for each other.",
            series=view.split("sessions", sessions, _CLASS, where=AT_WORK),
            limits=[(f"{cpus} CPUs", cpus)] if cpus else [],
        )
    ]  # fmt: skip
    columns = (("event", "Wait event", "text"), ("sessions", "Average sessions", "sessions"),
               ("share", "Share of the load", "share"))  # fmt: skip
    return charts, [
        Table(name="events", title="Wait events", columns=columns, rows=_averages(events))
    ]


def _cpus(view: View) -> int | None:
    """Return the host's CPUs or, if not recorded, the machine's; None if unknown."""
    counted = view.lines("host", {"cpus": Measure(Kind.HIGHEST, "cpus")})
    most = highest(counted)
    if most:
        return int(most)
    known = machine(view.history, view.about).cpus
    return None if known is None else known.value


def _averages(series: Sequence[ChartLine]) -> list[dict[str, object]]:
    known = {one.name: [value for value in one.values if value is not None] for one in series}
    averages = {name: sum(values) / len(values) for name, values in known.items() if values}
    whole = sum(averages.values())
    return [
        {"event": name, "sessions": average, "share": average / whole}
        for name, average in averages.items()
        if average
    ]


SCREEN: Final = Screen(
    name="load",
    title="Waits",
    help="What went wrong, how many sessions were active, and what they waited for",
    sources=("sessions", "samples"),
    build=_build,
    story=True,
)
