"""What the tests of apply and undo share: instances in the lab, and states to compare."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mrtuner.aws import rds
from mrtuner.aws.rows import Scope
from mrtuner.aws.session import client as aws_client
from mrtuner.limits.examples.week import simulated_week
from rdstune.lab import Lab
from rdstune.live.plan import WantedValue, user_values
from rdstune.live.wait import Pace

#: The lab runs 60 times faster than AWS, so we poll more often, too.
PACE = Pace(first=0.02, most=0.05, grace=2.0, patience=60.0)


def wanted(**values: str) -> tuple[WantedValue, ...]:
    return tuple(WantedValue(name, value) for name, value in values.items())


#: One static and three dynamic parameters; values that RDS takes, none a default.
FEW = wanted(
    max_connections="200",
    random_page_cost="1.1",
    work_mem="32768",
    effective_cache_size="{DBInstanceClassMemory*3/32768}",
)

#: Forty-five parameters, nine of them static: three calls.
MANY = wanted(
    max_connections="200",
    max_worker_processes="24",
    max_locks_per_transaction="128",
    max_prepared_transactions="10",
    max_wal_senders="25",
    max_replication_slots="25",
    track_activity_query_size="8192",
    autovacuum_max_workers="4",
    shared_buffers="{DBInstanceClassMemory/40960}",
    work_mem="16384",
    maintenance_work_mem="262144",
    effective_cache_size="{DBInstanceClassMemory*3/32768}",
    random_page_cost="1.1",
    seq_page_cost="0.9",
    effective_io_concurrency="128",
    maintenance_io_concurrency="128",
    checkpoint_timeout="900",
    max_wal_size="8192",
    min_wal_size="2048",
    autovacuum_naptime="20",
    autovacuum_vacuum_scale_factor="0.05",
    autovacuum_analyze_scale_factor="0.02",
    autovacuum_vacuum_threshold="100",
    autovacuum_analyze_threshold="100",
    autovacuum_vacuum_cost_limit="1000",
    autovacuum_vacuum_cost_delay="1",
    autovacuum_work_mem="131072",
    vacuum_cost_limit="400",
    default_statistics_target="200",
    jit="0",
    log_min_duration_statement="1000",
    log_lock_waits="1",
    log_temp_files="1024",
    deadlock_timeout="2000",
    statement_timeout="60000",
    temp_buffers="2048",
    cpu_tuple_cost="0.02",
    cpu_index_tuple_cost="0.01",
    cpu_operator_cost="0.005",
    parallel_setup_cost="500",
    parallel_tuple_cost="0.05",
    max_parallel_workers="6",
    max_parallel_workers_per_gather="3",
    hash_mem_multiplier="1.5",
    bgwriter_delay="100",
)


def new_instance(
    client: Any, lab: Lab, identifier: str = "db1", group: str | None = None, **more: Any
) -> None:
    """Create a running db.r6g.xlarge with PostgreSQL 17, with this group or the default one."""
    given: dict[str, Any] = {
        "DBInstanceClass": "db.r6g.xlarge",
        "Engine": "postgres",
        "EngineVersion": "17",
        "AllocatedStorage": 100,
        "MasterUsername": "master",
        "MasterUserPassword": "not a secret at all",
    }
    if group:
        given["DBParameterGroupName"] = group
    client.create_db_instance(DBInstanceIdentifier=identifier, **{**given, **more})
    lab.settle()
    running(client, identifier)


def new_slow_instance(began: datetime, minutes: int, names: Sequence[str], first: int) -> None:
    """Create the db.r5.2xlarge `slow`, with some minutes of the example's metrics in CloudWatch."""
    aws_client("rds").create_db_instance(
        DBInstanceIdentifier="slow", DBInstanceClass="db.r5.2xlarge", Engine="postgres",
        AllocatedStorage=1000, StorageType="io1", Iops=30000, MasterUsername="me",
        MasterUserPassword="correct-horse",
    )  # fmt: skip
    told = simulated_week()
    for name in names:
        points = [
            {
                "MetricName": name,
                "Dimensions": [{"Name": "DBInstanceIdentifier", "Value": "slow"}],
                "Timestamp": began + timedelta(minutes=minute),
                "Value": float(told.metrics[name][first + minute]),
            }
            for minute in range(minutes)
        ]
        for start in range(0, minutes, 1000):
            batch = points[start : start + 1000]
            aws_client("cloudwatch").put_metric_data(Namespace="AWS/RDS", MetricData=batch)


def running(client: Any, identifier: str) -> None:
    """Wait until the instance is available: a real server takes time to start."""
    deadline = time.monotonic() + 60
    while rds.instance(client, identifier).status != "available":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def new_group(client: Any, name: str = "shop", family: str = "postgres17", **values: str) -> None:
    """Create a custom group; its values take effect at the next reboot."""
    rds.create_group(client, name, family, "by somebody")
    if values:
        rds.modify_group(
            client, name, [(one, value, "pending-reboot") for one, value in values.items()]
        )


def values(client: Any, group: str, scope: Scope = Scope.INSTANCE) -> dict[str, str]:
    """What is set in a group."""
    return user_values(rds.parameters(client, group, scope, source="user"))


def everything(client: Any) -> dict[str, Any]:
    """All that our changes may touch: custom groups, their values, and each instance's group."""
    groups = [one.name for one in rds.groups(client) if not one.default]
    return {
        "groups": {name: values(client, name) for name in groups},
        "attached": {one.identifier: one.groups[0].name for one in rds.instances(client)},
    }
