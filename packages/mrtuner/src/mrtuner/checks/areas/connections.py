"""Sessions: how many, whose, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.checks.areas.locks import described, require_tracked
from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import PasswordExpiry, SessionGroup, State
from mrtuner.findings import Command, Finding, Severity
from mrtuner.postgres.missing_grants import SEE_STATS
from mrtuner.postgres.quoting import identifier
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.units import pretty_duration
from mrtuner.wording import as_name, first_few, plural

CONNECTIONS: Final = "documentation: Connections and Authentication"
#: Shares of a limit from which on it is near; chosen, not measured.
_NEAR: Final = 0.8
_AT_ONCE: Final = 0.95
#: A transaction without work from which on it is forgotten rather than slow [s].
FORGOTTEN: Final = 300.0
_SHOWN: Final = 5


@check(
    "connections-near-limit",
    judged="client sessions are at least 80 % (danger: 95 %) of the connections that ordinary "
    "roles may open, or of the limit of a role or a database",
    source=f"{CONNECTIONS}, max_connections; the shares are chosen",
    remedy="Smaller pools, a pooler in front of the server, or a higher limit within the memory "
    "budget.",
    needs=("groups", "limits"),
)
def connections_near_limit(state: State) -> Iterator[Finding]:
    """Nearly all connections are in use: soon the server refuses new ones."""
    used, most = sum(group.sessions for group in state.groups), slots(state)
    kept = most < int(state.setting(_SLOTS[0]) or most)
    yield from _near(
        "the server", used, most, state.groups,
        "remaining connection slots are reserved" if kept else "sorry, too many clients already",
        f"or a pooler in front of it; max_connections is {state.setting(_SLOTS[0])}",
    )  # fmt: skip
    for limit in state.limits:
        if limit.most > 0 and not limit.superuser:
            mine = [one for one in state.groups if getattr(one, limit.kind) == limit.name]
            kind = limit.kind.upper()
            yield from _near(
                f"{limit.kind} {as_name(limit.name)}", sum(one.sessions for one in mine),
                limit.most, mine, f'too many connections for {limit.kind} "{limit.name}"',
                f"or{', on the primary' if state.server.standby else ''}:",
                Command(f"ALTER {kind} {identifier(limit.name)} "
                        f"CONNECTION LIMIT {2 * limit.most};"),
            )  # fmt: skip


_SLOTS: Final = ("max_connections", *RESERVED, *OF_RDS)


def slots(state: State) -> int:
    """Return how many sessions ordinary roles may open; CannotJudge if that cannot be seen."""
    settings = [state.setting(name) for name in _SLOTS]
    most, *reserved = [int(text) if text else 0 for text in settings]
    if not most:
        raise CannotJudge("the role may not see max_connections")
    return most - sum(reserved)


def _near(
    what: str,
    used: int,
    most: int,
    groups: Sequence[SessionGroup],
    said: str,
    remedy: str,
    *more: Command,
) -> Iterator[Finding]:
    if used < most * _NEAR:
        return
    largest = max(groups, key=lambda one: one.sessions)
    idle = largest.sessions - largest.active
    yield Finding(
        id="connections-near-limit",
        severity=Severity.DANGER if used >= most * _AT_ONCE else Severity.TO_DO,
        text=f"{used:,} of {most:,} connections of {what} are in use",
        consequence=f"new sessions are refused: {said}",
        harm_in=0.0 if used >= most else None,
        cost=min(1.0, used / most),
        evidence=tuple(
            f"{plural(one.sessions, 'session')} of {one.who}, {one.active} active"
            for one in groups[:_SHOWN]
        ),
        basis="pg_stat_activity, now",
        remedy=(
            f"Fewer connections in the pool of {largest.who}, of which {idle:,} "
            f"{'is' if idle == 1 else 'are'} idle, {remedy}",
            *more,
        ),
    )


@check(
    "password-expires",
    judged="the password of a role that may log in expires within 14 days, or has expired while "
    "its sessions go on; not if a session has begun since, nor for the roles of Vault",
    source="documentation: CREATE ROLE, VALID UNTIL; the time is chosen",
    remedy="Change the password with a later date, or with none.",
    needs=("passwords",),
    of_primary=True,
)
def password_expires(state: State) -> Iterator[Finding]:
    """A password stops to work at its date: open sessions go on, and each new one is refused.

    So nobody notices before the next deployment, restart or failover.
    """
    found = [one for one in state.passwords if one.expires > state.at or one.later is False]
    if found:
        yield _expiring(state, found)
    hidden = [as_name(one.role) for one in state.passwords if one not in found and not one.later]
    if hidden:
        raise CannotJudge(
            f"it is hidden whether sessions of {first_few(hidden, _SHOWN)} needed the password "
            "that has expired",
            SEE_STATS,
        )


def _expiring(state: State, found: Sequence[PasswordExpiry]) -> Finding:
    first, *others = found
    over = first.expires <= state.at
    more = f", and {plural(len(others), 'other')} by {found[-1].told} UTC" if others else ""
    return Finding(
        id="password-expires",
        severity=Severity.TO_DO,
        text=f"the password of role {as_name(first.role)} {'expired' if over else 'expires'} on "
        f"{first.told} UTC{more}",
        consequence="open sessions go on, and each new one with it is refused",
        harm_in=max(0.0, first.expires - state.at),
        cost=state.of_connections(sum(one.sessions for one in found)),
        evidence=tuple(
            f"role {as_name(one.role)}: {one.told} UTC, {plural(one.sessions, 'session')} now"
            for one in found[:_SHOWN]
        ),
        basis="pg_roles and pg_stat_activity, now",
        remedy=(
            "A new password with a later date (mrtuner rotate changes it without downtime), or, if "
            "it need not expire:",
            *(
                Command(f"ALTER ROLE {identifier(one.role)} VALID UNTIL 'infinity';")
                for one in found[:_SHOWN]
            ),
        ),
    )


@check(
    "unreachable",
    judged="no session can be opened, for a reason that lies with the server: it refuses "
    "connections or has none left, is starting, or does not answer",
    source="libpq's own error",
    remedy="Start the server, or free a connection; its log and its service manager say why it is "
    "down.",
)
def unreachable(state: State) -> Iterator[Finding]:  # noqa: ARG001 - it was read, so it was reached
    """The server cannot be reached from here, so nothing else could be judged."""
    yield from ()


@check(
    "idle-in-transaction",
    judged="a session has been idle in a transaction for five minutes or longer",
    source="documentation: idle_in_transaction_session_timeout; the time is chosen",
    remedy="End the session, and set idle_in_transaction_session_timeout for its role.",
    needs=("sessions",),
)
def idle_in_transaction(state: State) -> Iterator[Finding]:
    """A transaction is open and does nothing: it keeps its locks, and dead rows from being removed.

    Usually an application that has forgotten to commit, or waits for something else meanwhile.
    """
    require_tracked(state)
    found = [
        one for one in state.sessions
        if one.idle_in_transaction and (one.state_seconds or 0) >= FORGOTTEN
    ]  # fmt: skip
    if not found:
        return
    worst = max(found, key=lambda one: one.state_seconds or 0)
    idle = pretty_duration(worst.state_seconds or 0)
    others = f", and {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""
    yield Finding(
        id="idle-in-transaction",
        severity=Severity.TO_DO,
        text=f"{worst.who} has been idle in a transaction for {idle}{others}",
        consequence="its locks stay, and vacuum removes no row that died since it began",
        cost=state.of_connections(len(found)),
        since=state.at - (worst.state_seconds or 0),
        evidence=tuple(map(described, found[:_SHOWN])),
        basis="pg_stat_activity, now",
        remedy=(
            Command(f"SELECT pg_terminate_backend({worst.pid});"),
            *state.on_primary,
            Command(
                f"ALTER ROLE {identifier(worst.role or '')} SET "
                "idle_in_transaction_session_timeout = '5min';"
            ),
        ),
    )
