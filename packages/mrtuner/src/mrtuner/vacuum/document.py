"""Vacuum as JSON: ``mrtuner.vacuum/1``, and what was set, ``mrtuner.vacuum.change/1``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from mrtuner.change.document import ChangeOutcome
from mrtuner.documents import Doc, Document, NotJudged, Struct, convert, field
from mrtuner.vacuum.classify import lifetime
from mrtuner.vacuum.model import (
    HorizonBlocker,
    Rates,
    ServerSetting,
    StorageParameter,
    Table,
    TableKind,
    ToastAmplification,
    Work,
    WraparoundDistance,
)
from mrtuner.vacuum.sample import TableComparison
from mrtuner.vacuum.server_settings import VacuumCapacity

if TYPE_CHECKING:
    from mrtuner.change.record import Outcome, ParameterChange
    from mrtuner.vacuum.assess import Vacuum
    from mrtuner.vacuum.model import TableReport


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRates(Rates):
    """What happened to a table, per second."""

    # field() makes it one in place of the parent's property, which would be its default.
    dead: Annotated[float, Doc("dead rows for vacuum to remove")] = dataclasses.field()


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRound(Work):
    """One cycle of a table: from one vacuum to the next."""

    busy: Annotated[float | None, Doc("share of one worker's time")] = dataclasses.field()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry(Table):
    """One table; counters are the server's, since the last reset of statistics."""

    lifetime: Annotated[float | None, Doc("of a row on average; null where nothing is deleted")]
    rates: Annotated[TableRates, Doc("what happened to it")]
    kind: Annotated[TableKind, Doc("what the table is to vacuum")]
    because: Annotated[str, Doc("the figures that make it so")]
    advice: Annotated[list[StorageParameter], Doc("what to set")]
    hints: Annotated[list[str], Doc("what else to do, a sentence each")]
    now: Annotated[VacuumRound, Doc("vacuum with the present settings")]
    then: Annotated[VacuumRound, Doc("vacuum with the advice in force")]
    toast_now: Annotated[
        VacuumRound | None, Doc("vacuum of the TOAST table with the present settings, or null")
    ]
    amplification: Annotated[
        ToastAmplification | None, Doc("null without a TOAST table or with too few updates")
    ]


class VacuumDocument(Document, tag="mrtuner.vacuum/1"):
    """One database.

    Written by `mrtuner vacuum --json` and `Vacuum.to_dict()`. Times are seconds, rates per second,
    ages in transactions, sizes in pages, costs in the units of `vacuum_cost_limit`.
    """

    database: Annotated[str, Doc("its name")]
    version_num: Annotated[int, Doc("`server_version_num`")]
    watched: Annotated[
        float | None,
        Doc("how long; null: rates are averages since the last reset of statistics, or recorded"),
    ]
    recorded: Annotated[bool, Doc("whether rates are of each table's busiest day in a history")]
    chunk: Annotated[int, Doc("bytes of a TOAST chunk of this server")]
    capacity: Annotated[VacuumCapacity, Doc("whether vacuum keeps up")]
    settings: Annotated[list[ServerSetting], Doc("what to change in the server")]
    tables: Annotated[
        list[TableEntry], Doc("those with advice first, then those with the most dead rows")
    ]
    blockers: Annotated[list[HorizonBlocker], Doc("what holds back dead rows, the worst first")]
    wraparound: Annotated[list[WraparoundDistance], Doc("how far the counters have come")]
    proofs: Annotated[list[TableComparison], Doc("with `--sample`: rows that were compared")]
    missing: Annotated[list[NotJudged], Doc("what could not be read")]
    unjudged: Annotated[list[NotJudged], Doc("what could change the verdict")] = field(
        default_factory=list
    )


class PlannedParameter(Struct):
    """A storage parameter of the plan."""

    name: Annotated[
        str,
        Doc(
            '`"schema"."table" parameter`, quoted as in SQL; `toast.` begins the parameters of a '
            "TOAST table"
        ),
    ]
    before: Annotated[str | None, Doc("its value before; null: unset")]
    after: Annotated[str | None, Doc("its value afterwards; null: unset")]


class VacuumChangeDocument(Document, tag="mrtuner.vacuum.change/1"):
    """Storage parameters set or undone.

    Written by `mrtuner vacuum apply --json` and `mrtuner vacuum undo --json`.
    """

    recovered: Annotated[
        ChangeOutcome | None, Doc("what became of an interrupted change; null without one")
    ]
    plan: Annotated[list[PlannedParameter], Doc("what was to be set")]
    outcome: Annotated[
        ChangeOutcome, Doc("what was set; `left` also names parameters whose table is gone")
    ]
    undo: Annotated[str | None, Doc("the command that takes it back, or null")]


def vacuum_document(found: Vacuum) -> VacuumDocument:
    """Return what vacuum needs in one database."""
    picture = found.picture
    return VacuumDocument(
        database=picture.database,
        version_num=picture.version_num,
        watched=found.watched,
        recorded=found.recorded,
        chunk=picture.chunk,
        capacity=found.capacity,
        settings=list(found.settings),
        tables=[_table(one) for one in found.tables],
        blockers=list(picture.blockers),
        wraparound=list(found.wraparound),
        proofs=list(found.proofs),
        missing=[convert(one, NotJudged) for one in picture.missing],
        unjudged=[convert(one, NotJudged) for one in found.unjudged],
    )


def _table(one: TableReport) -> TableEntry:
    told = {
        **asdict(one.table),
        "lifetime": lifetime(one.table, one.rates),
        "rates": one.rates,
        "kind": one.kind,
        "because": one.because,
        "advice": one.advice,
        "hints": one.hints,
        "now": one.now,
        "then": one.then,
        "toast_now": one.toast_now,
        "amplification": one.amplification,
    }
    return convert(told, TableEntry)


def change_document(
    recovered: Outcome | None,
    entries: Sequence[ParameterChange],
    outcome: Outcome,
    undo: str | None,
) -> VacuumChangeDocument:
    """Return what was set or undone."""
    return VacuumChangeDocument(
        recovered=convert(recovered, ChangeOutcome) if recovered else None,
        plan=[convert(one, PlannedParameter) for one in entries],
        outcome=convert(outcome, ChangeOutcome),
        undo=undo,
    )
