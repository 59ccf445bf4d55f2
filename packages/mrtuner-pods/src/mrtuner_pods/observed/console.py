"""A running PgBouncer, queried over its console: SHOW POOLS, STATS, CONFIG, DATABASES and USERS.

Source: pgbouncer(1), admin console; columns of 1.8 to 1.24.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue, ConnectError
from mrtuner.facts import Fact
from mrtuner_pods.observed.model import Observed, PoolerPool, in_database
from mrtuner_pods.wording import milliseconds

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

Row = Mapping[str, Any]
#: The console's own name, which is no database.
_OWN: Final = "pgbouncer"
#: Between two readings of SHOW STATS [s].
WATCHED: Final = 10.0
_MICRO: Final = 1e-6
#: The settings that the number of connections depends on.
_SETTINGS: Final = (
    "max_client_conn", "default_pool_size", "reserve_pool_size", "max_db_connections",
    "max_user_connections", "pool_mode", "auth_user",
)  # fmt: skip


def console(dsn: str) -> Connection:
    """Return a session with PgBouncer's console: database `pgbouncer` unless the DSN names one.

    Raises ConnectError where there is none, UsageError where something else answers.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from mrtuner.postgres.connect import connect

    named = conninfo_to_dict(dsn).get("dbname")
    return connect(make_conninfo(dsn, dbname=named or _OWN), console=True)


def shown(connection: Connection, what: str) -> list[dict[str, Any]]:
    """Return the rows of SHOW `what`; ConnectError if the console refuses. It writes only text."""
    import psycopg
    from psycopg.rows import dict_row

    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(f"SHOW {what}".encode()).fetchall()
    except psycopg.Error as error:
        raise ConnectError(
            f"PgBouncer refused SHOW {what}: {str(error).splitlines()[0]}",
            "Name the user in stats_users or admin_users of its configuration.",
        ) from None


def configuration(connection: Connection) -> str:
    """Return the running configuration as a pgbouncer.ini; the file on disk may differ."""
    config = {row["key"]: row["value"] for row in shown(connection, "CONFIG")}
    lines = ["[databases]"]
    databases = [row for row in shown(connection, "DATABASES") if row["name"] != _OWN]
    for row in databases:
        quoted = name if (name := row["name"]).isidentifier() else f'"{name}"'
        lines.append(f"{quoted} = {_entry(row)}".rstrip())
    sizes = [int(row["pool_size"] or 0) for row in databases]
    lines.append("[pgbouncer]")
    lines += [f"{name} = {config[name]}" for name in _SETTINGS if config.get(name)]
    users = [
        (row["name"], entry)
        for row in shown(connection, "USERS")
        if (entry := _user(row, config, sizes))
    ]
    if users:
        lines += ["[users]", *(f"{name} = {entry}" for name, entry in users)]
    return "\n".join(lines) + "\n"


def _entry(row: Row) -> str:
    """Return an entry for [databases]; a limit of 0 is none, and a user is named only if forced."""
    parts = {
        "host": row.get("host"),
        "dbname": row.get("database"),
        "user": row.get("force_user"),
        "pool_size": row.get("pool_size"),
        "reserve_pool": row.get("reserve_pool") or row.get("reserve_pool_size"),
        "pool_mode": row.get("pool_mode"),
        "max_db_connections": row.get("max_connections"),
    }
    return " ".join(f"{name}={_quoted(value)}" for name, value in parts.items() if value)


def _quoted(value: object) -> str:
    text = str(value)
    return text if text.replace("_", "").isalnum() else "'" + text.replace("'", "''") + "'"


