"""Checkpoints and WAL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Final

from mrtuner.history.analysis.period import IN_PERIOD
from mrtuner.history.analysis.series import Kind, Measure, rate, ratio
from mrtuner.web.screens.screen import NOT_RECORDED, Chart, Screen, Table, View, as_spent, known

_SECOND: Final = 0.001  # from ms
_BLOCK: Final = 8192.0


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    unit, scale = view.seldom
    work = view.lines("checkpoints", {
        "writing": rate("write_ms", scale=_SECOND), "syncing": rate("sync_ms", scale=_SECOND),
    })  # fmt: skip
    return [
        Chart(
            name="wal", title="WAL written", unit="bytes/s",
            series=view.lines("wal", {"WAL": rate("bytes")}),
        ),
        Chart(
            name="checkpoints", title="Checkpoints", unit=unit, stacked=True,
            help="Requested ones come earlier than checkpoint_timeout: max_wal_size was reached, "
                 "or a command asked for one.",
            series=view.lines("checkpoints", {
                "requested": rate("requested", scale=scale), "timed": rate("timed", scale=scale),
            }),
        ),
        Chart(
            name="writing", title="Time of checkpoints", unit="share",
            help="Share of the time in which buffers were written and files synced. Counted when a "
                 "checkpoint ends, and drawn over the time before: one that still runs is not "
                 "drawn.",
            series=as_spent(work, _crashes(view) if known(work) else ()),
            missing="no checkpoint ended in this period" if known(work) else NOT_RECORDED,
        ),
        Chart(
            name="full_pages", title="Full-page images", unit="share",
            help="Share of the WAL records that hold a whole page: the first change of a page "
                 "after a checkpoint.",
            series=view.lines("wal", {"share": ratio("full_page_images", "records")}),
        ),
        Chart(
            name="buffers", title="Buffers written", unit="bytes/s", stacked=True,
            series=view.lines("checkpoints", {
                "by checkpoints": rate("buffers_written", scale=_BLOCK),
                "by the background writer": rate("buffers_cleaned", scale=_BLOCK),
            }),
        ),
        Chart(
            name="pg_wal", title="Size of pg_wal", unit="bytes",
            series=view.lines("wal_directory", {"size": Measure(Kind.HIGHEST, "bytes")}),
        ),
    ], []  # fmt: skip


def _crashes(view: View) -> Sequence[int]:
    """Return the steps whose samples are the first after a crash."""
    rows = view.history.rows(
        f"SELECT time FROM events WHERE {IN_PERIOD} AND kind = 'crash'",
        view.grid.parameters, inside=True,
    )  # fmt: skip
    begin = view.grid.begin - view.history.source("checkpoints").interval
    return [
        int((row["time"].replace(tzinfo=UTC).timestamp() - begin) // view.grid.step) for row in rows
    ]


SCREEN: Final = Screen(
    name="wal",
    title="Checkpoints and WAL",
    help="How much WAL was written, and whether checkpoints came too early",
    sources=("wal", "checkpoints"),
    build=_build,
)
