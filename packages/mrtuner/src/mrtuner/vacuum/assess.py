"""From data to advice: `vacuum` for a server, `judge` for a picture of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.facts import Missing
from mrtuner.postgres.model import Platform
from mrtuner.postgres.quoting import literal
from mrtuner.vacuum.classify import FEW, classify
from mrtuner.vacuum.horizon_blockers import USUAL, Thresholds, distortion
from mrtuner.vacuum.model import (
    Picture,
    Rates,
    ServerSetting,
    Table,
    TableKind,
    TableReport,
    Work,
    WraparoundDistance,
)
from mrtuner.vacuum.pace import work_of, work_of_toast
from mrtuner.vacuum.rates import UNSEEN, since_made, since_reset, watched
from mrtuner.vacuum.sample import ColumnVerdict, TableComparison, prove, settled, take, unproven
from mrtuner.vacuum.server_settings import COST_LIMIT, SWITCHES, VacuumCapacity, capacity
from mrtuner.vacuum.storage_parameters import advise, options_after, toast_options_after
from mrtuner.vacuum.toast import amplification
from mrtuner.vacuum.wraparound import wraparound

#: Below this share of HOT updates, a table's indexes grow with every update.
_LITTLE_HOT: Final = 0.5
_OFTEN: Final = 1.0  # updates per second


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """What `mrtuner vacuum` found in one database."""

    picture: Picture
    watched: float | None  # [s]; None: rates since the last reset of statistics, or recorded
    recorded: bool  # whether rates are those of each table's busiest day in a history
    tables: tuple[TableReport, ...]
    settings: tuple[ServerSetting, ...]
    capacity: VacuumCapacity
    wraparound: tuple[WraparoundDistance, ...]
    proofs: tuple[TableComparison, ...] = ()  # for tables whose rows were compared
    distorted: Missing | None = None  # why neither pace nor fillfactor is advised

    @property
    def to_do(self) -> bool:
        """Whether there is anything to set, to remove, or to change in an application."""
        serious = any(one.serious for one in self.picture.blockers)
        waste = any(
            column.verdict is ColumnVerdict.REWRITTEN
            for one in self.proofs
            for column in one.columns
        )
        advice = any(one.advice for one in self.tables)
        return bool(self.settings) or serious or waste or advice or not self.capacity.keeps_up

    @property
    def unjudged(self) -> tuple[Missing, ...]:
        """What could change the verdict if it were known.

        A table with few writes is left out: it cannot keep vacuum busy.
        """
        from mrtuner.vacuum.read import DETAILS

        reset = tuple(
            Missing(f"{one.table.schema}.{one.table.name}", one.because, option="--watch again")
            for one in self.tables if not one.rates.seconds
        )  # fmt: skip
        unsized = tuple(
            Missing(f"{one.table.schema}.{one.table.name}", _UNSIZED, hint="Run ANALYZE on it.")
            for one in self.tables
            if _unsized(one.table) and one.rates.dead and one.rates.events >= FEW
        )
        distorted = () if self.distorted is None else (self.distorted,)
        missing = (one for one in self.picture.missing if one.name not in DETAILS)
        return (*distorted, *missing, *reset, *unsized)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json, as `mrtuner.vacuum.document` describes it."""
        from mrtuner.documents import as_builtins
        from mrtuner.vacuum.document import vacuum_document

        return as_builtins(vacuum_document(self))

    def as_sql(self) -> str:
        """Return the advice as commands, with the reasons as comments."""
        from mrtuner.vacuum.commands import commands

        return commands(self)

    def as_conf(self) -> str:
        """Return the server's part as a configuration file for `mrtuner apply --from`."""
        from mrtuner.vacuum.commands import conf

        return conf(self)


