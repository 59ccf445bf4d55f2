"""The kind of outage that a maintenance task is likely to cause, with AWS's own figures.

Figures are AWS's, and they cover the failover itself, not what clients see: a client that does
not notice the failover, or does not reconnect, is out for longer. Where AWS gives no figure,
neither do we.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

from mrtuner.aws.rows import Instance
from mrtuner.described import Doc, document_name


class Deployment(StrEnum):
    """How an instance is kept available."""

    SINGLE = "single-AZ"
    MULTI_AZ = "Multi-AZ instance"
    CLUSTER = "Multi-AZ DB cluster"
    AURORA = "Aurora with a replica"
    AURORA_ALONE = "Aurora without a replica"

    @property
    def fails_over(self) -> bool:
        return self not in (Deployment.SINGLE, Deployment.AURORA_ALONE)


class OutageKind(StrEnum):
    """What happens to clients."""

    NONE = "no outage"
    FAILOVER = "one failover"
    RESTART = "a restart"
    THROUGHOUT = "down throughout"
    SLOW = "no outage, but slower"
    UNKNOWN = "not known"


class Evidence(StrEnum):
    """How well a statement is supported."""

    DOCUMENTED = "documented"
    INFERRED = "inferred"  # follows from what is documented
    EXPERIENCE = "experience"  # seen once
    UNVERIFIED = "not verified"  # general knowledge


@document_name("ExpectedOutage")
@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The expected outage: its kind, AWS's figure [s] if any, a description, and the sources."""

    kind: Annotated[OutageKind, Doc("what happens to clients")]
    words: Annotated[str, Doc("in words")]
    source: Annotated[str, Doc("where the figure or the statement comes from")]
    evidence: Annotated[Evidence, Doc("how well it is supported")]
    low: Annotated[int | None, Doc("AWS's lower figure [s]; null without one")] = None
    high: Annotated[int | None, Doc("AWS's upper figure [s]; null without one")] = None

    @property
    def figure(self) -> str | None:
        """The figure as text, ``60 to 120 s`` or ``under 35 s``; None without a figure."""
        if self.high is None:
            return None
        return f"{self.low} to {self.high} s" if self.low else f"under {self.high} s"


_GUIDE: Final = "Amazon RDS User Guide"
_API: Final = "RDS API 2014-10-31, ModifyDBInstance"

FAILOVERS: Final[Mapping[Deployment, Outage]] = {
    Deployment.MULTI_AZ: Outage(
        kind=OutageKind.FAILOVER,
        low=60,
        high=120,
        words="typically 60 to 120 s, longer with large transactions or a long recovery; every "
        "connection is dropped and the endpoint switches to the other copy",
        source=f"{_GUIDE}, failing over a Multi-AZ DB instance",
        evidence=Evidence.DOCUMENTED,
    ),
    Deployment.CLUSTER: Outage(
        kind=OutageKind.FAILOVER,
        high=35,
        words="typically under 35 s, depending on the readers' lag; every connection to the "
        "writer is dropped",
        source=f"{_GUIDE}, failing over a Multi-AZ DB cluster",
        evidence=Evidence.DOCUMENTED,
    ),
    Deployment.AURORA: Outage(
        kind=OutageKind.FAILOVER,
        high=60,
        words="under 60 s, often under 30; a reader is promoted and every connection to the "
        "writer is dropped",
        source="Amazon Aurora User Guide, high availability",
        evidence=Evidence.DOCUMENTED,
    ),
}

REBOOT: Final = Outage(
    kind=OutageKind.RESTART,
    words="AWS gives no figure: it takes as long as the shutdown, and the recovery from the last "
    "checkpoint",
    source=f"{_GUIDE}, rebooting a DB instance",
    evidence=Evidence.DOCUMENTED,
)

_PATCH_ALONE: Final = Outage(
    kind=OutageKind.RESTART,
    words="an operating system update takes about 10 minutes; a forced patch in 2016 took 10 to "
    "15 minutes in all, with less than a minute of downtime, and longer when many instances were "
    "patched at once",
    source=f"{_GUIDE}, operating system updates; a report from 2016",
    evidence=Evidence.EXPERIENCE,
)
_HARDWARE_ALONE: Final = Outage(
    kind=OutageKind.THROUGHOUT,
    words="the instance is unavailable while it moves; AWS gives no figure",
    source=f"{_GUIDE}, maintaining a DB instance",
    evidence=Evidence.INFERRED,
)
_UPGRADE: Final = Outage(
    kind=OutageKind.THROUGHOUT,
    words="both copies are upgraded together, so Multi-AZ does not shorten it; AWS gives no figure",
    source=f"{_GUIDE}, upgrading the engine version of a Multi-AZ DB instance",
    evidence=Evidence.DOCUMENTED,
)
_UPGRADE_ALONE: Final = Outage(
    kind=OutageKind.THROUGHOUT,
    words="down while the engine is upgraded; AWS gives no figure",
    source=f"{_API}, EngineVersion",
    evidence=Evidence.DOCUMENTED,
)
_UPGRADE_CLUSTER: Final = replace(
    FAILOVERS[Deployment.CLUSTER],
    words="a minor version: the readers are upgraded one by one, then one of them becomes the "
    "writer, which is like a failover; a major version: down throughout",
    source=f"{_GUIDE}, upgrading the engine version of a Multi-AZ DB cluster",
)
_CERTIFICATE: Final = Outage(
    kind=OutageKind.RESTART,
    words="a restart, unless this engine version rotates certificates without one "
    "(SupportsCertificateRotationWithoutRestart); clients that verify certificates need the new "
    "authority first",
    source="RDS API 2014-10-31, CertificateRotationRestart and DescribeDBEngineVersions",
    evidence=Evidence.DOCUMENTED,
)
_NOT_KNOWN: Final = Outage(
    kind=OutageKind.UNKNOWN,
    words="not documented, as far as we know; be ready for a restart",
    source="",
    evidence=Evidence.INFERRED,
)


