"""Which of the wanted settings to write to a server, which not, and why.

Pure: takes a server already read, returns a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.errors import BadValue
from mrtuner.postgres.conf_file import number, same_value, with_unit
from mrtuner.postgres.model import FOLLOW_PRIMARY, Override, Pending, Server, Setting
from mrtuner.postgres.secret_settings import is_secret, shown

#: Origins that show a session's own value, hiding the one from the files.
_OF_A_SESSION: Final = frozenset({"role", "database", "client", "session"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A wanted setting: configuration text, to be parsed by the server."""

    name: str
    value: str
    restart: bool = False  # what the advice assumed; the server's own context decides


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingStep:
    """One setting to write."""

    name: str
    value: str
    before: str  # the value in force, as a person writes it: 128MB
    in_force: str  # the same value as in pg_settings.setting: 16384
    restart: bool  # takes effect only when the server restarts
    lowers: bool
    written: str | None = None  # in the files, in force or not; empty: nothing; None: not looked at
    notes: tuple[str, ...] = ()  # where it will still not be in force


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """One wanted setting that is not written, and why."""

    name: str
    value: str
    why: str
    hint: str | None = None  # what to do instead


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSetting:
    """An earlier change, no part of this one, that comes into force as well."""

    name: Annotated[str, Doc("the parameter")]
    before: Annotated[str, Doc("the value in force")]
    value: Annotated[str, Doc("the value to come")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPlan:
    """What an apply would do. Steps that lower a value come first, so no prefix needs more."""

    steps: tuple[SettingStep, ...]
    left_alone: tuple[LeftAlone, ...] = ()
    refused: tuple[LeftAlone, ...] = ()  # unsafe here: if there is any, nothing is applied
    pending: tuple[PendingSetting, ...] = ()  # made earlier, by anyone; for the next restart
    reloaded: tuple[PendingSetting, ...] = ()  # as well, for the next reload
    unchecked: tuple[str, ...] = ()  # what nobody could find out about the next start
    elsewhere: str | None = None  # how settings are changed here, if not by us

    @property
    def reload(self) -> tuple[SettingStep, ...]:
        return tuple(step for step in self.steps if not step.restart)

    @property
    def restart(self) -> tuple[SettingStep, ...]:
        return tuple(step for step in self.steps if step.restart)


#: Instead of a value that may be a secret.
HIDDEN: Final = "(not shown)"
_PRIMARY_FIRST: Final = "Change the primary first, or leave this setting out."


def plan(server: Server, wanted: Sequence[Wanted]) -> SettingsPlan:
    """Check every wanted setting against the server. BadValue if one is given twice."""
    named = {name.lower(): name for name in server.settings}  # names are alike in any case
    wanted = [replace(one, name=named.get(one.name.lower(), one.name)) for one in wanted]
    refuse_doubles(one.name for one in wanted)
    left: list[LeftAlone] = []
    refused: list[LeftAlone] = []
    steps: list[SettingStep] = []
    for one in wanted:
        if why := _why_left_alone(server, one):
            left.append(LeftAlone(name=one.name, value=_shown(one), why=why))
        elif why := _why_refused(server, one):
            refused.append(LeftAlone(name=one.name, value=one.value, why=why, hint=_PRIMARY_FIRST))
        else:
            steps.append(_step(server, one))
    return SettingsPlan(
        steps=tuple(sorted(steps, key=lambda step: not step.lowers)),
        left_alone=tuple(left),
        refused=tuple(refused),
        pending=tuple(_pending(server, {step.name for step in steps})),
        elsewhere=_elsewhere(server),
    )


def _pending(server: Server, written: Collection[str]) -> Iterator[PendingSetting]:
    for one in server.pending:
        setting = server.settings.get(one.name)
        if setting is not None and one.name not in written:
            before = with_unit(setting.setting, setting.vartype, setting.unit)
            if is_secret(one.name):
                before = HIDDEN
            yield PendingSetting(name=one.name, before=before, value=_value_to_come(one, setting))


def _value_to_come(one: Pending, setting: Setting) -> str:
    if is_secret(one.name):
        return HIDDEN
    if one.removed:
        default = with_unit(setting.boot_val or "", setting.vartype, setting.unit)
        return f"{default} (its default)".lstrip()
    return "another value" if one.value is None else one.value


def _shown(wanted: Wanted) -> str:
    return HIDDEN if is_secret(wanted.name) else wanted.value


def _elsewhere(server: Server) -> str | None:
    """How settings are changed here if a platform or an operator manages them.

    A self-managed server that forbids ALTER SYSTEM still accepts an include file.
    """
    platform = server.platform
    return None if platform.alter_system or platform.name == "self-managed" else platform.how


def refuse_doubles(wanted: Iterable[str]) -> None:
    """Raise BadValue if a name is given more than once."""
    names = Counter(wanted)
    if doubles := [name for name, times in names.items() if times > 1]:
        raise BadValue(f"given more than once: {', '.join(doubles)}", "Give each setting once.")


def _why_left_alone(server: Server, wanted: Wanted) -> str | None:
    if how := _elsewhere(server):
        return how
    setting = server.settings.get(wanted.name)
    if setting is None:
        return "this server has no such parameter"
    if _already(setting, wanted.value) and setting.context != "internal":
        overrides = [one for one in server.overrides if one.name == setting.name]
        said = "".join(f"; {_statement(one)} overrides it in those sessions" for one in overrides)
        return f"it is already {_shown(wanted)}{said}"
    return _why_not_ours(setting)


def _why_not_ours(setting: Setting) -> str | None:
    if setting.context == "internal":
        return "it is fixed when the server is built or initialised"
    if is_secret(setting.name):  # the journal stores what is written
        return "it may contain a password, which the journal would store: set it with ALTER SYSTEM"
    if setting.origin == "command line":
        return "it is set on the command line, which overrides every file"
    return None


def _already(setting: Setting, value: str) -> bool:
    if setting.pending_restart or setting.origin in _OF_A_SESSION:
        return False
    return same_value(setting.name, value, setting.setting, setting.vartype, setting.unit)


def _why_refused(server: Server, wanted: Wanted) -> str | None:
    setting = server.settings[wanted.name]
    if server.standby and wanted.name in FOLLOW_PRIMARY and _lowers(setting, wanted.value):
        return (
            f"this is a standby, which stops if {wanted.name} is lower than on its "
            f"primary; it is {setting.setting} now"
        )
    return None


def _lowers(setting: Setting, value: str) -> bool:
    before = number(setting.setting, setting.vartype, setting.unit)
    after = number(value, setting.vartype, setting.unit)
    return before is not None and after is not None and after < before


def _step(server: Server, wanted: Wanted) -> SettingStep:
    setting = server.settings[wanted.name]
    return SettingStep(
        name=wanted.name,
        value=wanted.value,
        before=with_unit(setting.setting, setting.vartype, setting.unit),
        in_force=setting.setting,
        restart=setting.context == "postmaster",
        lowers=_lowers(setting, wanted.value),
        notes=tuple(_notes(server, setting, wanted.value)),
    )


def _notes(server: Server, setting: Setting, value: str) -> Iterator[str]:
    for override in server.overrides:
        if override.name == setting.name:
            yield f"{_statement(override)} overrides it in those sessions"
    if setting.origin in _OF_A_SESSION:
        yield "whether the files already say so is not known: this role may not read them"
    slots = server.settings.get("autovacuum_worker_slots")
    if setting.name == "autovacuum_max_workers" and slots and int(value) > int(slots.setting):
        yield f"only {slots.setting} of them can run: autovacuum_worker_slots is {slots.setting}"


def _statement(override: Override) -> str:
    role = f"ALTER ROLE {override.role or 'ALL'}"
    where = f" IN DATABASE {override.database}" if override.database else ""
    who = f"ALTER DATABASE {override.database}" if override.role is None and where else role + where
    return f"{who} SET {override.name} = '{shown(override.name, override.value)}'"
