"""Races on a server in use: windows of its own load, untouched, tried and untouched again (A-B-A).

What is tried is in force for one window only, and is taken back at once when its guard trips.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING, Final

from mrtuner.bench.engine.collect import Collector, Deltas, differences, statistics
from mrtuner.bench.engine.events import Event, Stage
from mrtuner.bench.server.session import one_row
from mrtuner.change.settings.restart import until_it_works
from mrtuner.errors import ConnectError, MissingPart
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.named_queries import Reader, rows_of
from mrtuner.search.guard import trip
from mrtuner.search.profile import Seen, evidence
from mrtuner.search.race import Raced, throttled
from mrtuner.search.window import Statements, Window, grown, speeds, unlike, vanished
from mrtuner.stats.comparison import FEWEST_BLOCKS, Pair, Verdict, compare
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.bench.engine.events import Progress
    from mrtuner.postgres.connect import Connection
    from mrtuner.search.model import Schedule, Settings

#: How often the guard looks.
_LOOK_S: Final = 0.5
#: A reading that takes longer is none: what is tried must not stay in force meanwhile.
_ANSWER_S: Final = 5
#: How long a server that does not answer is waited for: it may be restarted, or recover.
PATIENCE: Final = 600.0
#: Whoever shut the server down, or ended our session, is no sign of harm by what is tried.
_BY_ADMINISTRATOR: Final = "57P01"
_FEW_IN_COMMON: Final = "the statements that ran in all windows are less than half of their time"
_EVICTED: Final = (
    "most statements of pg_stat_statements were evicted or reset meanwhile (pg_stat_statements.max)"
)
_OTHERS: Final = (
    "SELECT coalesce(sum(xact_commit), 0)::float, coalesce(sum(xact_rollback), 0)::float"
    " FROM pg_stat_database WHERE datname <> current_database()"
)
_NOT_TRACKED: Final = "SELECT set_config('pg_stat_statements.track', 'none', false)"

#: Puts settings into force for a block, and what was there before afterwards.
Trying = Callable[["Settings"], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at a moment."""

    at: float
    deltas: Deltas
    statements: Statements | None
    others: tuple[float, float]  # commits and rollbacks in other databases

    @property
    def database(self) -> dict[str, float]:
        return self.deltas["pg_stat_database"]


