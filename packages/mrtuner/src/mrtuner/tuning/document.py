"""The advice as JSON: ``mrtuner.tune/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mrtuner.change.document import ChangePlan
from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType, convert, field
from mrtuner.tuning.advice import Input, ManualStep, Notice
from mrtuner.tuning.pgtune import PeerDifference
from mrtuner.tuning.query_plans import Side
from mrtuner.tuning.verdict import Basis

if TYPE_CHECKING:
    from mrtuner.tuning.advice import Advice, Recovery, Tuning
    from mrtuner.tuning.query_plans import ChangedPlan, Plans


class Entry(Struct):
    """One parameter with a rule."""

    name: Annotated[str, Doc("the parameter")]
    area: Annotated[str, Doc("sessions, buffers, wal, …")]
    verdict: Annotated[str, Doc("change, keep or unknown")]
    now: Annotated[
        str, Doc("the value in force; for a described machine, the default of the version")
    ]
    origin: Annotated[str, Doc("where `now` comes from")]
    value: Annotated[str, Doc("what it should be; empty if unknown")]
    unit: Annotated[str | None, Doc("the parameter's base unit")]
    suggestion: Annotated[bool, Doc("for you to decide: never applied, never in other formats")]
    written: Annotated[
        bool,
        Doc(
            "whether the other formats contain it: a change, or a value of a described machine "
            "that the budget depends on"
        ),
    ]
    reason: Annotated[str, Doc("why, in one sentence")]
    formula: Annotated[str | None, Doc("the value as an expression over the machine")]
    basis: Annotated[str, Doc("observed, measured, arithmetic or convention")]
    source: Annotated[str, Doc("where the rule comes from")]
    risk: Annotated[str, Doc("what can go wrong")]
    restart: Annotated[bool, Doc("whether a change needs a restart")]


class BudgetPart(Struct):
    """One part of the worst case."""

    name: Annotated[str, Doc("what needs the memory")]
    size: Annotated[int, Doc("bytes")] = field(name="bytes")
    how: Annotated[str, Doc("how it was computed")]


class MemoryBudget(Struct):
    """The worst case of the memory in use."""

    memory: Annotated[int, Doc("bytes of the machine or container")]
    ceiling: Annotated[int, Doc("bytes that PostgreSQL may use")]
    total: Annotated[int, Doc("bytes, all parts together")]
    parts: Annotated[list[BudgetPart], Doc("what the total consists of")]


class CrashRecovery(Struct):
    """What a crash may cost."""

    wal_bytes: Annotated[int, Doc("the most WAL to replay")]
    seconds_fast: Annotated[int, Doc("time to replay it at the higher rate")]
    seconds_slow: Annotated[int, Doc("time to replay it at the lower rate")]
    how: Annotated[str, Doc("how the amount was computed")]
    pace: Annotated[str, Doc("the evidence for the two rates")]


class MissingFact(Struct):
    """A fact that could not be read."""

    name: Annotated[str, Doc("the fact")]
    why: Annotated[str, Doc("why it could not be read")]
    supply: Annotated[str | None, Doc("how to supply it: the option, a sentence, or null")]
    option: Annotated[str | None, Doc("the option that supplies it, or null")] = None


class Setting(Struct):
    """One setting under which statements were explained."""

    name: Annotated[str, Doc("the parameter")]
    before: Annotated[str, Doc("the value in force")]
    after: Annotated[str, Doc("the advised value")]


class Statement(Struct):
    """A statement whose plan or cost changes."""

    id: Annotated[str, Doc("`queryid`, as text")]
    text: Annotated[str, Doc("the normalized statement")]
    role: Annotated[str | None, Doc("who ran it, if the role still exists")]
    calls: Annotated[int, Doc("number of executions")]
    seconds: Annotated[float, Doc("execution time of all calls together")]
    verdict: Annotated[str, Doc("better, worse, doubtful or other")]
    warning: Annotated[str | None, Doc("why to think twice")]
    before: Annotated[Side, Doc("under the settings in force")]
    after: Annotated[Side, Doc("under the advised settings")]
    by: Annotated[list[str], Doc("settings each of which causes this change alone")]
    also: Annotated[list[str], Doc("settings each of which causes a different change alone")]
    limits: Annotated[
        float | None,
        Doc(
            "cost after / before, both under the advised cost settings: "
            "the effect of raised or lowered limits"
        ),
    ]
    believed_now: Annotated[
        float | None, Doc("cost of the new plan / the old one, by the cost settings in force")
    ]
    believed_then: Annotated[float | None, Doc("the same, by the advised cost settings")]


class NotExplained(Struct):
    """A statement that could not be explained."""

    id: Annotated[str, Doc("`queryid`, as text")]
    text: Annotated[str, Doc("the normalized statement")]
    why: Annotated[str, Doc("the reason")]


class QueryPlans(Struct):
    """[Plans before and after](../how-to/compare-plans.md), with `--plans`."""

    asked: Annotated[int, Doc("statements asked for")]
    explained: Annotated[int, Doc("statements with both plans")]
    unchanged: Annotated[int, Doc("statements whose plan stays the same")]
    settings: Annotated[list[Setting], Doc("what was tried")]
    left_out: Annotated[list[str], Doc("parameters that a session cannot set")]
    changed: Annotated[list[Statement], Doc("statements whose plan or cost changes")]
    not_explained: Annotated[list[NotExplained], Doc("statements that could not be explained")]


class AppliedSide(ChangePlan):
    """How the advised settings were put into force for the measurement."""

    method: Annotated[Literal["ALTER SYSTEM"], Doc("how they were written")]
    put_back: Annotated[bool, Doc("whether everything was restored afterwards")]
    restarted: Annotated[bool, Doc("whether the server was restarted")]


class TuneDocument(Document, tag="mrtuner.tune/1"):
    """Written by `mrtuner tune --json`, `Tuning.to_dict()` and `as_("json")`."""

    postgres: Annotated[int, Doc("the major version advised for")]
    workload: Annotated[str, Doc("web, oltp, olap, mixed or desktop")]
    live: Annotated[bool, Doc("whether a running server was read")]
    given: Annotated[list[Input], Doc("the inputs")]
    advice: Annotated[list[Entry], Doc("one entry for each parameter with a rule")]
    budget: Annotated[MemoryBudget | None, Doc("null when the memory is unknown")]
    budget_now: Annotated[
        MemoryBudget | None,
        Doc("with the settings in force; null without a running server, or if memory is unknown"),
    ]
    recovery: Annotated[CrashRecovery | None, Doc("after a crash, or null")]
    notices: Annotated[list[Notice], Doc("what else is worth knowing")]
    steps: Annotated[list[ManualStep], Doc("what only a person can do")]
    missing: Annotated[list[MissingFact], Doc("facts that could not be read")]
    plans: Annotated[QueryPlans | UnsetType, Doc("only with `--plans`")] = UNSET
    pgtune: Annotated[
        list[PeerDifference] | UnsetType,
        Doc("where PgTune's value differs; only with `--compare pgtune`"),
    ] = UNSET
    pgtune_measured: Annotated[
        str | UnsetType | None,
        Doc("what the advice gained over PgTune's values, if that was measured on such a machine"),
    ] = UNSET


class ExplainedRule(Struct):
    """How MrTuner chooses the value."""

    area: Annotated[str, Doc("sessions, buffers, wal, …")]
    method: Annotated[str, Doc("how the value is chosen")]
    basis: Annotated[Basis, Doc("why the rule can be trusted")]
    source: Annotated[str, Doc("where the rule comes from")]
    risk: Annotated[str, Doc("what can go wrong")]
    suggestion: Annotated[bool, Doc("for you to decide: never applied")]


class DefaultOfVersions(Struct):
    """Consecutive major versions with the same default."""

    since: Annotated[int, Doc("the first major version")]
    until: Annotated[int, Doc("the last major version")]
    default: Annotated[
        str | None, Doc("the default; null if the server, initdb or the build determines it")
    ]


class ListedParameter(Struct):
    """A parameter with a rule."""

    name: Annotated[str, Doc("the parameter")]
    area: Annotated[str, Doc("sessions, buffers, wal, …")]
    summary: Annotated[str, Doc("one line about it")]


class ExplainDocument(Document, tag="mrtuner.explain/1"):
    """Written by `mrtuner explain NAME --json`; without a name, only with `parameters`."""

    postgres: Annotated[int, Doc("the major version")]
    parameters: Annotated[
        list[ListedParameter] | UnsetType, Doc("without a name: every parameter with a rule")
    ] = UNSET
    name: Annotated[str | UnsetType, Doc("the parameter")] = UNSET
    summary: Annotated[str | UnsetType, Doc("one line about it")] = UNSET
    type: Annotated[
        Literal["bool", "integer", "real", "enum", "string"] | UnsetType,
        Doc("as `pg_settings.vartype`"),
    ] = UNSET
    unit: Annotated[str | UnsetType | None, Doc("its base unit")] = UNSET
    min: Annotated[int | float | UnsetType | None, Doc("in the base unit")] = UNSET
    max: Annotated[int | float | UnsetType | None, Doc("in the base unit")] = UNSET
    values: Annotated[list[str] | UnsetType, Doc("of an enum, else empty")] = UNSET
    context: Annotated[str | UnsetType, Doc("how it can be changed, as `pg_settings.context`")] = (
        UNSET
    )
    restart: Annotated[bool | UnsetType, Doc("whether a change needs a restart")] = UNSET
    default: Annotated[
        str | UnsetType | None,
        Doc("as in a configuration file; null if the server, initdb or the build determines it"),
    ] = UNSET
    certainty: Annotated[
        Literal["server", "source"] | UnsetType,
        Doc("whether a running server of this version was read, or documentation and source"),
    ] = UNSET
    rule: Annotated[ExplainedRule | UnsetType | None, Doc("null without one")] = UNSET
    defaults: Annotated[list[DefaultOfVersions] | UnsetType, Doc("the default in each version")] = (
        UNSET
    )
    history: Annotated[list[str] | UnsetType, Doc("sentences, oldest first")] = UNSET


def tune_document(
    tuning: Tuning, plans: Plans | None = None, *, compared: bool = False
) -> TuneDocument:
    """Return the advice, the plans if statements were explained, and PgTune's if `compared`."""
    from mrtuner.tuning.pgtune import differences, measured_against

    return TuneDocument(
        postgres=tuning.situation.major,
        workload=tuning.situation.workload,
        live=tuning.situation.live,
        given=list(tuning.given),
        advice=[entry(one) for one in tuning.values()],
        budget=convert(tuning.budget, MemoryBudget) if tuning.budget else None,
        budget_now=convert(tuning.budget_now, MemoryBudget) if tuning.budget_now else None,
        recovery=_recovery(tuning.recovery) if tuning.recovery else None,
        notices=list(tuning.notices),
        steps=list(tuning.steps),
        missing=[convert(one, MissingFact) for one in tuning.missing],
        plans=query_plans(plans) if plans else UNSET,
        pgtune=list(differences(tuning)) if compared else UNSET,
        pgtune_measured=measured_against(tuning) if compared else UNSET,
    )


