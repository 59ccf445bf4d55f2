"""What ALTER ROLE and ALTER DATABASE set: for whom, how it is reset, and what holds for all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mrtuner.findings import Command
from mrtuner.postgres.conf_file import (
    LIST_QUOTED,
    elements,
    entry,
    in_base_units,
    number,
    same_value,
    with_unit,
)
from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.postgres.quoting import literal
from mrtuner.postgres.secret_settings import shown
from mrtuner.tuning.feasibility import NEED_MEMORY
from mrtuner.tuning.situation import OF_OUR_SESSION
from mrtuner.vacuum.commands import reset
from mrtuner.wording import as_name, first_few

if TYPE_CHECKING:
    from mrtuner.postgres.model import Override, Pending, Server, Setting
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
    """How the files get the values in force again, for changes that wait; without names all.

    What MrTuner has not written, mrtuner undo does not know.
    """
    waiting = [one for one in may_go_back(server) if not names or one.name in names]
    for one in waiting[:_SHOWN] if server.platform.alter_system else ():
        if one.place or one.removed:
            yield _taken_back(one, server.settings.get(one.name))


def may_go_back(server: Server) -> list[Pending]:
    """The changes that wait, but for what a standby raises: its primary may have as much already.

    Below its primary, a standby does not start. Source: documentation, Hot Standby.
    """
    return [
        one for one in server.pending
        if not server.standby or one.name not in FOLLOW_PRIMARY or _lowers(server, one)
    ]  # fmt: skip


def _lowers(server: Server, one: Pending) -> bool:
    now = server.settings[one.name]
    then = number((now.boot_val if one.removed else one.value) or "", now.vartype, now.unit)
    return then is not None and then < float(now.setting)


def _taken_back(one: Pending, now: Setting | None) -> str:
    """Not simply RESET: what other files say, or the default, need not be the value in force."""
    where = one.place or "the configuration files"
    if now is None or shown(one.name, now.setting) != now.setting:
        return f"Set {one.name} back to the value in force in {where}"
    at_once = one.removed or "postgresql.auto.conf:" in where
    then = now.boot_val if one.elsewhere is None else one.elsewhere
    if at_once and same_value(one.name, then or "", now.setting, now.vartype, now.unit):
        return Command(f"ALTER SYSTEM RESET {one.name};")
    value = with_unit(now.setting, now.vartype, now.unit)
    parts = elements(value) if one.name in LIST_QUOTED else (value,)
    if not at_once or not parts:  # ALTER SYSTEM cannot set an empty list
        return f"Write {entry(one.name, value)} in {where}"
    bare = number(value, now.vartype, None) is not None
    return Command(
        f"ALTER SYSTEM SET {one.name} = {value if bare else ', '.join(map(literal, parts))};"
    )


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
