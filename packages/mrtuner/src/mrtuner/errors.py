"""The errors a user can meet, and the exit code each one ends a command with.

    MrTunerError            1  failed
    ├── UsageError          2  the command or call was given something it cannot use
    │   └── BadValue           a value, unit or name that PostgreSQL would not take
    ├── Refused             4  it could be done, but would not be safe
    │   └── DoesNotFit         the memory budget cannot be met
    ├── ConnectError        1  no usable session with the server
    ├── MissingPart         1  a program, package or permission is not there
    └── ApplyError          1  a change did not go through; says what state the server is in
        └── NotPutBack         what was measured is still in force

Messages are lower case without a full stop; the hint is a sentence that names the next step.
No error carries a password.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class MrTunerError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MrTunerError):
    """The call itself cannot be used as given."""

    exit_code = 2


class BadValue(UsageError):
    """A value, unit or name that PostgreSQL or MrTuner does not know."""


class Refused(MrTunerError):
    """What was asked is possible but unsafe."""

    exit_code = 4


class DoesNotFit(Refused):
    """The worst case does not fit the memory; the hint names which input has to change."""


class ConnectCause(StrEnum):
    """Why there is no session, where that is known."""

    POOLER = "connected through a pooler"
    PASSWORD = "the password was not accepted"  # noqa: S105 - a message
    NOT_ADMITTED = "the server rejects this user from this address"
    NO_DATABASE = "there is no such database"
    NO_ROLE = "there is no such user"
    NO_SLOT = "the server has no free connection"
    DATABASE_FULL = "the database has reached its connection limit"
    ROLE_FULL = "the role has reached its connection limit"
    STARTING = "the server is starting or stopping"
    NO_HOST = "there is no such host"
    REFUSED = "nothing is listening there"
    TIMEOUT = "the server does not respond"
    CLOSED = "the server closed the connection"
    NO_SERVICE = "there is no such service"
    TLS = "no TLS connection could be made"


#: Causes that lie with the server: others who ask for the same have no session either.
OF_THE_SERVER: Final = frozenset({
    ConnectCause.NO_SLOT, ConnectCause.DATABASE_FULL, ConnectCause.ROLE_FULL,
    ConnectCause.STARTING, ConnectCause.REFUSED, ConnectCause.TIMEOUT, ConnectCause.CLOSED,
})  # fmt: skip

#: Causes with which a server may be down; with any other, something answers there.
MAY_BE_DOWN: Final = frozenset({ConnectCause.REFUSED, ConnectCause.CLOSED})


class ConnectError(MrTunerError):
    """No usable session with the server: address, password, pooler, start-up, permission."""

    def __init__(
        self, message: str, hint: str | None = None, *, cause: ConnectCause | None = None
    ) -> None:
        super().__init__(message, hint)
        self.cause = cause


class MissingPart(MrTunerError):
    """A program, an optional package or a permission that this step needs is not there."""


class ApplyError(MrTunerError):
    """A change did not go through. The message says which settings are in force now."""


class NotPutBack(ApplyError):
    """What was in force for a measurement could not be taken back."""


#: DuckDB takes Ctrl-C for itself, and raises a RuntimeError with these words.
_BY_DUCKDB = "Query interrupted"


def interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused this error, even if a later error in the cleanup hides that."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        if isinstance(error, RuntimeError) and str(error) == _BY_DUCKDB:
            return True
        error = error.__cause__ or error.__context__
    return False
