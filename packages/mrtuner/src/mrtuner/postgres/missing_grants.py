"""Why the server refused a query, and the GRANT or other hint that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrtuner.facts import Missing

if TYPE_CHECKING:
    import psycopg

SEE_STATS: Final = "GRANT pg_monitor TO the role, or connect as a superuser."
SEE_SETTINGS: Final = "GRANT pg_read_all_settings TO the role, or connect as a superuser."
SEE_FILES: Final = (
    "GRANT SELECT ON pg_file_settings TO the role, and GRANT EXECUTE ON FUNCTION "
    "pg_show_all_file_settings() TO the role, in this database, or connect as a superuser."
)
#: Before 14; since then, everybody may read the columns that are needed.
SEE_SUBSCRIPTIONS: Final = (
    "GRANT SELECT ON pg_subscription TO the role, in this database, or connect as a superuser."
)
SAME_ENCODING: Final = "Connect to a database with the same encoding as the others."

_UPDATE: Final = "After an upgrade of the server: ALTER EXTENSION pg_stat_statements UPDATE;"


def not_read(fact: str, error: psycopg.Error, hint: str | None = None) -> Missing:
    """Return why the server refused a query; `hint` helps a role that may not run it."""
    from psycopg import errors

    why = refused(error)
    if isinstance(error, errors.InsufficientPrivilege):
        return Missing(fact, why, hint=grant(error, hint))
    if isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled)):
        return Missing(fact, why, hint="Run again when the server is less busy.")
    if isinstance(error, errors.UndefinedColumn):  # of an extension that is older than its server
        return Missing(fact, f"not available on this server: {why}", hint=_UPDATE)
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction)):
        return Missing(fact, f"not available on this server: {why}")
    if isinstance(error, (errors.FeatureNotSupported, errors.ObjectNotInPrerequisiteState)):
        return Missing(fact, why)
    unreadable = isinstance(
        error, (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire)
    )
    # Else such as what somebody dropped after the query had begun: a sequence (XX000), a database.
    again = "Run again: it may have been dropped meanwhile."
    return Missing(fact, why, hint=SAME_ENCODING if unreadable else again)


def grant(error: Exception, usual: str | None) -> str | None:
    """Return what helps a role that lacks a privilege: usually `usual`."""
    lacks_schema = "for schema" in refused(error)
    return "GRANT USAGE ON that schema TO the role." if lacks_schema else usual


def refused(error: Exception) -> str:
    """Return why the server refused a query: the first line of its message."""
    return str(error).partition("\n")[0]
