"""The volume, WAL and checkpoints, checksums, temporary files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mrtuner.checks.catalogue import CannotJudge, check, known_part
from mrtuner.checks.state import DatabaseHealth, State
from mrtuner.findings import SLIGHT, Command, Finding, Severity
from mrtuner.postgres.quoting import identifier
from mrtuner.tuning.rules.wal import forced_by_volume
from mrtuner.tuning.situation import Wal
from mrtuner.tuning.suggestions import set_work_mem
from mrtuner.units import GiB, memory_unit, pretty_bytes, pretty_duration
from mrtuner.wording import as_name, plural_was

if TYPE_CHECKING:
    from mrtuner.postgres.model import Server
    from mrtuner.tuning import Tuning

#: datconnlimit of a database whose DROP was interrupted. Source: pg_database.h.
_INVALID: Final = -2
#: Free shares of a volume; chosen, as most monitoring does. Below a gigabyte nothing is safe.
_LITTLE: Final = 0.1
_LEAST: Final = 0.05
#: Of a small volume, as of one for pg_wal alone, a gigabyte may be most.
_SMALL: Final = 0.2
#: Too few checkpoints to judge by, and the share of forced ones from which WAL is too small.
_SOME: Final = 10
_FORCED: Final = 0.5
#: What keeps WAL: slots, and an archive that does not take it.
_WAL_IS_KEPT: Final = (
    Command(
        "SELECT slot_name, active, wal_status, restart_lsn FROM pg_replication_slots "
        "ORDER BY restart_lsn;"
    ),
    Command(
        "SELECT last_archived_wal, last_archived_time, last_failed_wal, last_failed_time "
        "FROM pg_stat_archiver;"
    ),
)
DATABASES_BY_SIZE: Final = Command(
    "SELECT datname, pg_size_pretty(pg_database_size(oid)) FROM pg_database "
    "ORDER BY pg_database_size(oid) DESC;"
)


@check(
    "free-space",
    judged="less than 10 % (danger: 5 %, or 1 GB below 20 %) of the volume of the data or of "
    "pg_wal is free",
    source="statvfs on this machine; the shares are chosen",
    remedy="Enlarge the volume, or remove what grows.",
    needs=(),
)
def free_space(state: State) -> Iterator[Finding]:
    """The volume is nearly full. Without room for WAL the server stops; without room for data,
    statements fail.
    """
    host = state.tuning.host if state.tuning else None
    if host is None or host.disk_free is None or host.disk_size is None:
        raise CannotJudge(
            "the server's volume cannot be read from here",
            "Run it on the server's machine, or skip it: --skip free-space.",
        )
    for what, free, size, grows in (
        ("the data volume", host.disk_free, host.disk_size, (DATABASES_BY_SIZE,)),
        ("the volume of pg_wal", host.wal_free, host.wal_size, _WAL_IS_KEPT),
    ):
        if free is not None and size is not None:
            for one in nearly_full("free-space", what, free.value, size.value, free.source):
                yield replace(one, remedy=("Enlarge the volume, or find what grows:", *grows))


def nearly_full(name: str, what: str, free: int, size: int, source: str) -> Iterator[Finding]:
    """Yield a volume with little space left, as a finding of the check `name`."""
    share = free / size
    short = share < _LEAST or (free < GiB and share < _SMALL)
    if share < _LITTLE or short:
        yield Finding(
            id=name,
            severity=Severity.DANGER if short else Severity.TO_DO,
            text=f"{what} has {pretty_bytes(free)} free of {pretty_bytes(size)} ({share:.0%})",
            consequence="when it is full, statements fail and the server may stop",
            cost=1 - share,
            basis=f"{source}, now",
            remedy=("Enlarge the volume, or find what grows:", DATABASES_BY_SIZE),
        )


@check(
    "wal-fills-volume",
    judged="max_wal_size is more than half of the volume that it is on",
    source="documentation: WAL Configuration",
    remedy="Lower max_wal_size, or enlarge the volume.",
    needs=("disk",),
)
def wal_fills_volume(state: State) -> Iterator[Finding]:
    """WAL may take more room than its volume has."""
    yield from from_tuning(state, "wal-fills-volume")


def advice(state: State) -> Tuning:
    """Return the advice for the server."""
    return known_part(state, "tuning", state.tuning)


def from_tuning(state: State, name: str) -> Iterator[Finding]:
    """Yield the findings of this check that the advice for the server contains."""
    yield from (one for one in advice(state).findings if one.id == name)


@check(
    "checkpoints-forced",
    judged="at least half of ten or more checkpoints were forced by WAL rather than time, and as "
    "much WAL was written",
    source="documentation: WAL Configuration, max_wal_size; the share is chosen",
    remedy="Raise max_wal_size, as far as the volume and the recovery time allow.",
    needs=("activity: checkpoints",),
    of_primary=True,
)
def checkpoints_forced(state: State) -> Iterator[Finding]:
    """Checkpoints come before their time, because max_wal_size is reached: pages are written again
    and again, and WAL repeats them whole.
    """
    counted = state.server.activity
    forced, timed = counted.checkpoints_requested, counted.checkpoints_timed
    if forced is None or timed is None or forced + timed < _SOME:
        return
    total = forced + timed
    share, why = forced / total, "for WAL or because somebody asked"
    if counted.wal_bytes is not None:
        wal = Wal(counted.window, counted.wal_bytes, timed, forced, watched=False)
        share, why = forced_by_volume(wal, _wal_between_checkpoints(state.server)), "for WAL"
    if share < _FORCED:
        return
    item = state.tuning.advice.get("max_wal_size") if state.tuning else None
    value = item.value if item is not None and item.changes else None
    yield Finding(
        id="checkpoints-forced",
        severity=Severity.TO_DO,
        text=f"{share:.0%} of {total:,} checkpoints in {pretty_duration(counted.window)} "
        f"came before their time, {why}",
        consequence="more is written than needed, and statements wait for it",
        cost=share,
        basis="counters since the last reset of statistics",
        remedy=(
            state.server.platform.remedy(max_wal_size=f"'{value}'") if value else
            "Raise max_wal_size, as far as the volume and the recovery time allow: mrtuner tune",
        ),
    )  # fmt: skip


def _wal_between_checkpoints(server: Server) -> float:
    """Return after how much WAL a checkpoint is forced [bytes].

    Source: xlog.c, CalculateCheckpointSegments.
    """
    size, target = (
        server.settings[name] for name in ("max_wal_size", "checkpoint_completion_target")
    )
    return float(size.setting) * (memory_unit(size.unit or "") or 1) / (1 + float(target.setting))


@check(
    "checksum-failures",
    judged="pg_stat_database.checksum_failures is above 0, or checksums are off (to know)",
    source="documentation: Data Checksums",
    remedy="Restore the damaged relations from a backup, and replace the volume; switch checksums "
    "on.",
    needs=("databases",),
)
def checksum_failures(state: State) -> Iterator[Finding]:
    """Pages came back from the volume other than they were written: data are damaged. Without
    checksums nobody notices.
    """
    if state.setting("data_checksums") == "off":
        yield Finding(
            id="checksum-failures",
            severity=Severity.TO_KNOW,
            text="data checksums are off",
            consequence="nobody notices if the volume returns damaged pages",
            basis="data_checksums, now",
            remedy=(
                "Ask the provider how damaged pages are noticed"
                if state.server.platform.hosted
                else "Stop the server, run pg_checksums --enable, which rewrites every page, and "
                "start it; initdb of 18 and later switches them on",
            ),
        )
    for one in state.databases:
        if one.checksum_failures:
            yield Finding(
                id="checksum-failures",
                severity=Severity.DANGER,
                text=f"{plural_was(one.checksum_failures, 'damaged page')} read in {one.place}",
                consequence="its rows are lost or wrong, and more pages of this volume may follow",
                harm_in=0.0,
                since=one.failed_at if one.checksum_failures == 1 else None,
                evidence=_last_of_several(one),
                basis="pg_stat_database, since the last reset of statistics",
                remedy=(
                    "Restore a copy from a backup to a time before the first failure, take the "
                    "damaged relations from it, and open a case with the provider: the log names "
                    "the files"
                    if state.server.platform.hosted
                    else "Copy the data directory before anything else, restore the damaged "
                    "relations from a backup, and replace the volume: the log names the files",
                ),
            )


def _last_of_several(one: DatabaseHealth) -> tuple[str, ...]:
    if one.failed_at is None or one.checksum_failures == 1:
        return ()
    return (f"the last one at {datetime.fromtimestamp(one.failed_at, UTC):%Y-%m-%d %H:%M:%S} UTC",)


@check(
    "temporary-files",
    judged="a role's statements write temporary files, and the memory budget has room for them; "
    "or 1 GB a day is written by whom nobody counts",
    source="pg_stat_statements; docs: the memory budget",
    remedy="Give the role its own work_mem: mrtuner apply --roles.",
    needs=("role_spills",),
)
def temporary_files(state: State) -> Iterator[Finding]:
    """Sorts and hashes do not fit work_mem and go to disk, although there is memory for them."""
    tuning = advice(state)
    if state.server.role_spills and tuning.budget is None:
        lacks = state.missing["memory"]
        raise CannotJudge(lacks.why, lacks.supply)
    for one in tuning.roles:
        yield Finding(
            id="temporary-files", severity=Severity.TO_DO,
            text=f"role {as_name(one.role)} {one.spilt}",
            consequence=one.gain, basis="pg_stat_statements, since its last reset",
            remedy=(*state.on_primary, set_work_mem(one)),
        )  # fmt: skip
    written, window = state.server.activity.temp_bytes or 0, state.server.activity.window
    counted = "pg_stat_statements" in state.server.extensions
    if not counted and written >= GiB and written / window * 86_400 >= GiB:
        yield Finding(
            id="temporary-files",
            severity=Severity.TO_KNOW,
            text=f"{pretty_bytes(written)} of temporary files were written in "
            f"{pretty_duration(window)}",
            consequence="whose statements write them is not counted, so no work_mem can be advised",
            basis="pg_stat_database, since the last reset of statistics",
            remedy=(
                *state.on_primary,
                Command("CREATE EXTENSION pg_stat_statements;  -- once it is preloaded"),
            ),
        )


@check(
    "invalid-database",
    judged="pg_database.datconnlimit is -2: its DROP was interrupted",
    source="dbcommands.c, dropdb; pg_database.h, DATCONNLIMIT_INVALID_DB",
    remedy="Drop it again.",
    needs=("limits",),
    of_primary=True,
)
def invalid_database(state: State) -> Iterator[Finding]:
    """DROP DATABASE began to remove its files and was interrupted: nobody can connect to it, and
    what is left of it stays.
    """
    for one in state.limits:
        if one.kind == "database" and one.most == _INVALID:
            yield Finding(
                id="invalid-database",
                severity=Severity.TO_DO,
                text=f"database {as_name(one.name)} is invalid: its DROP was interrupted",
                consequence="its files stay, and nobody can connect to it",
                cost=SLIGHT,
                basis="pg_database, now",
                remedy=(Command(f"DROP DATABASE {identifier(one.name)};"),),
            )