def entry(advice: Advice) -> Entry:
    return Entry(
        name=advice.name,
        area=advice.rule.area,
        verdict=type(advice.verdict).__name__.lower(),
        now=advice.current,
        origin=advice.origin,
        value=advice.value,
        unit=advice.parameter.unit,
        suggestion=advice.rule.suggestion,
        written=advice.written,
        reason=advice.reason,
        formula=advice.formula,
        basis=advice.basis,
        source=advice.rule.source,
        risk=advice.rule.risk,
        restart=advice.parameter.restart,
    )


def _recovery(recovery: Recovery) -> CrashRecovery:
    return CrashRecovery(
        wal_bytes=recovery.wal,
        seconds_fast=round(recovery.fast),
        seconds_slow=round(recovery.slow),
        how=recovery.how,
        pace=recovery.pace,
    )


def query_plans(plans: Plans) -> QueryPlans:
    """Return the plans of the most time-consuming statements."""
    return QueryPlans(
        asked=plans.asked,
        explained=plans.explained,
        unchanged=plans.unchanged,
        settings=[Setting(name=name, before=old, after=new) for name, old, new in plans.settings],
        left_out=list(plans.left_out),
        changed=[_statement(one) for one in plans.changed],
        not_explained=[
            NotExplained(id=str(one.statement.id), text=one.statement.text, why=one.why)
            for one in plans.not_explained
        ],
    )


def _statement(one: ChangedPlan) -> Statement:
    return Statement(
        id=str(one.statement.id),
        text=one.statement.text,
        role=one.statement.role,
        calls=one.statement.calls,
        seconds=one.statement.seconds,
        verdict=one.verdict,
        warning=one.warning,
        before=one.before,
        after=one.after,
        by=list(one.by),
        also=list(one.also),
        limits=one.limits,
        believed_now=one.believed_now,
        believed_then=one.believed_then,
    )
