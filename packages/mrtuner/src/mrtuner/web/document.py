"""What the viewer's API answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mrtuner.checks.document import ExplainedCheck
from mrtuner.documents import Doc, Document, Struct
from mrtuner.history.analysis.series import ChartLine


class ChartLimit(Struct):
    """A level that the lines of a chart cannot or should not pass."""

    name: Annotated[str, Doc("what sets it")]
    value: Annotated[float, Doc("in the chart's unit")]
    reached: Annotated[bool, Doc("whether it held the load down; the table `remedies` says more")]


class Chart(Struct):
    """A chart over the steps of a screen."""

    name: Annotated[str, Doc("its name in addresses")]
    title: Annotated[str, Doc("what it shows")]
    help: Annotated[str, Doc("how to read it")]
    unit: Annotated[str, Doc("bytes/s, s, share, sessions, … of its values")]
    stacked: Annotated[bool, Doc("whether the lines add up")]
    series: Annotated[Sequence[ChartLine], Doc("the largest first")]
    before: Annotated[Sequence[ChartLine], Doc("the same in the period to compare with")]
    limits: Annotated[list[ChartLimit], Doc("drawn across")]
    bands: Annotated[
        list[tuple[float, float]], Doc("begin and end of the times at a limit, shaded")
    ]
    missing: Annotated[str | None, Doc("why it is empty; null: it is not")]


class TableColumn(Struct):
    """A column of a table."""

    name: Annotated[str, Doc("its name in JSON and CSV")]
    title: Annotated[str, Doc("its heading")]
    unit: Annotated[
        str,
        Doc("text, prose, integer, s, ms, bytes, share, time, moment, sql, statement, to:TABLE, …"),
    ]


class ScreenTable(Struct):
    """A table of a screen."""

    name: Annotated[str, Doc("its name in addresses")]
    title: Annotated[str, Doc("what it shows")]
    columns: Annotated[list[TableColumn], Doc("from left to right")]
    rows: Annotated[list[list[Any]], Doc("values in the order of the columns")]
    missing: Annotated[str | None, Doc("why it is empty; null: it is not")]


class ScreenChange(Struct):
    """A change, drawn as a line on every chart."""

    at: Annotated[float, Doc("seconds since 1970")]
    what: Annotated[str, Doc("setting, schema, restart, failover, upgrade, gap, …")]
    detail: Annotated[str, Doc("in words")]
    by: Annotated[str, Doc("who changed it, by MrTuner's journal; may be empty")]
    journal: Annotated[
        str | None, Doc("the journal's entry, for `change=` of the screen changes; null: none")
    ]


class ScreenIncident(Struct):
    """Something that went wrong in the period, and where it can be seen."""

    kind: Annotated[str, Doc("lock queue, connection storm, deadlocks, statement slower, event, …")]
    begin: Annotated[float, Doc("seconds since 1970")]
    end: Annotated[float, Doc("seconds since 1970")]
    text: Annotated[str, Doc("the same in one sentence, without the time")]
    screen: Annotated[str, Doc("the screen that shows it")]
    statement: Annotated[str, Doc("the identifier of the statement to open there; else empty")]
    shown: Annotated[tuple[float, float], Doc("begin and end of the period to open there")]


class ScreenStory(Struct):
    """What happened in the period: first what nobody recorded, then what went wrong."""

    unrecorded: Annotated[
        list[str], Doc("what could not be looked at, a sentence each; empty: everything was")
    ]
    incidents: Annotated[list[ScreenIncident], Doc("in the order of time; empty: none was found")]
    checks: Annotated[list[ExplainedCheck], Doc("how it is judged, from the catalogue of checks")]


class ScreenAnswer(Document, tag="mrtuner.screen/1"):
    """A screen of the viewer over one period of one instance."""

    screen: Annotated[str, Doc("its name")]
    title: Annotated[str, Doc("its title")]
    instance: Annotated[str, Doc("the instance")]
    begin: Annotated[float, Doc("of the period, seconds since 1970")]
    end: Annotated[float, Doc("of the period")]
    last: Annotated[float | None, Doc("the last sample of the instance, seconds since 1970")]
    step: Annotated[int, Doc("length of a step in seconds")]
    times: Annotated[list[int], Doc("when each step begins")]
    charts: Annotated[list[Chart], Doc("from top to bottom")]
    tables: Annotated[list[ScreenTable], Doc("below the charts")]
    changes: Annotated[list[ScreenChange], Doc("in the order of time")]
    damaged: Annotated[list[str], Doc("files of the store that were left out, with the reason")]
    story: Annotated[
        ScreenStory | None, Doc("what happened; null: another screen tells, the first of the menu")
    ] = None


class PlanAnswer(Document, tag="mrtuner.plan/1"):
    """The plan of a statement for any values, as the server explains it now."""

    instance: Annotated[str, Doc("whose server planned it")]
    database: Annotated[str, Doc("in which")]
    statement: Annotated[str, Doc("query identifier")]
    at: Annotated[float, Doc("when, seconds since 1970")]
    lines: Annotated[tuple[str, ...], Doc("as EXPLAIN prints them; costs are estimates")]


class FleetMember(Struct):
    """An instance of the store."""

    instance: Annotated[str, Doc("its name")]
    first: Annotated[float, Doc("the hour of its first sample, seconds since 1970")]
    last: Annotated[float, Doc("its last sample")]
    load: Annotated[float | None, Doc("active sessions on average in its last hour")]
    cpus: Annotated[int | None, Doc("CPUs of its host, if known")]
    tightest: Annotated[str | None, Doc("what is nearest to its limit in the last hour")]
    used: Annotated[float | None, Doc("share of that limit")]
    changes: Annotated[int, Doc("changes and events in its last day")]
    plans: Annotated[bool, Doc("whether its server can be asked for the plan of a statement")]


class ScreenName(Struct):
    """A screen that the viewer has."""

    name: Annotated[str, Doc("its name in addresses")]
    title: Annotated[str, Doc("its title")]
    help: Annotated[str, Doc("what it answers")]


class FleetAnswer(Document, tag="mrtuner.fleet/1"):
    """What a store holds."""

    directory: Annotated[str, Doc("the store")]
    version: Annotated[str, Doc("of MrTuner")]
    now: Annotated[float, Doc("seconds since 1970")]
    screens: Annotated[list[ScreenName], Doc("in the order of the menu")]
    instances: Annotated[list[FleetMember], Doc("the least headroom first")]
    records: Annotated[bool, Doc("whether benchmark records are shown, too")] = False
    login: Annotated[bool, Doc("whether the page asked for a password, so one can log out")] = False


class BenchmarkRecord(Struct):
    """A record of `mrtuner bench`, `prove` or `demo`."""

    name: Annotated[str, Doc("its path below the directory")]
    at: Annotated[float | None, Doc("when it began, seconds since 1970")]
    compared: Annotated[str, Doc("what was compared, and under which loads")]
    answer: Annotated[str, Doc("the result in a sentence")]
    verdict: Annotated[
        str | None, Doc("better, worse, equivalent or undecided; null: several, or unknown")
    ]
    error: Annotated[str | None, Doc("why it cannot be shown; null: it can")]


class RecordsAnswer(Document, tag="mrtuner.records/1"):
    """The benchmark records that `mrtuner serve --records` shows."""

    directory: Annotated[str, Doc("where they are")]
    records: Annotated[list[BenchmarkRecord], Doc("the latest first")]


class Serving(Document, tag="mrtuner.serving/1"):
    """The address of a viewer that is running."""

    address: Annotated[str, Doc("of the page; the API is below it, at api/")]
    directory: Annotated[str, Doc("the store")]


class Deployed(Document, tag="mrtuner.deployed/1"):
    """The files that were written to be deployed."""

    directory: Annotated[str, Doc("where it was written")]
    history: Annotated[str, Doc("the history on S3 that it shows")]
    python: Annotated[str, Doc("version of Python of the functions")]
    architecture: Annotated[str, Doc("arm64 or x86_64")]
    bytes: Annotated[int, Doc("of the functions' package, unzipped")]