def deployment(instance: Instance, members: int = 0) -> Deployment:
    """Return how an instance is kept available; `members` is the size of its cluster."""
    if instance.engine.startswith("aurora"):
        return Deployment.AURORA if members > 1 else Deployment.AURORA_ALONE
    if instance.cluster:
        return Deployment.CLUSTER
    return Deployment.MULTI_AZ if instance.multi_az else Deployment.SINGLE


def of_failover(where: Deployment) -> Outage:
    """Return the outage of a failover, or of a restart where nothing can take over."""
    return FAILOVERS.get(where, REBOOT)


def of_action(action: str, where: Deployment) -> Outage:
    """Return the outage of a pending maintenance action, by its name in the API."""
    rule = _ACTIONS.get(action)
    return _NOT_KNOWN if rule is None else rule(where)


def of_change(field: str, where: Deployment) -> Outage:
    """Return the outage of a change in PendingModifiedValues, by the name of its field."""
    rule = _CHANGES.get(field)
    return _NOT_KNOWN if rule is None else rule(where)


def _patch(where: Deployment) -> Outage:
    """Return a patch's outage: the standby goes first, so clients see only the failover."""
    return FAILOVERS[where] if where is Deployment.MULTI_AZ else _spared(where, _PATCH_ALONE)


def _spared(where: Deployment, alone: Outage) -> Outage:
    """Return a failover where another copy can take over, though AWS does not promise one here."""
    if where not in FAILOVERS:
        return alone
    return replace(FAILOVERS[where], evidence=Evidence.INFERRED)


def _upgrade(where: Deployment) -> Outage:
    if where is Deployment.CLUSTER:
        return _UPGRADE_CLUSTER
    return _UPGRADE if where is Deployment.MULTI_AZ else _UPGRADE_ALONE


def _always(outage: Outage) -> Callable[[Deployment], Outage]:
    return lambda _where: outage


_ACTIONS: Final[Mapping[str, Callable[[Deployment], Outage]]] = {
    "system-update": _patch,
    "os-upgrade": _patch,
    "hardware-maintenance": partial(_spared, alone=_HARDWARE_ALONE),
    "db-upgrade": _upgrade,
    "ca-certificate-rotation": _always(_CERTIFICATE),
}


def _documented(kind: OutageKind, field: str, words: str) -> Callable[[Deployment], Outage]:
    return _always(
        Outage(
            kind=kind, words=words, source=f"{_API}, {field}", evidence=Evidence.DOCUMENTED
        )
    )  # fmt: skip


_NEW_CLASS_ALONE: Final = Outage(
    kind=OutageKind.THROUGHOUT,
    words="down while the instance moves to its new class; AWS gives no figure",
    source=f"{_API}, DBInstanceClass",
    evidence=Evidence.DOCUMENTED,
)


_NO_OUTAGE: Final = "AWS says that it causes no outage"
_MIGRATION: Final = (
    "the instance stays available, but may be slower for days; during that time, no other change, "
    "reboot or nightly backup is possible"
)
_CHANGES: Final[Mapping[str, Callable[[Deployment], Outage]]] = {
    "DBInstanceClass": partial(_spared, alone=_NEW_CLASS_ALONE),
    "EngineVersion": _upgrade,
    "Port": _documented(
        OutageKind.RESTART, "DBPortNumber", "the database restarts and listens on another port"
    ),
    "DBInstanceIdentifier": _documented(
        OutageKind.RESTART, "NewDBInstanceIdentifier", "a reboot, and the endpoint's name changes"
    ),
    "BackupRetentionPeriod": _documented(
        OutageKind.SLOW,
        "BackupRetentionPeriod",
        "turning backups on or off can suspend I/O for seconds to minutes",
    ),
    "MultiAZ": _documented(OutageKind.NONE, "MultiAZ", _NO_OUTAGE),
    "MasterUserPassword": _documented(OutageKind.NONE, "MasterUserPassword", _NO_OUTAGE),
    "Iops": _documented(OutageKind.NONE, "Iops", _NO_OUTAGE),
    "AllocatedStorage": _always(
        Outage(
            kind=OutageKind.NONE,
            words="usually none; storage is optimised for hours afterwards",
            source="",
            evidence=Evidence.UNVERIFIED,
        )
    ),
    "StorageType": _documented(OutageKind.SLOW, "StorageType", _MIGRATION),
    "CACertificateIdentifier": _always(_CERTIFICATE),
}