def vacuum(
    dsn: str,
    *,
    watch: float | None = None,
    sample: Sequence[str] = (),
    sleep: Callable[[float], None] = time.sleep,
    thresholds: Thresholds = USUAL,
    recorded: Mapping[tuple[str, int], Rates] | None = None,
) -> Vacuum:
    """Advise autovacuum settings for the database at `dsn`, from rates.

    With `watch` [s], rates are measured over that time; without, they are averages since the last
    reset of statistics, or as `recorded`, by database and oid. Only reads. Locks no tables except
    those in `sample`, written as in SQL: of these, rows with large values are read and compared
    before and after the watch; name them only with their owner's consent. What holds back vacuum is
    reported from `thresholds` on. If the server goes down during the watch, the watch ends and
    `Vacuum.picture.lost` says so. Raises ConnectError without a usable session, UsageError for an
    invalid string or a table that cannot be read.
    """
    from mrtuner.postgres.connect import connect
    from mrtuner.vacuum.read import read

    if sample and watch is None:
        raise UsageError(
            "comparing rows needs a watch",
            "Add one, such as --watch 5min (Python: watch=300).",
        )
    with connect(dsn) as conn:
        taken = [take(conn, table) for table in sample]
        picture = read(conn, watch, sleep=sleep, thresholds=thresholds)
        found = judge(picture, None if recorded is None else _of_database(recorded, picture))
        if found.picture.lost is not None:
            why = "the connection to the server was lost before the rows were read again"
            return _compared(found, tuple(unproven(one, why) for one in taken))
        again = {one.table.oid: one.amplification.rewritten
                 for one in found.tables if one.amplification}  # fmt: skip
        return _compared(found, tuple(prove(conn, one, again) for one in taken))


def _of_database(
    recorded: Mapping[tuple[str, int], Rates], picture: Picture
) -> Mapping[int, Rates]:
    found = {oid: rates for (name, oid), rates in recorded.items() if name == picture.database}
    if not found:
        raise UsageError(
            f"no change of a table of database {picture.database} was recorded",
            "Connect to the database that was recorded, or leave out the history.",
        )
    return found


def _compared(found: Vacuum, proofs: tuple[TableComparison, ...]) -> Vacuum:
    """The verdict, updated by what comparing rows has settled."""
    by_oid = {one.oid: one for one in proofs}

    def told(one: TableReport) -> TableReport:
        proof = by_oid.get(one.table.oid)
        if proof is None or one.amplification is None:
            return one
        return replace(one, amplification=settled(one.amplification, proof))

    return replace(found, proofs=proofs, tables=tuple(map(told, found.tables)))


def judge(picture: Picture, recorded: Mapping[int, Rates] | None = None) -> Vacuum:
    """Return what a picture of a database means, without reading or querying anything.

    Rates by oid that were `recorded` replace those of the picture.

    If the server's cost limit should be raised, tables are judged again under the new one, since
    it may allow more frequent vacuums.
    """
    first = _judged(picture, picture.settings, recorded)
    raised = next((one for one in first.settings if one.name == COST_LIMIT), None)
    if raised is None:
        return first
    second = _judged(picture, {**picture.settings, COST_LIMIT: raised.value}, recorded)
    return second if second.capacity.keeps_up or not first.capacity.keeps_up else first


def _judged(
    picture: Picture, planned: Mapping[str, str], recorded: Mapping[int, Rates] | None
) -> Vacuum:
    """The verdict once the server's settings are as planned."""
    samples = picture.samples
    rates = recorded
    highest: Mapping[int, Rates] = {}
    if rates is None and len(samples) > 1:
        rates = watched(samples)
    elif rates is None:
        rates, highest = since_reset(samples[0]), since_made(samples[0])
    distorted = None if recorded is not None else distortion(picture)
    reports = tuple(
        _report(
            picture, table, rates.get(table.oid, UNSEEN), highest.get(table.oid), planned, distorted
        )
        for table in samples[-1].tables
    )
    toast_then = [
        work
        for one in reports
        if one.rates.toast_deletes > 0 and (work := _toast_then(one, planned)) is not None
    ]
    found, settings = capacity(reports, toast_then, picture.settings)
    costs = costs_unknown(picture)
    if costs is not None:
        found = replace(found, used=None, used_then=None, keeps_up=True, words=_COSTS_UNKNOWN)
    if distorted is not None or costs is not None:
        settings = tuple(one for one in settings if one.name in SWITCHES)
    seconds = samples[-1].moment.at - samples[0].moment.at
    return Vacuum(
        picture=picture,
        watched=seconds if len(samples) > 1 else None,
        recorded=recorded is not None,
        tables=tuple(sorted(reports, key=_weight, reverse=True)),
        settings=tuple(_with_remedy(one, picture.platform) for one in settings),
        capacity=found,
        wraparound=wraparound(picture),
        distorted=distorted,
    )


