"""The lab's state: regions with their groups, instances, clusters, snapshots and events.

Plain records, changed in place under the lab's one lock. The rules are elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from rdstune.lab.clock import Clock
from rdstune.lab.refusals import Fault

if TYPE_CHECKING:
    from rdstune.lab.servers.running import Servers

#: moto's own account, so that STS and KMS agree with us.
ACCOUNT: Final = "123456789012"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long things take, in seconds of the lab. Mostly guessed, and short on purpose.

    Documented: a Multi-AZ failover takes 60 to 120 s, a Multi-AZ cluster's under 35 s, Aurora's
    often under 30 s (RDS and Aurora User Guides). AWS gives no figure for a plain reboot.
    """

    create: float = 30
    delete: float = 12
    modify: float = 12
    apply: float = 6  # a dynamic parameter
    reboot: float = 24
    failover: float = 75
    cluster_failover: float = 30
    failover_rest: float = 30  # a failover requested sooner is abandoned, RDS-EVENT-0034
    patch: float = 60  # patching before the database goes down
    snapshot: float = 24
    copy: float = 60


@dataclass(frozen=True, slots=True)
class Value:
    """A user-set value of a parameter, and how it was to be applied."""

    text: str
    method: str  # immediate, pending-reboot


@dataclass(slots=True, kw_only=True)
class LabGroup:
    """A DB or DB cluster parameter group."""

    name: str
    family: str
    description: str
    arn: str
    cluster: bool
    values: dict[str, Value] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def default(self) -> bool:
        """Whether it is AWS's own and cannot be changed."""
        return self.name.startswith("default.")


@dataclass(slots=True, kw_only=True)
class _Database:
    """What a DB instance and a cluster have in common. Windows in UTC."""

    identifier: str
    arn: str
    resource: str
    engine: str
    version: str
    port: int
    group: str
    created: datetime
    backup_window: str
    maintenance_window: str
    username: str = "postgres"
    password: str = field(default="", repr=False)
    database: str | None = None
    status: str = "creating"
    iops: int | None = None
    encrypted: bool = False
    key: str | None = None
    retention: int = 1
    protected: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    rested: datetime | None = None  # until then a failover is abandoned

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    @property
    def family(self) -> str:
        return f"{self.engine}{self.major}"


@dataclass(slots=True, kw_only=True)
class Instance(_Database):
    """One DB instance. Sizes in GiB."""

    class_name: str
    zone: str
    host: str
    group_status: str = "in-sync"
    multi_az: bool = False
    secondary_zone: str | None = None
    storage: int = 20
    storage_type: str = "gp3"
    throughput: int | None = None
    auto_minor: bool = True
    public: bool = False
    insights: bool = False
    tier: int = 1
    cluster: str | None = None
    source: str | None = None  # of a read replica
    pending: dict[str, Any] = field(default_factory=dict)
    group_in_force: str = ""  # the group it has run with since its last start
    running: dict[str, str] = field(default_factory=dict)  # texts in force, by parameter

    @property
    def region(self) -> str:
        return self.arn.split(":")[3]


@dataclass(slots=True, kw_only=True)
class LabCluster(_Database):
    """An Aurora cluster, or a Multi-AZ DB cluster (then with a class)."""

    class_name: str | None = None
    storage: int | None = None
    storage_type: str | None = None
    writer: str | None = None
    member_status: dict[str, str] = field(default_factory=dict)  # DBClusterParameterGroupStatus

    @property
    def aurora(self) -> bool:
        """Whether it is Aurora; else a Multi-AZ DB cluster."""
        return self.engine.startswith("aurora")


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """A DB snapshot; `done` is when it becomes available."""

    identifier: str
    arn: str
    instance: Instance
    kind: str  # manual, automated
    begun: datetime
    done: datetime
    original: datetime
    status: str = "creating"
    source_arn: str | None = None
    source_region: str | None = None
    encrypted: bool = False
    key: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event as in DescribeEvents; only EventBridge and SNS give its `id` (RDS-EVENT-…)."""

    id: str
    date: datetime
    source: str
    source_type: str  # db-instance, db-parameter-group, db-snapshot, db-cluster
    arn: str
    categories: tuple[str, ...]
    message: str


@dataclass(slots=True, kw_only=True)
class Maintenance:
    """A pending maintenance action of a resource."""

    action: str
    description: str
    auto_applied: datetime | None = None
    forced: datetime | None = None
    opted: str | None = None  # immediate, next-maintenance
    planned: datetime | None = None  # CurrentApplyDate
    started: bool = False


@dataclass(slots=True)
class Region:
    """The resources of one region."""

    name: str
    world: World
    groups: dict[str, LabGroup] = field(default_factory=dict)
    cluster_groups: dict[str, LabGroup] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    clusters: dict[str, LabCluster] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    maintenance: dict[str, list[Maintenance]] = field(default_factory=dict)  # by ARN

    @property
    def clock(self) -> Clock:
        return self.world.clock

    def rested(self) -> datetime:
        """When another failover may be requested, if one ends now."""
        return self.clock.now() + timedelta(seconds=self.world.delays.failover_rest)

    def arn(self, kind: str, name: str) -> str:
        """Return the ARN of a resource here; kinds are db, pg, cluster, cluster-pg, snapshot."""
        return f"arn:aws:rds:{self.name}:{ACCOUNT}:{kind}:{name}"

    def home_of(self, name: str) -> Region:
        """Return the region of an ARN; this one for a plain name."""
        return self.world.region(name.split(":")[3]) if name.startswith("arn:") else self

    def kind(self, cluster: bool) -> dict[str, LabGroup]:
        return self.cluster_groups if cluster else self.groups

    def instance(self, identifier: str) -> Instance:
        """Return an instance by its identifier or ARN."""
        name = identifier.rpartition(":")[2].lower()
        if name not in self.instances:
            raise Fault("DBInstanceNotFound", f"DBInstance {name} not found.")
        return self.instances[name]

    def cluster(self, identifier: str) -> LabCluster:
        name = identifier.rpartition(":")[2].lower()
        if name not in self.clusters:
            raise Fault("DBClusterNotFoundFault", f"DBCluster {name} not found.")
        return self.clusters[name]

    def members(self, cluster: LabCluster) -> list[Instance]:
        return [each for each in self.instances.values() if each.cluster == cluster.identifier]

    def replicas(self, source: Instance) -> list[Instance]:
        """Return the read replicas of an instance in this region."""
        names = (source.identifier, source.arn)
        return [each for each in self.instances.values() if each.source in names]


class World:
    """Every region, the clock, and the lock that guards them all."""

    def __init__(self, clock: Clock, servers: Servers | None = None) -> None:
        self.clock = clock
        self.delays = Delays()
        self.servers = servers
        self.lock = threading.RLock()
        self.memory: dict[str, int] = {}  # DBInstanceClassMemory that a test sets for a class
        self.starting = 0  # servers that are being started
        self._regions: dict[str, Region] = {}

    def region(self, name: str) -> Region:
        """Return a region, created when first named."""
        if name not in self._regions:
            self._regions[name] = Region(name, self)
        return self._regions[name]

    def regions(self) -> Iterator[Region]:
        return iter(list(self._regions.values()))

    def clear(self) -> None:
        self._regions.clear()


def tags(params: Mapping[str, Any]) -> dict[str, str]:
    return {each["Key"]: each.get("Value", "") for each in params.get("Tags", ())}


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
