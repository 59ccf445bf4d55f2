"""The documents about instances: audit, maintenance, rehearsals, copies of snapshots, policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from mrtuner.documents import UNSET, Doc, Document, Struct, UnsetType, field
from mrtuner.rehearsal.document import ClientOutage, ProbedRun, in_millis, probe_log, rounded
from rdstune.fleet.audit import AuditFinding
from rdstune.fleet.maintenance import Origin
from rdstune.fleet.outage import Deployment, Outage
from rdstune.fleet.snapshot_copy import SnapshotCopy
from rdstune.fleet.stagger import WindowClash

if TYPE_CHECKING:
    from rdstune.fleet.audit import AuditRow, Failure, Surveyed
    from rdstune.fleet.maintenance import Upkeep, Work
    from rdstune.fleet.rehearsal import RehearsalPlan, Run
    from rdstune.fleet.rehearsal_report import Phases
    from rdstune.fleet.snapshot_copy import Report
    from rdstune.fleet.stagger import CalendarEntry, Move

# The audit.


class AuditedInstance(Struct):
    """One instance."""

    region: Annotated[str, Doc("where it is")]
    instance: Annotated[str, Doc("its identifier")]
    class_name: Annotated[str, Doc("its class, such as db.r6g.xlarge")] = field(name="class")
    engine: Annotated[str, Doc("postgres or aurora-postgresql")]
    version: Annotated[str, Doc("the engine's")]
    status: Annotated[str, Doc("as AWS gives it")]
    multi_az: Annotated[bool, Doc("whether AWS says that it is Multi-AZ")]
    cluster: Annotated[str | None, Doc("the cluster that it belongs to")]
    group: Annotated[str, Doc("its parameter group; for a member of a cluster, the cluster's")]
    apply_status: Annotated[str, Doc("ParameterApplyStatus of the group")]
    pending: Annotated[list[str], Doc("names of PendingModifiedValues")]
    memory: Annotated[int | None, Doc("DBInstanceClassMemory, the least it can be [bytes]")]
    worst_case: Annotated[int | None, Doc("memory that the group's values may take [bytes]")]
    share: Annotated[float | None, Doc("`worst_case` / `memory`")]
    outside: Annotated[list[str], Doc("values that the server would refuse on this class")]
    drift: Annotated[list[str], Doc("parameters for which we would advise quite another value")]
    unknown: Annotated[str | None, Doc("why it could not be judged")]
    note: Annotated[str | None, Doc("what the assessment is based on, if unusual")]
    findings: Annotated[
        list[AuditFinding], Doc("as in [the table](../how-to/audit-a-fleet.md), the worst first")
    ]


class FailedRegion(Struct):
    """A region that could not be read completely."""

    region: Annotated[str, Doc("its name")]
    error: Annotated[str, Doc("what went wrong")]
    hint: Annotated[str | None, Doc("what to do")]


class AuditDocument(Document, tag="mrtuner.rds.audit/1"):
    """Written by `rdstune audit --json`."""

    regions: Annotated[list[str], Doc("those that were read completely")]
    others: Annotated[int, Doc("instances of other engines, left out")]
    instances: Annotated[list[AuditedInstance], Doc("by region and name")]
    failures: Annotated[list[FailedRegion], Doc("regions that were not read completely")]


def audit_document(
    rows: Sequence[AuditRow], surveyed: Sequence[Surveyed], failures: Sequence[Failure]
) -> AuditDocument:
    return AuditDocument(
        regions=sorted(one.region for one in surveyed),
        others=sum(one.others for one in surveyed),
        instances=[audited_instance(row) for row in rows],
        failures=[
            FailedRegion(region=one.region, error=one.error.message, hint=one.error.hint)
            for one in failures
        ],
    )


def audited_instance(row: AuditRow) -> AuditedInstance:
    judged = row.assessment
    return AuditedInstance(
        region=row.region,
        instance=row.instance,
        class_name=row.class_name,
        engine=row.engine,
        version=row.version,
        status=row.status,
        multi_az=row.multi_az,
        cluster=row.cluster,
        group=row.group,
        apply_status=row.apply_status,
        pending=list(row.pending),
        memory=judged.memory,
        worst_case=judged.worst,
        share=rounded(judged.share),
        outside=list(judged.outside),
        drift=list(judged.drift),
        unknown=judged.unknown,
        note=row.note,
        findings=list(row.findings),
    )


# Maintenance.


class PendingWork(Struct):
    """Something that waits to be done to an instance."""

    what: Annotated[str, Doc("AWS's action, the field that changes, or the parameter group")]
    origin: Annotated[Origin, Doc("the list of AWS that it is on")]
    description: Annotated[str, Doc("AWS's, or ours")]
    expected: Annotated[str | None, Doc("when it will begin; null: nothing is known to bring it")]
    because: Annotated[str, Doc("why then, or why no time can be given")]
    auto_applied_after: Annotated[str | None, Doc("AutoAppliedAfterDate")]
    forced_apply: Annotated[str | None, Doc("ForcedApplyDate")]
    current_apply: Annotated[str | None, Doc("CurrentApplyDate")]
    opt_in: Annotated[str | None, Doc("OptInStatus")]
    outage: Annotated[Outage, Doc("what clients will see of it")]


class MaintainedInstance(Struct):
    """One instance, its windows and what waits. Windows are as AWS writes them."""

    instance: Annotated[str, Doc("its identifier")]
    class_name: Annotated[str, Doc("its class")] = field(name="class")
    engine: Annotated[str, Doc("with its version")]
    status: Annotated[str, Doc("as AWS gives it")]
    deployment: Annotated[Deployment, Doc("how it is kept available")]
    cluster: Annotated[str | None, Doc("the cluster that it belongs to")]
    window: Annotated[str | None, Doc("PreferredMaintenanceWindow")]
    backup_window: Annotated[str | None, Doc("PreferredBackupWindow")]
    next_window: Annotated[
        str | None, Doc("when the next maintenance window begins, or the one now open began")
    ]
    windows_collide: Annotated[bool, Doc("whether the two windows overlap")]
    work: Annotated[list[PendingWork], Doc("what waits")]


class WindowMove(Struct):
    """A new window for an instance."""

    instance: Annotated[str, Doc("its identifier")]
    now: Annotated[str, Doc("its window")]
    to: Annotated[str | None, Doc("the new window; null: the week has no room")]
    command: Annotated[str | None, Doc("the command that moves it; null without a new window")]


class WindowCalendar(Struct):
    """The windows of instances that belong together."""

    gap: Annotated[int, Doc("minutes that there should be between two windows")]
    clashes: Annotated[list[WindowClash], Doc("windows that are closer")]
    moves: Annotated[list[WindowMove], Doc("what would keep them apart")]


class MaintenanceDocument(Document, tag="mrtuner.rds.maintenance/1"):
    """Written by `rdstune maintenance --json`. Times are ISO 8601, UTC."""

    now: Annotated[str, Doc("when AWS was asked")]
    instances: Annotated[list[MaintainedInstance], Doc("by name")]
    calendar: Annotated[WindowCalendar, Doc("whether related instances take turns")]


def maintenance_document(
    found: Sequence[Upkeep], places: Sequence[CalendarEntry], *, gap: int, now: datetime
) -> MaintenanceDocument:
    """Return the pending work of instances, and the calendar of their windows."""
    from rdstune.fleet.stagger import clashes, staggered

    return MaintenanceDocument(
        now=now.isoformat(),
        instances=[_maintained(one) for one in found],
        calendar=WindowCalendar(
            gap=gap,
            clashes=list(clashes(places, gap=gap)),
            moves=[_move(one) for one in staggered(places, gap=gap)],
        ),
    )


def _maintained(one: Upkeep) -> MaintainedInstance:
    return MaintainedInstance(
        instance=one.identifier,
        class_name=one.instance.class_name,
        engine=f"{one.instance.engine} {one.instance.engine_version}",
        status=one.instance.status,
        deployment=one.deployment,
        cluster=one.instance.cluster,
        window=_text(one.window),
        backup_window=_text(one.backup),
        next_window=None if one.next_window is None else one.next_window.start.isoformat(),
        windows_collide=one.windows_collide,
        work=[pending_work(work) for work in one.work],
    )


def pending_work(work: Work) -> PendingWork:
    return PendingWork(
        what=work.what,
        origin=work.origin,
        description=work.description,
        expected=_iso(work.expected),
        because=work.because,
        auto_applied_after=_iso(work.auto_applied_after),
        forced_apply=_iso(work.forced_apply),
        current_apply=_iso(work.current_apply),
        opt_in=work.opt_in,
        outage=work.outage,
    )


def _move(one: Move) -> WindowMove:
    return WindowMove(
        instance=one.identifier, now=str(one.now), to=_text(one.to), command=one.command
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _text(window: object | None) -> str | None:
    return None if window is None else str(window)


# The rehearsal.


class RehearsalPhases(Struct):
    """Timings in seconds after the request to RDS; null: it did not happen."""

    up: Annotated[float | None, Doc("how long the database stayed up")]
    first_failure: Annotated[float | None, Doc("the first error that a client got")]
    first_read: Annotated[float | None, Doc("the first answered query on a new connection")]
    first_write: Annotated[float | None, Doc("the first acknowledged write on a new connection")]
    available: Annotated[float | None, Doc("RDS said that the instance is available again")]
    clients: Annotated[list[ClientOutage], Doc("each kind of client that noticed anything")]


class ReportedMark(Struct):
    """Something that RDS reported."""

    at: Annotated[float, Doc("seconds since the first probe")]
    text: Annotated[str, Doc("the status, or the event's message")]
    origin: Annotated[str, Doc("status or event")]
    by_aws_clock: Annotated[bool, Doc("`at` is by AWS's clock; false: when it was read")]


class RehearsalRun(ProbedRun):
    """One time that the instance was taken down; seconds since the first probe."""

    verdict: Annotated[str, Doc("one sentence")]
    phases: Annotated[RehearsalPhases, Doc("the turning points")]
    marks: Annotated[list[ReportedMark], Doc("what RDS reported")]
    zone: Annotated[str | None, Doc("Availability Zone afterwards")]
    why_nothing: Annotated[str | UnsetType, Doc("only if nothing went away: what to look at")] = (
        UNSET
    )


class RehearsalDocument(Document, tag="mrtuner.rds.rehearsal/1"):
    """Written by `rdstune maintenance rehearse --json`."""

    instance: Annotated[str, Doc("the instance that was taken down")]
    class_name: Annotated[str, Doc("its class")] = field(name="class")
    engine: Annotated[str, Doc("with its version")]
    deployment: Annotated[Deployment, Doc("how it is kept available")]
    zone: Annotated[str | None, Doc("Availability Zone before it")]
    what: Annotated[str, Doc("what was done")]
    expected: Annotated[Outage, Doc("the outage to expect, according to AWS")]
    endpoint: Annotated[str, Doc("where RDS was asked")]
    aws: Annotated[bool, Doc("whether that is AWS itself")]
    cautions: Annotated[list[str], Doc("what makes it doubtful that probes saw this instance")]
    went_away: Annotated[bool, Doc("whether anything happened that a client could notice")]
    runs: Annotated[list[RehearsalRun], Doc("one for each time")]
    expectations: Annotated[list[str], Doc("what to be ready for in production")]
    limits: Annotated[list[str], Doc("what this does not show")]


def rehearsal_document(
    drawn: RehearsalPlan,
    runs: Sequence[Run],
    *,
    endpoint: str,
    aws: bool,
    cautions: Sequence[str] = (),
) -> RehearsalDocument:
    """Return the whole rehearsal, from which its page is made."""
    from rdstune.fleet.rehearsal_report import expectations, limits

    return RehearsalDocument(
        instance=drawn.instance.identifier,
        class_name=drawn.instance.class_name,
        engine=f"{drawn.instance.engine} {drawn.instance.engine_version}",
        deployment=drawn.deployment,
        zone=drawn.instance.zone,
        what=drawn.what,
        expected=drawn.expected,
        endpoint=endpoint,
        aws=aws,
        cautions=list(cautions),
        went_away=any(run.observation.went_away for run in runs),
        runs=[_run(run) for run in runs],
        expectations=list(expectations(drawn, runs, aws=aws)),
        limits=list(limits(drawn, runs, aws=aws)),
    )


def _run(run: Run) -> RehearsalRun:
    from rdstune.fleet.rehearsal_report import phases, verdict, why_nothing

    return RehearsalRun(
        asked=round(run.asked, 3),
        accepted=round(run.accepted, 3),
        settled=run.settled,
        observation=probe_log(run.observation),
        verdict=verdict(run),
        phases=_phases(phases(run)),
        marks=[
            ReportedMark(
                at=round(mark.at, 3),
                text=mark.text,
                origin=mark.origin,
                by_aws_clock=mark.by_their_clock,
            )
            for mark in run.marks
        ],
        zone=run.zone,
        why_nothing=UNSET if run.observation.went_away else why_nothing(run),
    )


def _phases(found: Phases) -> RehearsalPhases:
    return RehearsalPhases(
        up=rounded(found.up),
        first_failure=rounded(found.first_failure),
        first_read=rounded(found.first_read),
        first_write=rounded(found.first_write),
        available=rounded(found.available),
        clients=[in_millis(one, ClientOutage) for one in found.outages_by_client],
    )


# Copies of snapshots.


class SnapshotsDocument(Document, tag="mrtuner.rds.snapshots/1"):
    """Written by `rdstune snapshots copy --json`; also what the Lambda function returns."""

    source: Annotated[str, Doc("region of the snapshots")] = field(name="from")
    destination: Annotated[str, Doc("region of the copies")] = field(name="to")
    keep: Annotated[int | None, Doc("copies to keep of each instance; null: all")]
    ok: Annotated[bool, Doc("whether nothing failed")]
    copies: Annotated[list[SnapshotCopy], Doc("by instance")]
    deleted: Annotated[list[str], Doc("copies beyond `keep`")]
    failures: Annotated[list[str], Doc("of retention, and instances named without a snapshot")]
    notes: Annotated[list[str], Doc("instances not named that have nothing to copy")]


def snapshots_document(report: Report) -> SnapshotsDocument:
    return SnapshotsDocument(
        source=report.job.source,
        destination=report.job.destination,
        keep=report.job.keep,
        ok=report.ok,
        copies=list(report.copies),
        deleted=list(report.deleted),
        failures=list(report.failures),
        notes=list(report.notes),
    )


# Policies.


class PolicyDocument(Document, tag="mrtuner.rds.policy/1"):
    """Written by `rdstune policy --json`."""

    command: Annotated[str, Doc("the command that it is for")]
    document: Annotated[dict[str, Any], Doc("the IAM policy, in IAM's own words")] = field(
        name="policy"
    )
    notes: Annotated[list[str], Doc("what only some uses need, and what has not been seen in use")]
