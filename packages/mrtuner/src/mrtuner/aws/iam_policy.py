"""The minimal IAM permissions of each command, as data and as a policy document.

Tests compare them with the calls that each command makes in the lab
(packages/rdstune/tests/test_rds_policy.py, packages/mrtuner/tests/web/test_viewer_s3.py).
Sources: the Service Authorization Reference for Amazon RDS and Amazon S3 for the resource types,
the RDS User Guide for cross-region copies. Actions that AWS checks although we do not call them are
`implied`; the lab cannot show them, so they come from the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from mrtuner.errors import BadValue

#: Version of the policy language. Source: IAM User Guide, JSON policy elements: Version.
_LANGUAGE: Final = "2012-10-17"

_GROUP: Final = "arn:{partition}:rds:{region}:{account}:pg:{group}"
_CLUSTER_GROUP: Final = "arn:{partition}:rds:{region}:{account}:cluster-pg:{group}"
_INSTANCE: Final = "arn:{partition}:rds:{region}:{account}:db:{instance}"
_CLUSTER: Final = "arn:{partition}:rds:{region}:{account}:cluster:{instance}"
_SOURCE: Final = "arn:{partition}:rds:{source}:{account}:snapshot:*"
_COPY: Final = "arn:{partition}:rds:{destination}:{account}:snapshot:mrtuner-{source}-*"
_SOURCE_KEY: Final = "arn:{partition}:kms:{source}:{account}:key/*"
_COPY_KEY: Final = "{key}"
_BUCKET: Final = "arn:{partition}:s3:::{bucket}"
_OBJECTS: Final = "arn:{partition}:s3:::{bucket}/{prefix}*"
_ANYTHING: Final = ("*",)


#: Sources: botocore's partitions.json, regionRegex; the RDS API, DBInstanceIdentifier and
#: DBParameterGroupName (a period in default groups only); the KMS API, KeyIdType. A star is
#: allowed where IAM allows one: anywhere in a name.
_REGION: Final = re.compile(r"\*|[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}")
_ACCOUNT: Final = re.compile(r"\*|[0-9]{12}")
_NAME: Final = re.compile(r"[A-Za-z0-9.*-]{1,255}")
_KEY: Final = re.compile(
    r"\*|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:(?:key|alias)/[A-Za-z0-9/_*-]+"
    r"|alias/[A-Za-z0-9/_-]+|[A-Za-z0-9-]+"
)
_BUCKET_NAME: Final = re.compile(r"[a-z0-9.*-]{1,63}")
#: Excludes characters that IAM reads as a wildcard or a variable.
_PREFIX: Final = re.compile(r"\*|[^*?$]*")


def _check(kind: str, text: str, shape: re.Pattern[str], hint: str) -> None:
    if not shape.fullmatch(text):
        raise BadValue(f"{text!r} is not a valid {kind}", hint)


@dataclass(frozen=True, slots=True)
class Use:
    """One action that a command needs."""

    action: str
    on: tuple[str, ...] = _ANYTHING  # ARNs, with the fields of Scope in braces
    when: str = ""  # the option or kind of instance that needs it
    implied: str = ""  # why AWS checks it although we do not call it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The resources that the command may act on; a star means all.

    Raises BadValue for an impossible name: the policy would allow something other than intended,
    or nothing.
    """

    regions: tuple[str, ...] = ()  # none: all
    account: str = "*"
    instance: str = "*"
    group: str = "*"
    source: str = "*"  # region that snapshots come from
    destination: str = "*"  # region that copies go to
    kms_key: str | None = None  # in the destination; an ARN or a key's id narrows the policy
    bucket: str = "*"  # of a history on S3
    prefix: str = "*"  # of its objects; empty, or with a slash at its end

    def __post_init__(self) -> None:
        for region in (*self.regions, self.source, self.destination):
            _check("region", region, _REGION, "Use a region name such as eu-central-1.")
        _check("account ID", self.account, _ACCOUNT, "An account ID has twelve digits.")
        for kind, name in (("instance", self.instance), ("parameter group", self.group)):
            hint = "Use letters, digits and hyphens; * matches any characters."
            _check(f"{kind} name", name, _NAME, hint)
        key = "Use a key ID, an ARN or an alias such as alias/aws/rds."
        _check("bucket name", self.bucket, _BUCKET_NAME, "Use the name alone, without s3://.")
        _check("prefix", self.prefix, _PREFIX, "Use a prefix without *, ? and $.")
        _check("KMS key", self.kms_key or "*", _KEY, key)

    @property
    def requested(self) -> tuple[str, ...]:
        """The regions that calls may go to: for a copy, both (User Guide); empty for any."""
        one_is_any = (self.source == "*") is not (self.destination == "*")
        return () if one_is_any and not self.regions else self._named

    @property
    def _named(self) -> tuple[str, ...]:
        named = (*self.regions, self.source, self.destination)
        return tuple(dict.fromkeys(region for region in named if region != "*"))

    @property
    def fields(self) -> dict[str, str]:
        """Return the values of the fields in braces in an ARN."""
        partition = _partition(self._named)
        return {
            "partition": partition,
            "region": self.regions[0] if len(self.regions) == 1 else "*",
            "account": self.account,
            "instance": self.instance,
            "group": self.group,
            "source": self.source,
            "destination": self.destination,
            "key": self._key(partition),
            "bucket": self.bucket,
            "prefix": self.prefix.removesuffix("*"),
        }

    def _key(self, partition: str) -> str:
        """Return the key's ARN; for an alias, which IAM cannot match, any key in the region."""
        key = self.kms_key or "*"
        if key.startswith("arn:") and ":key/" in key:
            return key
        name = "*" if key.startswith(("arn:", "alias/")) else key
        return f"arn:{partition}:kms:{self.destination}:{self.account}:key/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy document and notes on it."""

    command: str
    uses: tuple[Use, ...]
    document: Mapping[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """The actions that only some uses need, and those that were never observed."""
        optional = [f"{use.action} is needed only for {use.when}" for use in self.uses if use.when]
        implied = [f"{use.action}: {use.implied}" for use in self.uses if use.implied]
        return tuple(dict.fromkeys(optional + implied))


_CLUSTERS: Final = "clusters"
_REBOOT: Final = "--reboot now"
_NEW_CLASS: Final = "a class unknown to us"
_GRANT: Final = "kms:CreateGrant"
_ON_CREATION: Final = "checked by AWS when tags are set on creation (documented, not observed)"
_LIST: Final = "s3:ListBucket"
_FOR_S3: Final = "used by S3 on your behalf (documented, not observed)"
_FOR_RDS: Final = "used by RDS on your behalf (documented, not observed)"

_LOOK_AT_GROUPS: Final = (
    Use("rds:DescribeDBInstances"),
    Use("rds:DescribeDBParameters"),
    Use("rds:DescribeDBClusters", when=_CLUSTERS),
    Use("rds:DescribeDBClusterParameters", when=_CLUSTERS),
)
_CHANGE_GROUPS: Final = (
    Use("rds:DescribeDBParameterGroups"),  # undo: after an apply that was interrupted
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

_READ_HISTORY: Final = (
    Use(_LIST, (_BUCKET,)),
    Use("s3:GetObject", (_OBJECTS,)),
    Use("kms:Decrypt", (_COPY_KEY,), when="--kms-key", implied=_FOR_S3),
)

#: What each command of `rdstune` needs; commands that never call AWS are absent.
ACTIONS_BY_COMMAND: Final[Mapping[str, tuple[Use, ...]]] = {
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
        Use("rds:DescribePendingMaintenanceActions", when="--action"),
        Use("rds:ApplyPendingMaintenanceAction", (_INSTANCE,), when="--action"),
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
    "check": (  # `mrtuner check rds:NAME`
        *_LOOK_AT_GROUPS,
        Use("rds:DescribePendingMaintenanceActions"),
        Use("cloudwatch:GetMetricData"),
        Use("ec2:DescribeInstanceTypes", when=_NEW_CLASS),
    ),
    "serve": _READ_HISTORY,  # `mrtuner serve`, and the functions of `mrtuner deploy lambda`
    "history fetch": _READ_HISTORY,  # `mrtuner history fetch`
    "policy": (),
    "lab": (),
}


def called(command: str) -> frozenset[str]:
    return frozenset(use.action for use in uses(command) if not use.implied)


def uses(command: str, without: Collection[str] = ()) -> tuple[Use, ...]:
    """Return what a command needs, minus what only the options in `without` need.

    Raises BadValue for an unknown command or option.
    """
    if command not in ACTIONS_BY_COMMAND:
        raise BadValue(
            f"unknown command {command!r}", f"Use one of: {', '.join(ACTIONS_BY_COMMAND)}."
        )
    known = {use.when for use in ACTIONS_BY_COMMAND[command] if use.when}
    for option in without:
        if option not in known:
            raise BadValue(
                f"no permission of {command} is needed only for {option!r}",
                f"Options that can be left out: {', '.join(sorted(known)) or 'none'}.",
            )
    return tuple(use for use in ACTIONS_BY_COMMAND[command] if use.when not in without)


def policy(command: str, scope: Scope = Scope(), without: Collection[str] = ()) -> Policy:
    """Return the policy for one command.

    Raises BadValue when the command is unknown or needs no AWS permissions.
    """
    needed = uses(command, without)
    if not needed:
        raise BadValue(f"{command} makes no AWS calls", "It needs no policy.")
    return Policy(
        command=command,
        uses=needed,
        document={"Version": _LANGUAGE, "Statement": list(_statements(needed, scope))},
    )


def _statements(needed: Iterable[Use], scope: Scope) -> Iterator[dict[str, Any]]:
    """Group actions on the same resources in one statement; some have their own conditions."""

    def key(use: Use) -> tuple[tuple[str, ...], str]:
        return use.on, use.action if use.action in {_GRANT, _LIST} else ""

    for (on, special), group in groupby(sorted(needed, key=key), key=key):
        actions = tuple(use.action for use in group)
        yield _statement(actions, on, _conditions(scope, special), scope)


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


def _conditions(scope: Scope, special: str) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    if scope.requested:
        conditions["StringEquals"] = {"aws:RequestedRegion": list(scope.requested)}
    if special == _LIST:
        # Only the lists of files. Source: S3 User Guide, condition keys.
        conditions["StringLike"] = {"s3:prefix": f"{scope.prefix}manifests/"}
    if special == _GRANT:
        # Only grants that RDS requests. Source: KMS guide, condition keys.
        conditions["Bool"] = {"kms:GrantIsForAWSResource": "true"}
    return conditions


def _partition(regions: Iterable[str]) -> str:
    """Return the partition of the regions. Source: botocore's endpoints.json."""
    for region in regions:
        if region.startswith("us-gov-"):
            return "aws-us-gov"
        if region.startswith("cn-"):
            return "aws-cn"
    return "aws"