def _user(row: Row, config: Mapping[str, str], sizes: Sequence[int]) -> str:
    """Return an entry for [users]. A user without a pool_size is shown with that of the user before
    (admin.c, admin_show_users): one below a database's may be none, so the largest counts.
    """
    found = {
        name: row.get(name) for name in ("pool_size", "max_user_connections")
        if row.get(name) not in {None, "", "0", 0, config.get(name)}
    }  # fmt: skip
    if "pool_size" in found:
        own = int(found.pop("pool_size") or 0)
        if own > min(sizes, default=0):
            found["pool_size"] = max(own, *sizes)
    if mode := row.get("pool_mode"):
        found["pool_mode"] = mode
    return " ".join(f"{name}={value}" for name, value in found.items())


# What the pooler does.


def pools_now(rows: Sequence[Row]) -> tuple[PoolerPool, ...]:
    """Return the rows of SHOW POOLS without the console's own; `maxwait_us` adds to `maxwait`."""
    return tuple(
        PoolerPool(
            database=str(row["database"]), user=str(row["user"]), mode=str(row["pool_mode"]),
            clients=int(row["cl_active"]), waiting=int(row["cl_waiting"]),
            longest_wait=int(row["maxwait"]) + int(row.get("maxwait_us") or 0) * _MICRO,
            servers=int(row["sv_active"]), idle=int(row["sv_idle"]),
        )
        for row in rows if row["database"] != _OWN
    )  # fmt: skip


def watched(
    dsn: str, *, seconds: float = WATCHED, rate: float | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Observed:  # fmt: skip
    """Return what the pooler did for some seconds: its load, and the time of its statements.

    With a `rate` of requests [1/s], a request's time in the database is included: seconds per
    second in statements, divided by `rate`.

    Raises ConnectError if the console does not answer; BadValue if no statement went through the
    pooler, or its counters were reset.
    """
    with console(dsn) as connection:
        began, before = time.monotonic(), _totals(shown(connection, "STATS"))
        sleep(seconds)
        passed, after = time.monotonic() - began, _totals(shown(connection, "STATS"))
        pools = pools_now(shown(connection, "POOLS"))
        databases = shown(connection, "DATABASES")
        where = f"PgBouncer at {connection.info.host}:{connection.info.port}"
    grown = {name: after[name] - before[name] for name in after}
    if min(grown.values()) < 0:
        raise BadValue(
            f"the counters of {where} were reset in the meantime", "It restarted; measure again."
        )
    if not grown["total_query_count"]:
        raise BadValue(
            f"no statement went through {where} in {passed:.3g} s", "Measure it under its load."
        )
    return _of_growth(grown, passed, rate, pools, databases, where)


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    names = ("total_xact_count", "total_query_count", "total_query_time", "total_wait_time")
    return {name: sum(int(row[name]) for row in rows if row["database"] != _OWN) for name in names}


def _of_growth(
    grown: Mapping[str, int], passed: float, rate: float | None, pools: tuple[PoolerPool, ...],
    databases: Sequence[Row], where: str,
) -> Observed:  # fmt: skip
    busy = grown["total_query_time"] * _MICRO / passed
    transactions = max(1, grown["total_xact_count"])
    wait = grown["total_wait_time"] * _MICRO / transactions
    warnings = []
    if wait > 0.001:
        warnings.append(
            f"{where}: clients waited {milliseconds(wait)} on average for a server connection"
        )
    waiting = sum(one.waiting for one in pools)
    if waiting:
        warnings.append(f"{where}: {waiting} clients are waiting for a server connection")
    sizes = [int(row["pool_size"]) for row in databases if row["name"] != _OWN]
    return Observed(
        database_time=in_database(
            busy, rate, f"SHOW STATS of {where}: {busy:.3g} s per second in statements"
        ),
        pooler=_size(sizes, pools, where),
        pools=pools,
        warnings=tuple(warnings),
    )


def _size(sizes: Sequence[int], pools: Sequence[PoolerPool], where: str) -> Fact[int] | None:
    """Server connections of a pooler in transaction mode that serves one user of one database."""
    if len(pools) != 1 or len(sizes) != 1 or pools[0].mode != "transaction":
        return None
    return Fact(sizes[0], f"SHOW DATABASES of {where}: pool_size")