@dataclass(kw_only=True)
class LiveMeasurements:
    """Measures a server's own load, in the database of `dsn`; see `procedure.Measuring`."""

    dsn: str
    postmaster: int | None  # None: the server runs elsewhere
    untouched: Settings  # what was in force
    trying: Trying
    by_statements: bool  # whether pg_stat_statements can be read
    schedule: Schedule
    progress: Progress
    session: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.step = 0

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Hold the session that reads counters."""
        self.session = self._opened()
        try:
            yield
        finally:
            self.session.close()

    def _opened(self) -> Connection:
        from psycopg import Error

        session = connect(self.dsn)
        with translated():
            session.execute(f"SET statement_timeout = '{_ANSWER_S}s'")
        with suppress(Error):  # only a superuser may: else our few statements count as well
            session.execute(_NOT_TRACKED)
        return session

    def restarts(self, first: Settings, second: Settings) -> bool:  # noqa: ARG002
        """Never: a live server is reloaded."""
        return False

    @property
    def postpones(self) -> bool:
        """Not by the settings that a live search tries: those whose cost comes later are fixed."""
        return False

    def race(
        self, first: Settings, second: Settings, pairs: int, enough: Callable[[Raced], bool],
        title: str,
    ) -> Raced:  # fmt: skip
        """Measure windows of `first`, `second` and `first` until there are so many, or enough.

        A pair whose windows around are unlike counts as unknown.
        """
        began = time.monotonic()
        taken: list[Pair] = []
        done: list[Pair] = []
        unknown: list[str] = []
        seen: list[Seen] = []
        raced = Raced(pairs=())
        for number in range(1, pairs + 1):
            self._show(f"{title}, {number} of {pairs}")
            try:
                around, tried = self._three(first, second, seen)
            except ConnectError as error:  # what was tried is taken back
                unknown.append(error.message)
                continue
            if tried.tripped is not None:
                raced = Raced(pairs=taken, tripped=tried.tripped)
                break
            windows = [around[0], tried, around[-1]]
            rates = self._rates(windows)
            why = _EVICTED if any(one.statements is None for one in windows) else _FEW_IN_COMMON
            if rates is not None:
                why = (
                    unlike(around, rates) or vanished(windows)
                    or ("" if rates[1] > 0 else "nothing ended in it")
                )  # fmt: skip
            if rates is None or why:
                unknown.append(why)
            else:
                taken.append((sqrt(rates[0] * rates[2]), rates[1]))
                if self.by_statements and tried.work > 0:
                    before, after = around[0].throughput, around[-1].throughput
                    done.append((sqrt(before * after), tried.throughput))
            raced = Raced(pairs=taken, throughputs=done)
            if enough(raced):
                break
        return self._judged(raced, unknown, seen, time.monotonic() - began)

    def _three(
        self, first: Settings, second: Settings, seen: list[Seen]
    ) -> tuple[list[Window], Window]:
        """Measure the windows of one pair; the first that trips is the tried one."""
        look = first == second == self.untouched
        untouched = self._window(self.untouched, None, seen if look else None)
        before = untouched if first == self.untouched else self._window(first, untouched)
        if before.tripped is not None:
            return [before], before
        tried = self._window(second, untouched)
        if tried.tripped is not None:
            return [before], tried
        after = self._window(first, untouched)
        return [before, after], (after if after.tripped else tried)

    def _window(
        self, side: Settings, guard: Window | None, seen: list[Seen] | None = None
    ) -> Window:
        """Measure one window; what is tried is compared with an untouched one all the while."""
        if side == self.untouched:
            guard = None  # there is nothing to take back
        if self.session.closed:
            self.session = until_it_works(self._opened, PATIENCE)
        began = time.monotonic()
        with self.trying(side):
            try:
                return self._measured(guard, seen, began)
            except ConnectError as error:
                if guard is None or _by_administrator(error):
                    raise
                why = f"the server could not be watched: {error.message}"
                return Window(seconds=0.0, commits=0.0, rollbacks=0.0, tripped=why)

    def _measured(self, guard: Window | None, seen: list[Seen] | None, began: float) -> Window:
        early = self._until(self.schedule.warmup, self._read(), guard, began)
        if early is not None:
            return early
        collector = Collector(self.dsn, self.postmaster, None)
        if seen is not None:
            collector.start()
        try:
            start = self._read()
            early = self._until(self.schedule.window, start, guard, began)
            window = early or self._since(start)
        finally:
            collected = collector.finish()
        if seen is not None:
            local = self.postmaster is not None  # else these would be the CPUs of this machine
            seen.append(_seen(window, collected.waits, collected.series if local else {}))
        return window

    def _until(
        self, seconds: float, start: _Reading, guard: Window | None, began: float
    ) -> Window | None:
        """Wait so long; return the window so far if its guard trips before.

        `began`: a moment before the settings came into force.
        """
        while (left := start.at + seconds - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
            if guard is None:
                continue
            now = replace(self._since(start), overdue=self._overdue(began))
            if (why := trip(guard, now)) is not None:
                return Window(
                    seconds=now.seconds, commits=now.commits, rollbacks=now.rollbacks, tripped=why
                )
        return None

    def _read(self) -> _Reading:
        with translated():
            found = statistics(self.session)
            others = one_row(self.session, _OTHERS)
            return _Reading(time.monotonic(), found, self._statements(), others)

    def _since(self, start: _Reading) -> Window:
        now = self._read()
        moved = differences(start.deltas, now.deltas)
        counts = moved["pg_stat_database"]
        return Window(
            seconds=now.at - start.at, commits=counts.get("xact_commit", 0.0),
            rollbacks=counts.get("xact_rollback", 0.0),
            statements=grown(start.statements, now.statements), behind=behind(self.session),
            lost=any(one < 0 for one in counts.values()), deltas=moved,
            others=(now.others[0] - start.others[0], now.others[1] - start.others[1]),
        )  # fmt: skip

    def _overdue(self, began: float) -> list[tuple[float, float]]:
        version = self.session.info.server_version
        if not self.by_statements or version < 140000:
            return []
        with translated():
            seconds = [time.monotonic() - began]
            rows = rows_of(self.session, "statements_overdue", version, seconds)
        return [(row["age"], row["longest"]) for row in rows]

    def _statements(self) -> Statements | None:
        if not self.by_statements:
            return None
        found = statement_times(self.session)
        if found is None:  # it could be read before
            raise ConnectError("statement times can no longer be read")
        return found

    def _rates(self, windows: Sequence[Window]) -> list[float] | None:
        if self.by_statements:
            return speeds(windows)
        return [one.throughput for one in windows]

    def _judged(
        self, raced: Raced, unknown: Sequence[str], seen: Sequence[Seen], seconds: float
    ) -> Raced:
        refused = [raced.tripped] if raced.tripped else []
        verdict = Verdict.UNDECIDED
        if len(raced.pairs) < FEWEST_BLOCKS:
            counted = plural(len(raced.pairs), "pair")
            refused += [f"only {counted} of windows can be compared", *dict.fromkeys(unknown)]
        elif not refused:
            verdict = compare(raced.pairs).verdict
        why = throttled(raced)
        if verdict is Verdict.BETTER and why is not None:
            verdict = Verdict.UNDECIDED
            refused.append(why)
        return Raced(
            pairs=raced.pairs, throughputs=raced.throughputs, tripped=raced.tripped,
            verdict=verdict, refused=tuple(refused),
            evidence=evidence(seen, os.cpu_count() or 1),
            unknown=tuple(unknown), seconds=seconds,
        )  # fmt: skip

    def _show(self, text: str) -> None:
        self.step += 1
        self.progress(Event(Stage.MEASURING, self.step, 0, text))


def _by_administrator(error: ConnectError) -> bool:
    return getattr(error.__cause__, "sqlstate", None) == _BY_ADMINISTRATOR


def statement_times(session: Connection) -> Statements | None:
    """Read pg_stat_statements; None if it is not there or hides statements from this role."""
    reader = Reader(session, session.info.server_version)
    rows = reader.rows_if_allowed("statement_times", "statements")
    if reader.missing or any(row["id"] is None for row in rows):
        return None
    return {(row["role"], row["id"]): (float(row["calls"]), row["ms"]) for row in rows}


def behind(session: Connection) -> float | None:
    """Return what the slowest standby has still to replay [bytes]; None without a standby.

    Raises MissingPart if it is hidden from this role.
    """
    with translated():
        rows = rows_of(session, "replay_distance", session.info.server_version)
    if any(row["behind"] is None for row in rows):
        raise MissingPart(
            "how far standbys are behind in replay is hidden from this role",
            "GRANT pg_read_all_stats TO the role, or connect as a superuser.",
        )
    return max((float(row["behind"]) for row in rows), default=None)


def _seen(window: Window, waits: Mapping[str, int], series: Mapping[str, Sequence[float]]) -> Seen:
    deltas = window.deltas
    requested = deltas.get("pg_stat_checkpointer", {}).get("num_requested")
    if requested is None:  # before 17
        requested = deltas["pg_stat_bgwriter"].get("checkpoints_req", 0.0)
    active = deltas["pg_stat_database"].get("active_time")  # since 14
    if window.statements is not None:
        active = sum(ms for _, ms in window.statements.values())
    known = active is not None and window.commits > 0
    return Seen(
        transactions=window.commits, mean_ms=(active or 0.0) / window.commits if known else None,
        requested=requested, waits=waits, deltas=deltas, series=series,
    )  # fmt: skip
