"""The change that undoes another: each entry as it is now, and as it was before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.change.record import Change, ParameterChange
from mrtuner.change.settings import live
from mrtuner.change.settings.draft import (
    by_alter_system,
    entries_now,
    include_text,
    off,
    require_permission,
)
from mrtuner.change.settings.file_errors import refuse_broken_files
from mrtuner.change.settings.live import Identity, InForce
from mrtuner.change.settings.restart import Restart
from mrtuner.errors import Refused
from mrtuner.postgres.conf_file import entries, with_unit

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


def undo_draft(
    conn: Connection, who: Identity, done: Change, restart: Restart, force: bool
) -> tuple[Change, dict[str, str]]:
    """The change that undoes another, and what it leaves in force until a restart."""
    conf_dir = Path(done.file or "").parent if done.method == "include file" else None
    names = done.names
    require_permission(conn, names, conf_dir)
    rows = live.in_force(conn, names)
    restarts = restart.run is not None and _needs_restart(done, rows)
    refuse_broken_files(conn, names, restarts)
    if done.method == "include file":
        found = _undo_include_draft(who, done, rows, force)
    else:
        now = entries_now(conn, rows)
        if not force:
            _refuse_changed(done, rows, now)
        found = by_alter_system(conn, who, _turned(done, rows, now), restarts)
    found = replace(found, undoes=done.id, restarts=restarts)
    return found, {} if restarts else _mixture(done, rows)


def _undo_include_draft(
    who: Identity, done: Change, rows: Mapping[str, InForce], force: bool
) -> Change:
    now = include_text(Path(done.file or ""))
    if now not in (done.text_after, done.text_before) and not force:
        raise Refused(
            f"{done.file} was changed since",
            "Undo those changes first, or overwrite them with --force.",
        )
    return replace(
        done,
        started=who.started,
        address=who.address,
        entries=_turned(done, rows, entries(now or "")),
        text_before=now,
        text_after=done.text_before,
    )


def _refuse_changed(done: Change, rows: Mapping[str, InForce], now: Mapping[str, str]) -> None:
    changed = [
        f"{one.name} (now {now.get(one.name.lower(), 'not set')}, MrTuner set {one.after})"
        for one in done.entries
        if not any(
            _same_entry(rows.get(one.name), text, now.get(one.name.lower()))
            for text in (one.after, one.before)  # as before already: nobody is overwritten
        )
    ]
    if changed:
        raise Refused(
            f"settings were changed since: {', '.join(changed)}",
            "Restore them first, or overwrite them with --force.",
        )


def _same_entry(row: InForce | None, a: str | None, b: str | None) -> bool:
    if a is None or b is None or row is None:
        return a == b
    return row.same(a, b)


def _turned(
    done: Change, rows: Mapping[str, InForce], now: Mapping[str, str]
) -> tuple[ParameterChange, ...]:
    """Entries that lead from the present values back to those before the change.

    What the server no longer knows, as it has no such library any more, has an entry all the same.
    """
    return tuple(
        replace(
            one,
            before=now.get(one.name.lower()),
            after=one.before,
            in_force=rows[one.name].setting if one.name in rows else "",
        )
        for one in done.entries
        if one.name in rows or now.get(one.name.lower()) != one.before
    )


def _needs_restart(done: Change, rows: Mapping[str, InForce]) -> bool:
    return any(off(one, rows) for one in done.entries if one.restart)


def _mixture(done: Change, rows: Mapping[str, InForce]) -> dict[str, str]:
    """The values in force after an undo without a restart, if old and new mix; else empty."""
    if not _needs_restart(done, rows) or all(one.restart for one in done.entries):
        return {}
    known = [(one, rows[one.name]) for one in done.entries if one.name in rows]
    return {
        one.name: with_unit(row.setting if one.restart else one.in_force, row.vartype, row.unit)
        for one, row in known
    }
