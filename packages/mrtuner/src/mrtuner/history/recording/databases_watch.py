"""Sampling what can only be seen from inside a database, in all databases of a server.

One after the other, so that this takes one more connection at a time, however many there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from queue import Queue

from mrtuner.errors import MrTunerError
from mrtuner.facts import Missing
from mrtuner.history.recording.outlet import Outlet
from mrtuner.history.recording.rounds import Rounds
from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.silence import SilentSessions
from mrtuner.history.recording.source import Source
from mrtuner.history.store.writer import Batch
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.sql import query


class DatabasesWatch:
    """Samples every database of an instance; a sample has the rows of all of them."""

    def __init__(
        self, instance: str, dsn: str, sources: Iterable[Source], queue: Queue[Batch],
        stop: threading.Event, *, silent: SilentSessions, share: float, begin_after: float,
    ) -> None:  # fmt: skip
        self.dsn, self.stop, self.silent = dsn, stop, silent
        self.begin_after = begin_after
        self.rounds = Rounds(sources, share)
        self.outlet = Outlet(instance, queue)
        self.missing: tuple[Missing, ...] = ()
        #: What is missing by source and database; "" stands for the database itself.
        self._lacks: dict[tuple[str, str], Missing] = {}
        #: The last sample by source and database: one that cannot be read now is not gone.
        self._known: dict[tuple[str, str], SourceSample] = {}

    def run(self) -> None:
        """Sample until told to stop."""
        self.stop.wait(self.begin_after)
        while not self.stop.wait(self.rounds.wait):
            due = self.rounds.due()
            try:
                names = self._databases()
            except MrTunerError:  # the instance's own thread says that it cannot be reached
                pass
            else:
                self._sample(names, due)
            self.rounds.done(due)
            self.rounds.adjust(self.outlet)

    def _databases(self) -> Sequence[str]:
        with connect(self.dsn) as conn, translated():
            Sampler(conn, self.silent).prepare()
            text = query("recorded_databases", conn.info.server_version)
            return [name for (name,) in conn.execute(text)]

    def _sample(self, names: Sequence[str], due: Sequence[Source]) -> None:
        fresh: set[str] = set()
        for name in names:
            if self.stop.is_set():
                return
            for source in ("", *(one.name for one in due)):
                self._lacks.pop((source, name), None)
            try:
                fresh |= self._visit(name, due)
            except MrTunerError as error:
                lack = Missing(f"database {name}", error.message, hint=error.hint)
                self._lacks["", name] = lack
        self._known = {key: one for key, one in self._known.items() if key[1] in names}
        self._lacks = {key: one for key, one in self._lacks.items() if key[1] in names}
        self.missing = tuple(self._lacks.values())
        self.outlet.send(self._merged(source) for source in due if source.name in fresh)

    def _visit(self, name: str, due: Sequence[Source]) -> set[str]:
        """Sample one database; return the names of the sources that could be read."""
        from psycopg.conninfo import make_conninfo

        read = set()
        with connect(make_conninfo(self.dsn, dbname=name)) as conn, translated():
            sampler = Sampler(conn, self.silent)
            sampler.prepare()
            for source in due:
                sample = self.rounds.sampled(source, sampler.sample)
                if sample is not None:
                    self._known[source.name, name] = sample
                    read.add(source.name)
        for source_name, one in sampler.missing.items():
            lack = Missing(f"{source_name} of {name}", one.why, hint=one.hint)
            self._lacks[source_name, name] = lack
        return read

    def _merged(self, source: Source) -> SourceSample:
        parts = [one for (name, _), one in sorted(self._known.items()) if name == source.name]
        latest = max(parts, key=lambda one: one.monotonic)
        return replace(
            latest, rows=tuple(row for one in parts for row in one.rows),
            cost=sum(one.cost for one in parts),
        )  # fmt: skip
