"""The change that a plan calls for: each entry as it is now and as it will be.

A draft is made after every check that can be made beforehand; drafting changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.change.record import Change, ParameterChange
from mrtuner.change.settings import live
from mrtuner.change.settings.data_directory import belongs_to, read_text, runs_here
from mrtuner.change.settings.file_errors import refuse_broken_entries, refuse_broken_files
from mrtuner.change.settings.live import AUTO_CONF, Identity, InForce
from mrtuner.change.settings.next_start import NextStart, next_start, written
from mrtuner.change.settings.plan import SettingsPlan, SettingStep
from mrtuner.change.settings.restart import Restart
from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.conf_file import (
    LIST_QUOTED,
    elements,
    entries,
    with_entries,
    with_unit,
)
from mrtuner.postgres.secret_settings import is_secret

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: The only file that --conf-dir writes.
INCLUDE_FILE = "mrtuner.conf"


def draft(
    conn: Connection, who: Identity, plan: SettingsPlan, restart: Restart, conf_dir: Path | None
) -> Change:
    """The change that a plan calls for, after every check that can be made beforehand."""
    names = [step.name for step in plan.steps]
    restarts = bool(plan.restart) and restart.run is not None
    require_permission(conn, names, conf_dir)
    refuse_broken_files(conn, names, restarts)
    rows = live.in_force(conn, names)
    _refuse_stale(plan, rows, written(conn, names))
    if conf_dir is not None:
        return _include_draft(who, plan, restarts, conf_dir)
    refuse_broken_entries(conn, names)
    before = entries_now(conn, rows)
    return by_alter_system(conn, who, _entries(plan, before), restarts)


def start_after(conn: Connection, change: Change) -> NextStart:
    """The settings of the next start once a change is carried out."""
    wanted = {one.name: one.after for one in change.entries}
    file = change.file if change.method == "include file" else None
    return next_start(conn, wanted, file or AUTO_CONF, restarts=change.restarts)


def _entries(plan: SettingsPlan, before: Mapping[str, str]) -> tuple[ParameterChange, ...]:
    return tuple(_entry(step, before.get(step.name.lower()), step.value) for step in plan.steps)


def _entry(step: SettingStep, before: str | None, after: str | None) -> ParameterChange:
    return ParameterChange(
        name=step.name, before=before, after=after, restart=step.restart, in_force=step.in_force
    )


def require_permission(conn: Connection, names: Sequence[str], conf_dir: Path | None) -> None:
    if conf_dir is None:
        live.require_alter_system(conn, names)
    live.require_reload(conn)
    if not live.may_read_settings(conn):
        raise MissingPart(
            "this role may not see where settings come from, so they could not be restored exactly",
            "GRANT pg_read_all_settings to it, or connect as a superuser.",
        )


def by_alter_system(
    conn: Connection, who: Identity, steps: tuple[ParameterChange, ...], restarts: bool
) -> Change:
    """A change by ALTER SYSTEM. Of postgresql.auto.conf, only its own entries are recorded."""
    return Change(
        server=who.server,
        address=who.address,
        method="alter system",
        entries=steps,
        restarts=restarts,
        started=who.started,
        system_identifier=who.system_identifier,
        file=who.auto_conf,
        local=_is_local(conn, who),
    )


def _is_local(conn: Connection, who: Identity) -> bool:
    """Whether we could replace postgresql.auto.conf ourselves if the server were down."""
    if who.data_directory is None:
        return False
    directory = Path(who.data_directory)
    here = runs_here(directory, conn.info.port, who.started)
    return here and belongs_to(directory, who.system_identifier)


def _include_draft(who: Identity, plan: SettingsPlan, restarts: bool, conf_dir: Path) -> Change:
    """A change of the include file; settings of earlier changes stay in it."""
    file = conf_dir.resolve() / INCLUDE_FILE
    text = include_text(file)
    before = entries(text or "")
    wanted = {step.name: step.value for step in plan.steps}
    return Change(
        server=who.server,
        address=who.address,
        method="include file",
        entries=_entries(plan, before),
        restarts=restarts,
        started=who.started,
        system_identifier=who.system_identifier,
        file=str(file),
        local=True,
        text_before=text,
        text_after=with_entries(text or _HEADER, wanted),
    )


def include_text(file: Path) -> str | None:
    """The include file's text, journalled to restore it exactly; None if there is no file."""
    text = read_text(file)
    if secret := sorted(filter(is_secret, entries(text or ""))):
        raise Refused(
            f"{file} sets {', '.join(secret)}, which may hold a password",
            "Move that line to another file: the journal stores the whole of this one.",
        )
    return text


_HEADER = "# Written by mrtuner apply; `mrtuner undo` restores what was here before.\n"


def entries_now(conn: Connection, rows: Mapping[str, InForce]) -> dict[str, str]:
    """The entries of postgresql.auto.conf for these names; missing ones are left out."""
    lines = live.file_lines(conn)
    if lines is not None:
        found = live.values_in(lines, AUTO_CONF)
    else:
        seen = {name.lower(): _entry_in_force(row) for name, row in rows.items()}
        found = {name: value for name, value in seen.items() if value is not None}
    for name in LIST_QUOTED.intersection(rows):
        if name in found and not elements(found[name]):
            raise Refused(
                f"postgresql.auto.conf sets {name} to an empty list, which could not be restored",
                f"Remove it first: ALTER SYSTEM RESET {name}.",
            )
    return found


def _entry_in_force(row: InForce) -> str | None:
    """The entry as far as pg_settings shows it, for a role that may not read the files."""
    if row.pending_restart or row.hidden:
        raise MissingPart(
            f"this role cannot see what postgresql.auto.conf sets for {row.name}",
            "Connect as a superuser.",
        )
    if not live.is_file(row.sourcefile, AUTO_CONF):
        return None
    return with_unit(row.setting, row.vartype, row.unit)


def _refuse_stale(
    plan: SettingsPlan, rows: Mapping[str, InForce], there: Mapping[str, str] | None
) -> None:
    def changed(row: InForce | None, step: SettingStep) -> bool:
        if row is None or not (row.hidden or row.setting == step.in_force):
            return True
        if there is None or step.written is None:
            return False
        return not row.same(step.written, there.get(step.name, ""))

    stale = [step.name for step in plan.steps if changed(rows.get(step.name), step)]
    if stale:
        raise Refused(
            f"changed on the server since the plan was made: {', '.join(stale)}",
            "Run again to plan with the current values.",
        )


def off(one: ParameterChange, rows: Mapping[str, InForce]) -> bool:
    """Whether the value in force differs from the one before the change, and a file decides it."""
    row = rows.get(one.name)
    return row is not None and not row.commanded and row.setting != one.in_force
