"""Is an instance of RDS all right, as far as AWS tells? For `mrtuner check rds:NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mrtuner.checks.areas.recorded import ceiling, filling
from mrtuner.checks.areas.storage import nearly_full
from mrtuner.checks.catalogue import Addition, CannotJudge, Located, added, check
from mrtuner.facts import Missing
from mrtuner.findings import Finding, Severity
from mrtuner.postgres.platform import managed
from rdstune.check.read import InstanceSeen, read

if TYPE_CHECKING:
    from mrtuner.checks.state import Added

_NAME: Final = "rds"
_GUIDE: Final = "RDS User Guide"
_DAY: Final = 86_400.0
#: Maintenance that AWS does by itself is worth knowing this long before [s]; chosen.
_SOON: Final = 14 * _DAY
_SHOWN: Final = 5


def _located(seen: InstanceSeen) -> Located:
    """The instance's endpoint, and the memory and CPUs of its class if that is known."""
    from mrtuner.catalog.classes import instance_class
    from mrtuner.errors import BadValue
    from mrtuner.formula.class_memory import class_memory
    from mrtuner.inputs import MachineInputs
    from mrtuner.limits.ceilings import AURORA

    one = seen.instance
    machine: MachineInputs = {"storage": "ebs"}
    try:
        kind = instance_class(one.class_name)
    except BadValue:
        pass
    else:
        machine |= {"memory": class_memory(kind, one.engine).low, "cpus": kind.vcpus}
    return Located(
        dsn=f"host={one.host} port={one.port or 5432}" if one.host else None,
        machine=machine, instead_of=frozenset({"free-space", "memory-overcommitted"}),
        platform=managed(
            "aurora" if one.engine.startswith(AURORA) else "rds", "rds:DescribeDBInstances"
        ),
    )  # fmt: skip


ADDITION: Final = Addition(read=read, locate=_located)


def _part(state: Added, part: str) -> Any:
    """A part of what AWS tells; CannotJudge if it could not be read."""
    found = getattr(added(state, _NAME), part)
    if isinstance(found, Missing):
        raise CannotJudge(found.why, found.supply)
    return found


@check(
    "rds-status",
    judged="DBInstanceStatus is not that of an instance at rest, or of one that AWS works on",
    source=f"{_GUIDE}, Viewing DB instance status",
    remedy="What its status asks for: start it, enlarge its storage, repair its group, network or "
    "key.",
    needs=(_NAME,),
)
def rds_status(state: Added) -> Iterator[Finding]:
    """RDS says that the instance does not serve, or will stop: its storage is full, its parameters
    or its network do not fit, it failed or was stopped. Only of rds:NAME.
    """
    one = _part(state, "instance")
    if one.status in _REMEDIES:
        yield Finding(
            id="rds-status", severity=Severity.DANGER, text=f"{one.identifier} is {one.status}",
            consequence="clients cannot use it", harm_in=0.0, basis="rds:DescribeDBInstances, now",
            remedy=(_REMEDIES[one.status],),
        )  # fmt: skip
    elif one.status not in _SERVES | _AT_WORK:
        raise CannotJudge(
            f"{one.identifier} is {one.status}, a status unknown to MrTuner",
            "Read its events: rds:DescribeEvents.",
        )


