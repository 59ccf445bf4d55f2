"""The least that each command must be allowed in IAM, as data, and as a policy document.

What a command calls is compared with what it called in the lab (tests/rds/test_rds_policy.py).
Sources: the Service Authorization Reference for Amazon RDS for the kinds of resource, the RDS
User Guide for cross-region copies. What AWS checks without being called for it is `implied`; it
cannot be seen in the lab, and rests on documents.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from mrtuner.errors import BadValue

SCHEMA: Final = "mrtuner.rds.policy/1"
#: Of the policy language. Source: IAM User Guide, JSON policy elements: Version.
_LANGUAGE: Final = "2012-10-17"

_GROUP: Final = "arn:{partition}:rds:{region}:{account}:pg:{group}"
_CLUSTER_GROUP: Final = "arn:{partition}:rds:{region}:{account}:cluster-pg:{group}"
_INSTANCE: Final = "arn:{partition}:rds:{region}:{account}:db:{instance}"
_CLUSTER: Final = "arn:{partition}:rds:{region}:{account}:cluster:{instance}"
_SOURCE: Final = "arn:{partition}:rds:{source}:{account}:snapshot:*"
_COPY: Final = "arn:{partition}:rds:{destination}:{account}:snapshot:mrtuner-{source}-*"
_SOURCE_KEY: Final = "arn:{partition}:kms:{source}:{account}:key/*"
_COPY_KEY: Final = "{key}"
_ANYTHING: Final = ("*",)


#: Sources: botocore's partitions.json, regionRegex; the RDS API, DBInstanceIdentifier and
#: DBParameterGroupName (a period in default groups only); the KMS API, KeyIdType. A star where
#: IAM takes one: anywhere in a name.
_REGION: Final = re.compile(r"\*|[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}")
_ACCOUNT: Final = re.compile(r"\*|[0-9]{12}")
_NAME: Final = re.compile(r"[A-Za-z0-9.*-]{1,255}")
_KEY: Final = re.compile(
    r"\*|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:(?:key|alias)/[A-Za-z0-9/_*-]+"
    r"|alias/[A-Za-z0-9/_-]+|[A-Za-z0-9-]+"
)


def _check(kind: str, text: str, shape: re.Pattern[str], hint: str) -> None:
    if not shape.fullmatch(text):
        raise BadValue(f"{text!r} is no {kind}", hint)


@dataclass(frozen=True, slots=True)
class Use:
    """One action that a command needs."""

    action: str
    on: tuple[str, ...] = _ANYTHING  # ARNs, with the fields of Scope in braces
    when: str = ""  # the option, or the kind of instance, that needs it
    implied: str = ""  # why AWS checks it although no call of ours names it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """On what the command may act; a star is everything.

    Refuses (BadValue) what cannot be such a name: it would end up in a policy that allows
    something else than was meant, or nothing.
    """

    regions: tuple[str, ...] = ()  # none: all
    account: str = "*"
    instance: str = "*"
    group: str = "*"
    source: str = "*"  # region that snapshots come from
    destination: str = "*"  # region that copies go to
    kms_key: str | None = None  # of the destination; an ARN or a key's id narrows the policy

    def __post_init__(self) -> None:
        for region in (*self.regions, self.source, self.destination):
            _check("region", region, _REGION, "Write one such as eu-central-1.")
        _check("account", self.account, _ACCOUNT, "Write its twelve digits.")
        for kind, name in (("instance", self.instance), ("parameter group", self.group)):
            _check(kind, name, _NAME, "Write letters, digits and hyphens; * stands for any.")
        key = "Write a key's id, its ARN or an alias such as alias/aws/rds."
        _check("KMS key", self.kms_key or "*", _KEY, key)

    @property
    def requested(self) -> tuple[str, ...]:
        """The regions to which calls may go: both, for a copy (User Guide)."""
        named = (*self.regions, self.source, self.destination)
        return tuple(dict.fromkeys(region for region in named if region != "*"))

    @property
    def fields(self) -> dict[str, str]:
        """What the braces of an ARN stand for."""
        partition = _partition(self.requested)
        return {
            "partition": partition,
            "region": self.regions[0] if len(self.regions) == 1 else "*",
            "account": self.account,
            "instance": self.instance,
            "group": self.group,
            "source": self.source,
            "destination": self.destination,
            "key": self._key(partition),
        }

    def _key(self, partition: str) -> str:
        """The key's ARN. An alias names none that IAM understands: any key of the region then."""
        key = self.kms_key or "*"
        if key.startswith("arn:") and ":key/" in key:
            return key
        name = "*" if key.startswith(("arn:", "alias/")) else key
        return f"arn:{partition}:kms:{self.destination}:{self.account}:key/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy document and what to know about it."""

    command: str
    uses: tuple[Use, ...]
    document: Mapping[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """Which actions only some uses need, and which nobody has seen in use."""
        optional = [f"{use.action} is needed for {use.when} only" for use in self.uses if use.when]
        implied = [f"{use.action}: {use.implied}" for use in self.uses if use.implied]
        return tuple(dict.fromkeys(optional + implied))

    def to_dict(self) -> dict[str, Any]:
        """The document of `rdstune policy --json`."""
        return {
            "schema": SCHEMA,
            "command": self.command,
            "policy": dict(self.document),
            "notes": list(self.notes),
        }


_CLUSTERS: Final = "clusters"
_REBOOT: Final = "--reboot now"
_NEW_CLASS: Final = "a class unknown to us"
_GRANT: Final = "kms:CreateGrant"
_ON_CREATION: Final = "checked by AWS where a call creates with tags (documents, not seen)"
_FOR_RDS: Final = "used by RDS on your behalf (documents, not seen)"

_LOOK_AT_GROUPS: Final = (
    Use("rds:DescribeDBInstances"),
    Use("rds:DescribeDBParameters"),
    Use("rds:DescribeDBClusters", when=_CLUSTERS),
    Use("rds:DescribeDBClusterParameters", when=_CLUSTERS),
)
_CHANGE_GROUPS: Final = (
    Use("rds:DescribeDBParameterGroups"),  # undo: after an apply that was cut off
    Use("rds:DescribeDBClusterParameterGroups", when=_CLUSTERS),
    Use("rds:ModifyDBParameterGroup", (_GROUP,)),
    Use("rds:ResetDBParameterGroup", (_GROUP,)),
    Use("rds:ModifyDBInstance", (_INSTANCE, _GROUP)),
    Use("rds:ModifyDBClusterParameterGroup", (_CLUSTER_GROUP,), when=_CLUSTERS),
    Use("rds:ResetDBClusterParameterGroup", (_CLUSTER_GROUP,), when=_CLUSTERS),
    Use("rds:ModifyDBCluster", (_CLUSTER, _CLUSTER_GROUP), when=_CLUSTERS),
    Use("rds:DeleteDBParameterGroup", (_GROUP,)),
    Use("rds:DeleteDBClusterParameterGroup", (_CLUSTER_GROUP,), when=_CLUSTERS),
    Use("rds:RebootDBInstance", (_INSTANCE,), when=_REBOOT),
    Use("rds:RebootDBCluster", (_CLUSTER,), when=_CLUSTERS),  # Multi-AZ ones, and --reboot now
)

#: What each command of `rdstune` needs; those that never call AWS need nothing.
COMMANDS: Final[Mapping[str, tuple[Use, ...]]] = {
    "show": (),
    "evaluate": (),
    "lint": (
        Use("rds:DescribeDBParameterGroups", when="a group, not a file"),
        Use("rds:DescribeDBParameters", when="a group, not a file"),
        Use("rds:DescribeDBClusterParameterGroups", when="--cluster"),
        Use("rds:DescribeDBClusterParameters", when="--cluster"),
    ),
    "diff": (*_LOOK_AT_GROUPS, Use("ec2:DescribeInstanceTypes", when=_NEW_CLASS)),
    "apply": (
        *_LOOK_AT_GROUPS,
        Use("ec2:DescribeInstanceTypes", when=_NEW_CLASS),
        Use("rds:CreateDBParameterGroup", (_GROUP,)),
        Use("rds:CreateDBClusterParameterGroup", (_CLUSTER_GROUP,), when=_CLUSTERS),
        *_CHANGE_GROUPS,
    ),
    "undo": (*_LOOK_AT_GROUPS, *_CHANGE_GROUPS),
    "render": (),
    "maintenance": (
        Use("rds:DescribeDBInstances"),
        Use("rds:DescribeDBClusters", when=_CLUSTERS),
        Use("rds:DescribePendingMaintenanceActions"),
    ),
    "maintenance rehearse": (
        Use("rds:DescribeDBInstances"),
        Use("rds:DescribeDBClusters", when=_CLUSTERS),
        Use("rds:RebootDBInstance", (_INSTANCE,)),
        Use("rds:DescribeEvents"),
        Use("rds:DescribePendingMaintenanceActions", when="--apply"),
        Use("rds:ApplyPendingMaintenanceAction", (_INSTANCE,), when="--apply"),
    ),
    "snapshots copy": (
        Use("rds:DescribeDBInstances"),
        Use("rds:DescribeDBSnapshots"),
        Use("rds:CopyDBSnapshot", (_SOURCE, _COPY)),
        Use("rds:AddTagsToResource", (_COPY,), implied=_ON_CREATION),
        Use("rds:DeleteDBSnapshot", (_COPY,), when="--keep"),
        Use("kms:DescribeKey", (_COPY_KEY,), when="--kms-key"),
        Use("kms:DescribeKey", (_SOURCE_KEY,), when="--kms-key", implied=_FOR_RDS),
        Use(_GRANT, (_SOURCE_KEY, _COPY_KEY), when="--kms-key", implied=_FOR_RDS),
    ),
    "snapshots template": (),
    "audit": (
        *_LOOK_AT_GROUPS,
        Use("ec2:DescribeRegions", when="--all-regions"),
        Use("ec2:DescribeInstanceTypes", when=_NEW_CLASS),
    ),
    "limits": (  # `mrtuner limits`
        Use("rds:DescribeDBInstances"),
        Use("cloudwatch:GetMetricData"),
        Use("ec2:DescribeRegions", when="--all-regions"),
    ),
    "policy": (),
    "lab": (),
}


def called(command: str) -> frozenset[str]:
    """The actions that the command itself calls."""
    return frozenset(use.action for use in uses(command) if not use.implied)


def uses(command: str, without: Collection[str] = ()) -> tuple[Use, ...]:
    """What a command needs, less what only some options need. BadValue for an unknown one."""
    if command not in COMMANDS:
        raise BadValue(f"no command {command!r}", f"Name one of: {', '.join(COMMANDS)}.")
    known = {use.when for use in COMMANDS[command] if use.when}
    for option in without:
        if option not in known:
            raise BadValue(
                f"nothing of {command} is needed for {option!r} only",
                f"Leave out one of: {', '.join(sorted(known)) or 'nothing'}.",
            )
    return tuple(use for use in COMMANDS[command] if use.when not in without)


def policy(command: str, scope: Scope = Scope(), without: Collection[str] = ()) -> Policy:
    """The policy for one command. BadValue when it is unknown, or needs nothing of AWS."""
    needed = uses(command, without)
    if not needed:
        raise BadValue(f"{command} calls nothing of AWS", "It needs no policy.")
    return Policy(
        command=command,
        uses=needed,
        document={"Version": _LANGUAGE, "Statement": list(_statements(needed, scope))},
    )


def _statements(needed: Iterable[Use], scope: Scope) -> Iterator[dict[str, Any]]:
    """Actions on the same resources share a statement; a grant has conditions of its own."""

    def key(use: Use) -> tuple[tuple[str, ...], bool]:
        return use.on, use.action == _GRANT

    for (on, grants), group in groupby(sorted(needed, key=key), key=key):
        actions = tuple(use.action for use in group)
        yield _statement(actions, on, _conditions(scope, grants=grants), scope)


def _statement(
    actions: Iterable[str], on: tuple[str, ...], conditions: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    resources = [arn.format(**scope.fields) for arn in on]
    statement = {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": resources[0] if len(resources) == 1 else resources,
    }
    return statement | ({"Condition": conditions} if conditions else {})


def _conditions(scope: Scope, *, grants: bool) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    if scope.requested:
        conditions["StringEquals"] = {"aws:RequestedRegion": list(scope.requested)}
    if grants:
        # Only grants that RDS asks for. Source: KMS guide, condition keys.
        conditions["Bool"] = {"kms:GrantIsForAWSResource": "true"}
    return conditions


def _partition(regions: Iterable[str]) -> str:
    """Source: botocore's endpoints.json."""
    for region in regions:
        if region.startswith("us-gov-"):
            return "aws-us-gov"
        if region.startswith("cn-"):
            return "aws-cn"
    return "aws"
