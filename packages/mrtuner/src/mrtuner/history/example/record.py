"""Writing the example into a store, through the store's own writer."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import Refused
from mrtuner.history.example.server import MAX_CONNECTIONS, ExampleServer, Minute
from mrtuner.history.example.statements import LOADS
from mrtuner.history.moments import whole_second
from mrtuner.history.recording.managed import CLOUDWATCH, METRICS
from mrtuner.history.recording.sampler import Identity, Row, SourceSample
from mrtuner.history.recording.source import Source, built_in
from mrtuner.history.store import compaction, layout
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer

INSTANCE: Final = "shop-prod"
VERSION: Final = 160004
#: Interval between samples of the sessions [s]; a real recorder takes one second.
_LOOK: Final = 30
#: Second of each minute at which everything else is read.
_READ: Final = 45
#: Interval at which RDS is asked to describe the instance [minutes].
_DESCRIBED: Final = 60
#: Minutes that are written in one transaction.
_AT_ONCE: Final = 60
#: What RDS says of the instance, apart from what changes.
_MACHINE: Final = {
    "identifier": INSTANCE, "engine": "postgres", "engine_version": "16.4",
    "allocated_storage": "1000", "storage_type": "io1",
}  # fmt: skip
#: Settings by RDS's defaults and by the parameter group; values in base units.
_SETTINGS: Final[Mapping[str, tuple[str, str | None]]] = {
    "autovacuum_freeze_max_age": ("200000000", None),
    "checkpoint_completion_target": ("0.9", None),
    "checkpoint_timeout": ("300", "s"),
    "effective_cache_size": ("4063232", "8kB"),
    "max_connections": (str(MAX_CONNECTIONS), None),
    "max_wal_size": ("8192", "MB"),
    "random_page_cost": ("4", None),
    "server_version_num": (str(VERSION), None),
    "shared_buffers": ("2031616", "8kB"),
    "track_io_timing": ("on", None),
    "work_mem": ("4096", "kB"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something that a user did or that RDS reported."""

    at: datetime
    kind: str = "rds"
    detail: str = ""
    settings: Mapping[str, str] | None = None  # that have these values from now on
    machine: Mapping[str, str] | None = None  # facts of the instance that change now


def record_example(
    directory: Path, start: datetime, minutes: Sequence[Minute | None],
    happened: Iterable[Happened] = (), forgotten: tuple[datetime, datetime] | None = None,
) -> None:  # fmt: skip
    """Write these minutes to a new store; None stands for a minute while the server was down.

    `forgotten` is when a session left a transaction open, and when it ended.

    Raises:
        Refused: the directory holds a history.
        UsageError: it cannot be written.
    """
    if (directory / layout.DATABASE).exists():
        raise Refused(f"{directory} already holds a history", "Name another directory with --dir.")
    sources = {**built_in(), "cloudwatch": CLOUDWATCH}
    told = sorted(happened, key=lambda one: one.at)
    with Writer(directory, sources.values()) as writer:
        batches: list[Batch] = []
        for batch in _batches(_Recorder(sources, start), minutes, told, forgotten):
            batches.append(batch)
            if len(batches) == _AT_ONCE:
                writer.commit(batches)
                batches = []
        writer.commit(batches)
        end = start + timedelta(minutes=len(minutes) + 1)
        compaction.move_to_parquet(writer, whole_second(end), everything=True)
        writer.db.execute("VACUUM")  # frees the space of rows moved into files


def _batches(
    recorder: _Recorder, minutes: Sequence[Minute | None], told: Sequence[Happened],
    forgotten: tuple[datetime, datetime] | None,
) -> Iterator[Batch]:  # fmt: skip
    # The random numbers protect no secret, and must be the same each time.
    server = ExampleServer(random=random.Random(2021))  # noqa: S311
    settings = {name: value for name, (value, _) in _SETTINGS.items()}
    machine = dict(_MACHINE)
    for number, now in enumerate(minutes):
        begin = recorder.start + timedelta(minutes=number)
        at = begin + timedelta(seconds=_READ)
        events = [one for one in told if begin <= one.at < begin + timedelta(minutes=1)]
        for one in events:
            settings |= one.settings or {}
            machine |= one.machine or {}
        server.max_wal_size = int(settings["max_wal_size"])
        samples: list[SourceSample] = []
        if now is not None:
            held = _held_for(forgotten, at)
            server.pass_minute(now, held_for=held)
            samples = [
                recorder.metrics(begin, now.metrics),
                *recorder.looks(server, now, begin, held),
                *(recorder.sample(at, *read) for read in server.read(now, held_for=held)),
                recorder.sample(at, "settings", list(_settings(settings))),
            ]
            if number % _DESCRIBED == 0:
                samples.append(recorder.sample(at, "machine", list(_described(machine))))
        yield Batch(
            instance=INSTANCE,
            identity=Identity(
                version_num=VERSION, started=f"{recorder.start - timedelta(days=900)}",
                system=None, standby=False,
            ) if number == 0 else None,
            samples=tuple(samples),
            texts={load.query_id: load.text for load in LOADS} if number == 0 else {},
            events=tuple(
                HistoryEvent(
                    at=whole_second(one.at), instance=INSTANCE, kind=one.kind, detail=one.detail
                )
                for one in events if one.detail
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Puts what was read into the form that the writer takes."""

    sources: Mapping[str, Source]
    start: datetime

    def sample(self, at: datetime, name: str, rows: Sequence[Mapping[str, Any]]) -> SourceSample:
        """A sample of a source; columns that a row does not have are null."""
        source = self.sources[name]
        names = [column.name for column in source.columns]
        return SourceSample(
            source=source, at=whole_second(at), monotonic=(at - self.start).total_seconds(),
            cost=0.001,
            rows=tuple(Row(values=tuple(map(row.get, names)), reset=None) for row in rows),
        )  # fmt: skip

    def metrics(self, at: datetime, values: Mapping[str, float]) -> SourceSample:
        """Return CloudWatch's point of a minute, stamped with its beginning."""
        row = {
            column: round(values[metric], 6)
            for column, metric in METRICS.items()
            if metric in values and values[metric] == values[metric]  # no point: NaN
        }
        return self.sample(at, "cloudwatch", [row])

    def looks(
        self, server: ExampleServer, now: Minute, begin: datetime, held: float
    ) -> Iterator[SourceSample]:
        """Yield the samples of sessions in a minute, one every `_LOOK` seconds."""
        for second in range(0, 60, _LOOK):
            at = begin + timedelta(seconds=second)
            yield self.sample(at, "sessions", server.sessions(now, held_for=held))


def _settings(values: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        yield {
            "name": name, "value": value, "unit": _SETTINGS[name][1],
            "origin": "configuration file", "pending": False,
        }  # fmt: skip


def _described(machine: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for name, value in machine.items():
        yield {"name": name, "value": value, "origin": "rds:DescribeDBInstances"}


def _held_for(forgotten: tuple[datetime, datetime] | None, at: datetime) -> float:
    if forgotten is None or not forgotten[0] < at < forgotten[1]:
        return 0.0
    return (at - forgotten[0]).total_seconds()