#: Statuses of an instance that serves. Source of all: RDS User Guide, Viewing DB instance status.
_SERVES: Final = frozenset({
    "available", "backing-up", "configuring-enhanced-monitoring", "configuring-iam-database-auth",
    "configuring-log-exports", "storage-config-upgrade", "storage-initialization",
    "storage-optimization",
})  # fmt: skip
#: Statuses of an instance that AWS works on. It may not serve meanwhile.
_AT_WORK: Final = frozenset({
    "converting-to-vpc", "creating", "delete-precheck", "deleting", "maintenance", "modifying",
    "moving-to-vpc", "rebooting", "renaming", "resetting-master-credentials", "starting",
    "stopping", "upgrading",
})  # fmt: skip
#: Statuses of an instance that does not serve.
_REMEDIES: Final = {
    "failed": "Restore it to the latest restorable time, from its backups",
    "incompatible-network": "Repair the subnets or security group that its events name",
    "incompatible-option-group": "Repair the option group that its events name",
    "incompatible-parameters": "rdstune apply finds the parameter that keeps it from starting",
    "incompatible-restore": "Restore again, with options that the snapshot allows",
    "inaccessible-encryption-credentials": "Enable its KMS key: without it, the data are lost",
    "inaccessible-encryption-credentials-recoverable": "Enable its KMS key again, and start it",
    "insufficient-capacity": "Modify its class to one that its availability zone has, or wait",
    "restore-error": "Restore again",
    "stopped": "Start it: AWS does so by itself after seven days",
    "storage-full": "Enlarge its storage: rds:ModifyDBInstance, AllocatedStorage",
}


@check(
    "rds-group",
    judged="on the instance's class, the group's worst case exceeds the memory, and that of AWS's "
    "defaults by 5 % of it; or the server would refuse a value; or RDS could not apply one",
    source="docs: the memory budget; ParameterApplyStatus failed-to-apply",
    remedy="Values that fit: rdstune diff, then rdstune apply.",
    needs=(_NAME,),
)
def rds_group(state: Added) -> Iterator[Finding]:
    """The parameter group does not fit the instance that uses it. Only of rds:NAME."""
    row = _part(state, "group")
    judged = row.assessment
    if judged.overcommitted is not None:
        yield Finding(
            id="rds-group", severity=Severity.DANGER,
            text=f"with group {row.group}, sessions can ask for {judged.overcommitted:.1f} times "
            f"the memory of {row.class_name}",
            consequence="if they do, RDS restarts the server, and every session is lost",
            cost=1 - 1 / max(1.0, judged.overcommitted), basis="the group's values on this class",
            remedy=(f"rdstune diff {row.instance}, then rdstune apply {row.instance}",),
        )  # fmt: skip
    if judged.outside:
        yield Finding(
            id="rds-group", severity=Severity.DANGER,
            text=f"group {row.group} has values that the server refuses on {row.class_name}",
            consequence="the next start fails: incompatible-parameters",
            evidence=judged.outside[:_SHOWN], basis="the group's values on this class",
            remedy=(f"rdstune diff {row.instance}, then rdstune apply {row.instance}",),
        )  # fmt: skip
    if row.apply_status == "failed-to-apply":
        yield Finding(
            id="rds-group", severity=Severity.TO_DO,
            text=f"RDS could not apply the values of group {row.group}",
            consequence="the server runs with others than the group's",
            basis="ParameterApplyStatus, now",
            remedy=("Read the instance's events, which name the value",),
        )  # fmt: skip
    if judged.unknown is not None:
        raise CannotJudge(judged.unknown)


@check(
    "rds-waiting",
    judged="ParameterApplyStatus is pending-reboot, or there are PendingModifiedValues",
    source=f"{_GUIDE}, Working with parameter groups",
    remedy="Reboot at a time of your own, or take the change back.",
    needs=(_NAME,),
)
def rds_waiting(state: Added) -> Iterator[Finding]:
    """Somebody changed something that is not in force: the next restart or window puts it into
    force, whenever that is. Only of rds:NAME.
    """
    row = _part(state, "group")
    if row.apply_status == "pending-reboot":
        yield Finding(
            id="rds-waiting", severity=Severity.TO_KNOW,
            text=f"values of group {row.group} wait for a reboot of {row.instance}",
            consequence="the next restart, planned or not, changes them",
            basis="ParameterApplyStatus, now",
            remedy=("Reboot at a time of your own, or take the change back: rdstune undo",),
        )  # fmt: skip
    if row.pending:
        yield Finding(
            id="rds-waiting", severity=Severity.TO_KNOW,
            text=f"{', '.join(row.pending)} of {row.instance} will change in its window",
            consequence="some of these changes restart the server",
            basis="PendingModifiedValues, now",
            remedy=(f"rdstune maintenance {row.instance}, which tells when, and the outage",),
        )  # fmt: skip


