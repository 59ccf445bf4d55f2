"""The advice as commands, for people to read before running them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mrtuner.escape import damaged, printable
from mrtuner.findings import Command, by_hand
from mrtuner.postgres.model import RELOAD, Override
from mrtuner.postgres.quoting import identifier, literal
from mrtuner.vacuum.model import Table, TableReport

if TYPE_CHECKING:
    from mrtuner.vacuum.assess import Vacuum


def qualified(table: Table) -> str:
    return f"{identifier(table.schema)}.{identifier(table.name)}"


def drop_slot(name: str) -> str:
    """Return the command that drops a replication slot."""
    return f"SELECT pg_drop_replication_slot({literal(name)});"


def reset(one: Override, then: str = "") -> Command:
    """The statement that takes a known parameter's back."""
    target = (
        f"ROLE {identifier(one.role)}" if one.role
        else f"DATABASE {identifier(one.database)}" if one.database else "ROLE ALL"
    )  # fmt: skip
    inside = f" IN DATABASE {identifier(one.database)}" if one.role and one.database else ""
    return Command(f"ALTER {target}{inside} RESET {one.name};{then}")


def commands(found: Vacuum) -> str:
    """ALTER TABLE for every table with advice, what sets the server's; ends in a newline.

    ALTER TABLE … SET takes a SHARE UPDATE EXCLUSIVE lock: it waits for a running vacuum and
    for other ALTERs, but not for readers and writers.
    """
    return "\n".join(_lines(found)) + "\n"


def conf(found: Vacuum) -> str:
    """Only the server's settings, as lines of a configuration file (`mrtuner apply --from`)."""
    lines = [
        _comment(f"Autovacuum settings of the server, from database {found.picture.database}", "#")
    ]
    for one in found.settings:
        lines += [_comment(one.because, "#"), f"{one.name} = '{one.value}'"]
    return "\n".join(lines) + "\n"


def _lines(found: Vacuum) -> Iterator[str]:
    yield _comment(f"Autovacuum settings for database {found.picture.database}")
    yield "SET lock_timeout = '5s';"
    for one in found.tables:
        if one.advice:
            yield from _alter(one)
    for setting in found.settings:
        yield ""
        yield _comment(setting.because + ("; needs a restart" if setting.restart else ""))
        by_sql = found.picture.platform.alter_system
        yield setting.remedy.removesuffix(f" {RELOAD}") if by_sql else _comment(setting.remedy)
    if any(setting.remedy.endswith(RELOAD) for setting in found.settings):
        yield f"\n{RELOAD}"


def _alter(one: TableReport) -> Iterator[str]:
    yield ""
    yield _comment(f"{one.kind}: {one.because}")
    for because in dict.fromkeys(item.because for item in one.advice):
        yield _comment(because)
    body = ", ".join(f"{item.name} = {item.value}" for item in one.advice)
    command = f"ALTER TABLE {qualified(one.table)} SET ({body});"
    yield _comment(by_hand(command)) if damaged(command) else command


def _comment(text: str, mark: str = "--") -> str:
    """Make a comment of one line: a table's name may contain a line break, and SQL after it."""
    return f"{mark} {printable(' '.join(text.split()))}"
