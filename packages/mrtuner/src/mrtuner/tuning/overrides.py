"""What ALTER ROLE and ALTER DATABASE set: for whom, how it is reset, and what holds for all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mrtuner.findings import Command
from mrtuner.postgres.conf_file import in_base_units
from mrtuner.tuning.feasibility import NEED_MEMORY
from mrtuner.tuning.situation import OF_OUR_SESSION
from mrtuner.vacuum.commands import reset
from mrtuner.wording import as_name, first_few

if TYPE_CHECKING:
    from mrtuner.postgres.model import Override, Server
    from mrtuner.tuning.situation import Situation

_SHOWN: Final = 5


def whose(*found: Override) -> str:
    """``role report in database shop and database x``."""
    return first_few([_whose(one) for one in found], _SHOWN)


def _whose(one: Override) -> str:
    who = [f"role {as_name(one.role)}"] if one.role else []
    where = [f"database {as_name(one.database)}"] if one.database else []
    return " in ".join(who + where) or "all roles"


def resets(server: Server, found: Sequence[Override]) -> tuple[str, ...]:
    """The statements for several, which a standby's primary takes."""
    primary = ("On the primary:",) if server.standby else ()
    return (*primary, *(reset(one) for one in found[:_SHOWN]))


def switched(server: Server, name: str, to: str) -> tuple[Override, ...]:
    """Who has a switch in this position, on or off."""
    return tuple(
        one
        for one in server.overrides
        if one.name == name and in_base_units(one.value, "bool", None) == to
    )


def taken_back(server: Server, names: Collection[str] = ()) -> Iterator[str]:
    """How changes that wait for a restart are taken back where they are written; without names all.

    What MrTuner has not written, mrtuner undo does not know.
    """
    waiting = [one for one in server.pending if not names or one.name in names]
    for one in waiting[:_SHOWN] if server.platform.alter_system else ():
        if one.place and "postgresql.auto.conf:" in one.place:
            yield Command(f"ALTER SYSTEM RESET {one.name};")
        elif one.place:
            yield f"Take {one.name} back in {one.place}"


def servers_value(server: Server, name: str) -> str | None:
    """The server's own value; None where our session has another one, and hides it."""
    one = server.settings.get(name)
    return None if one is None or one.origin in OF_OUR_SESSION else one.setting


def for_all_roles(server: Server) -> tuple[Override, ...]:
    """Those of ALTER ROLE ALL that need memory: they hold in place of the server's own."""
    return tuple(
        one for one in server.overrides
        if not one.role and not one.database and one.name in NEED_MEMORY
        and one.name in server.settings
    )  # fmt: skip


def with_all_roles(situation: Situation, server: Server) -> Situation:
    """The situation with what ALTER ROLE ALL sets in place of the server's own values."""
    known = {one.name: server.settings[one.name] for one in for_all_roles(server)}
    values = {
        one.name: in_base_units(one.value, known[one.name].vartype, known[one.name].unit)
        for one in for_all_roles(server)
    }
    return replace(
        situation,
        running={**situation.running, **values},
        origins={**situation.origins, **dict.fromkeys(values, "file")},
    )