@check(
    "rds-maintenance",
    judged="AWS applies a maintenance action by itself within 14 days",
    source="RDS API: PendingMaintenanceAction; the time is chosen",
    remedy="Choose when: rdstune maintenance.",
    needs=(_NAME,),
)
def rds_maintenance(state: Added) -> Iterator[Finding]:
    """Maintenance that nobody asked for is due soon, often with an outage. Only of rds:NAME."""
    upkeep = _part(state, "upkeep")
    now = datetime.now(UTC)
    for one in upkeep.work:
        if one.origin != "pending maintenance action" or one.expected is None:
            continue
        left = (one.expected - now).total_seconds()
        if left <= _SOON:
            yield Finding(
                id="rds-maintenance", severity=Severity.TO_KNOW,
                text=f"AWS applies {one.what} at {one.expected:%Y-%m-%d %H:%M} UTC: "
                f"{one.description}",
                consequence=f"{one.outage.kind}: {one.outage.words}", harm_in=max(0.0, left),
                basis=f"rds:DescribePendingMaintenanceActions: {one.because}",
                remedy=(f"rdstune maintenance {upkeep.identifier}",),
            )  # fmt: skip


@check(
    "rds-backups-off",
    judged="BackupRetentionPeriod is 0, and it is no read replica",
    source=f"{_GUIDE}, Introduction to backups",
    remedy="Keep backups for some days.",
    needs=(_NAME,),
)
def rds_backups_off(state: Added) -> Iterator[Finding]:
    """RDS makes no backups of the instance, and cannot restore it to a point in time. Only of
    rds:NAME.
    """
    one = _part(state, "instance")
    if one.backup_retention == 0 and one.replica_of is None and one.cluster is None:
        how = " --apply-immediately  # a short pause of I/O"
        if one.pending:  # a new class, an upgrade: ModifyDBInstanceMessage, ApplyImmediately
            names = ", ".join(one.pending)
            how = f"  # in its window; --apply-immediately would start {names} as well"
        yield Finding(
            id="rds-backups-off", severity=Severity.TO_DO,
            text=f"automated backups of {one.identifier} are off",
            consequence="what is deleted by mistake, or lost with the volume, cannot be restored",
            basis="BackupRetentionPeriod, now",
            remedy=(
                f"aws rds modify-db-instance --db-instance-identifier {one.identifier} "
                f"--backup-retention-period 7{how}",
            ),
        )  # fmt: skip


@check(
    "rds-storage",
    judged="less than 10 % (danger: 5 %, or 1 GB) of the storage is free, or it is full within a "
    "week (danger: a day) at the pace of the last day",
    source="CloudWatch, FreeStorageSpace; shares and times are chosen",
    remedy="Enlarge its storage, or let RDS do so.",
    needs=(_NAME,),
)
def rds_storage(state: Added) -> Iterator[Finding]:
    """The instance's storage is nearly full, or fills up: RDS stops it when it is full. Only of
    rds:NAME.
    """
    found = _part(state, "free")
    if found is None:
        return
    source = "CloudWatch: FreeStorageSpace"
    full = list(nearly_full("rds-storage", found.mount, found.free, found.size, source))
    yield from full or filling("rds-storage", [found])


@check(
    "rds-ceiling-reached",
    judged="the load of the last day ran flat at a hard limit of the class or the volume",
    source="mrtuner limits: docs, Find the limit",
    remedy="A larger class or volume, or less load, as mrtuner limits compares them.",
    needs=(_NAME,),
)
def rds_ceiling_reached(state: Added) -> Iterator[Finding]:
    """A hard limit of the class or volume held the load down. Only of rds:NAME."""
    yield from ceiling("rds-ceiling-reached", _part(state, "limits"), "CloudWatch")
