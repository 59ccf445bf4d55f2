"""The settings that a standby must have before its primary has them, and who is to get them first.

A standby that replays a higher value of one of these than its own pauses (before 14 it stops) and
serves older and older data until it has restarted with that value. So a value is raised on the
standbys first, and lowered on the primary first; a standby may always have the higher one, and does
not start with less than its primary has. Managed services and Patroni see to this order themselves,
and MrTuner does not write there.
Source: PostgreSQL documentation, Hot Standby, Administrator's Overview; xlogrecovery.c,
CheckRequiredParameterValues.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.change.settings import live
from mrtuner.change.settings.next_start import NextStart
from mrtuner.change.settings.plan import LeftAlone, Wanted
from mrtuner.change.settings.restart import NEVER, Restart
from mrtuner.errors import Refused
from mrtuner.postgres.conf_file import number
from mrtuner.postgres.connect import connect, masked, translated
from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.postgres.named_queries import rows_of
from mrtuner.postgres.read_server import read_platform
from mrtuner.wording import enumerated, plural

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A standby of the server that is changed, and how it may be restarted."""

    dsn: str
    restart: Restart = NEVER


def raised(start: NextStart) -> dict[str, str]:
    """What rises at the next start of a primary and must rise on its standbys before."""
    return {name: start.text(name) for name in sorted(FOLLOW_PRIMARY) if start.raises(name)}


def behind(standby: Standby, wanted: dict[str, str]) -> list[Wanted]:
    """The settings whose value in force on a standby is too low."""
    with closing(connect(standby.dsn)) as conn:
        rows = live.in_force(conn, list(wanted))
    return [
        Wanted(name=name, value=value)
        for name, value in wanted.items()
        if int(rows[name].setting) < (number(value, "integer", None) or 0)
    ]


def would_pause(
    conn: Connection, start: NextStart, named: Sequence[Standby]
) -> Iterator[LeftAlone]:
    """Yield why a value cannot rise yet: a standby that is not named, or cannot go first.

    On a standby itself: why one cannot fall.
    """
    wanted = raised(start)
    with translated():
        rows = rows_of(conn, "standbys", conn.info.server_version)
        recovers = conn.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
    if recovers:
        yield from _below_primary(conn, start)
        return
    if not wanted:
        return
    _refuse_strangers(conn, named)
    first = next(iter(wanted))
    if len(rows) > len(named):
        yield LeftAlone(
            name=first, value=wanted[first],
            why=f"{plural(len(rows), 'standby')} of this server "
            f"({', '.join(row['name'] for row in rows)}) would pause replay if "
            f"{enumerated(wanted)} rose here first",
            hint="Name each standby and how it restarts: --standby DSN COMMAND; with never "
            "instead of COMMAND if it has the value already.",
        )  # fmt: skip
    for standby in named:
        if low := behind(standby, wanted):
            yield from _cannot_go_first(standby, low)


def _below_primary(conn: Connection, start: NextStart) -> Iterator[LeftAlone]:
    """Yield what would be lower than on the primary, as far as this standby has replayed."""
    names = [name for name in FOLLOW_PRIMARY if start.concerns(name)]
    needs = primary_values(conn) if names else {}
    for name in names:
        if name in start.guessed or (needs is None and start.lowers(name)):
            yield LeftAlone(
                name=name, value=start.text(name),
                why=f"this is a standby, which does not start if {name} is lower than on its "
                "primary, and this role cannot see whether it would be",
                hint="Connect as a superuser.",
            )  # fmt: skip
        elif needs is not None and start.number(name) < needs[name]:
            yield LeftAlone(
                name=name, value=start.text(name),
                why=f"this is a standby, which would not start with {name} = "
                f"{start.number(name)}: its primary has {needs[name]}",
                hint="Lower it on the primary first, and let the standby replay that.",
            )  # fmt: skip


#: Where pg_control keeps the primary's values, by its version: those of 13 to 16, 17, 18, and 19.
#: Source: pg_control.h, ControlFileData.
_PLACES: Final = {1300: 180, 1700: 180, 1800: 180, 1905: 188}
#: Its values in the order of _KEPT, a switch, the alignment, and a number that proves the place.
_VALUES: Final = struct.Struct("=5i?3xId")
_KEPT: Final = (
    "max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
    "max_locks_per_transaction",
)  # fmt: skip
_PROOF: Final = 1234567.0


def primary_values(conn: Connection) -> dict[str, int] | None:
    """The least values that a standby starts with, by name; None if they cannot be read."""
    from psycopg import errors

    try:
        row = conn.execute("SELECT pg_read_binary_file('global/pg_control')").fetchone()
    except (errors.InsufficientPrivilege, errors.UndefinedFunction, errors.UndefinedFile):
        return None
    control = bytes(row[0]) if row and row[0] else b""
    try:
        (version,) = struct.unpack_from("=I", control, 8)
        *values, _, _, proof = _VALUES.unpack_from(control, _PLACES[version])
    except (struct.error, KeyError):
        return None
    return dict(zip(_KEPT, values, strict=True)) if proof == _PROOF else None


def _cannot_go_first(standby: Standby, low: Sequence[Wanted]) -> Iterator[LeftAlone]:
    with closing(connect(standby.dsn)) as conn:
        platform = read_platform(conn)
    if platform.alter_system and standby.restart.run is not None:
        return
    dsn = masked(standby.dsn)
    if platform.alter_system:
        words = [
            word for one in low for word in ("-c", f"ALTER SYSTEM SET {one.name} = {one.value}")
        ]
        hint = (
            f"Run there: {shlex.join(['psql', dsn, *words])}, and restart it; or give its restart "
            "command: --standby DSN COMMAND."
        )
    else:
        values = platform.remedy(**{one.name: one.value for one in low})
        hint = f"There: {values} Then restart it."
    yield LeftAlone(
        name=low[0].name, value=low[0].value,
        why=f"the standby {dsn} would pause replay: "
        f"{enumerated(one.name for one in low)} must be in force there first",
        hint=hint,
    )  # fmt: skip


def _refuse_strangers(conn: Connection, named: Sequence[Standby]) -> None:
    """Raise Refused unless each is a standby of this server, given once."""
    ours, seen = live.identify(conn).system_identifier, set()
    for standby in named:
        with closing(connect(standby.dsn)) as other:
            who = live.identify(other)
            recovers = other.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        if not recovers or who.system_identifier != ours:
            raise Refused(
                f"{masked(standby.dsn)} is not a standby of this server",
                "Name the standbys that pg_stat_replication shows.",
            )
        if who.server in seen:
            raise Refused(f"{masked(standby.dsn)} is given twice", "Name each standby once.")
        seen.add(who.server)