_COSTS_UNKNOWN: Final = "the cost limit that autovacuum uses is not known"


def costs_unknown(picture: Picture) -> Missing | None:
    """Return why the cost limit that autovacuum uses is not known; None if it is."""
    from mrtuner.vacuum.read import COSTS

    return next((one for one in picture.missing if one.name == COSTS), None)


def _with_remedy(one: ServerSetting, platform: Platform) -> ServerSetting:
    plain = one.value.isalpha() or one.value.isdecimal()
    value = one.value if plain else literal(one.value)
    return replace(one, remedy=str(platform.remedy(one.restart, **{one.name: value})))


def _report(
    picture: Picture,
    table: Table,
    rates: Rates,
    highest: Rates | None,
    planned: Mapping[str, str],
    distorted: Missing | None,
) -> TableReport:
    kind, because = classify(table, rates, highest)
    advice = advise(table, rates, kind, planned, dead=distorted is None)
    now = work_of(table, rates, picture.settings)
    stays = not advice and planned is picture.settings
    return TableReport(
        table=table,
        rates=rates,
        kind=kind,
        because=because,
        advice=advice,
        hints=(
            *_hints(picture, table, rates, kind, dead=distorted is None),
            *_hints_of_age(table, kind, highest, advised=bool(advice)),
        ),
        now=now,
        then=now if stays else work_of(table, rates, planned, options_after(table, advice)),
        toast_now=work_of_toast(table, rates, picture.settings),
        amplification=amplification(table, rates),
    )


def _toast_then(one: TableReport, planned: Mapping[str, str]) -> Work | None:
    options = toast_options_after(one.table, one.advice)
    return work_of_toast(one.table, one.rates, planned, options)


def _weight(one: TableReport) -> tuple[bool, float, int]:
    """Sort key: tables with advice, then by dead rows per second, then by size."""
    return bool(one.advice), one.rates.dead + one.rates.toast_deletes, one.table.pages


_UNSIZED: Final = (
    "not vacuumed or analyzed since it was made or truncated, so its size and the time to vacuum "
    "it are not known"
)


def _unsized(table: Table) -> bool:
    return not table.pages and table.live > 0


def _hints(
    picture: Picture, table: Table, rates: Rates, kind: TableKind, *, dead: bool
) -> Iterator[str]:
    if _unsized(table):
        yield _UNSIZED
    if dead:
        yield from _fillfactor(table, rates)
    if kind is TableKind.RELOADED:
        yield "end each load with VACUUM (ANALYZE), so that queries need not wait for autovacuum"
    forced = int(picture.settings.get("autovacuum_freeze_max_age", 200_000_000))
    if kind is TableKind.STATIC and table.age > forced / 2 and table.pages:
        yield "its rows do not change: VACUUM (FREEZE) in a quiet hour avoids the forced one"


def _hints_of_age(
    table: Table, kind: TableKind, highest: Rates | None, *, advised: bool
) -> Iterator[str]:
    if highest is not None and kind is TableKind.UNKNOWN and highest.events >= FEW:
        yield "its rates are averages over a time in which it may not have existed: use --watch"
    if table.parent is not None and advised:
        yield (
            f"the next partition of {table.parent} does not inherit this: set it where partitions "
            "are made"
        )


def _fillfactor(table: Table, rates: Rates) -> Iterator[str]:
    """Suggest a fillfactor, only as a hint: it affects new pages only, and costs space."""
    if rates.hot_share is None or rates.hot_share >= _LITTLE_HOT or rates.updates < _OFTEN:
        return
    if "fillfactor" in table.options or not table.indexes:
        return
    if rates.newpage_share is None:
        yield (
            f"only {rates.hot_share:.0%} of updates are HOT: fillfactor 90 helps if pages are "
            "full, but not if indexed columns change"
        )
    elif rates.newpage_share >= _LITTLE_HOT:
        yield (
            f"{rates.newpage_share:.0%} of updates find no room in their page: fillfactor 90 "
            "leaves some in new pages (in old ones only after VACUUM FULL or pg_repack)"
        )
    else:
        yield (
            f"only {rates.hot_share:.0%} of updates are HOT although pages have room, so indexed "
            "columns change: is every index needed?"
        )
