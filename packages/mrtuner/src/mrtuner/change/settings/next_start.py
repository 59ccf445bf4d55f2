"""The settings that a server would start with next: a draft, over its files, over what is in force.

A change that somebody else has made to the files takes effect at the same restart as ours, so both
have to be right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.change.settings import live
from mrtuner.change.settings.live import FileSetting, InForce
from mrtuner.change.settings.plan import HIDDEN, PendingSetting
from mrtuner.postgres.conf_file import elements, number, with_unit
from mrtuner.postgres.secret_settings import is_secret

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: Sources of pg_settings that take precedence over every file.
_ABOVE_FILES: Final = frozenset({"command line", "override"})
#: Contexts of what a reload changes for new sessions at least.
_RELOADED: Final = frozenset({"sighup", "superuser-backend", "backend", "superuser", "user"})
#: What archive_command shows while there is no archiving, whatever the files set.
_DISABLED: Final = "(disabled)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStart:
    """The server as it runs, and what is different at its next start."""

    major: int
    running: Mapping[str, InForce]
    changed: Mapping[str, str]  # configuration text, by name
    restarts: bool  # whether the restart is part of the change
    guessed: tuple[str, ...] = ()  # lose their entry, and the role may not see the other files
    unseen: tuple[str, ...] = ()  # wait for the restart with a value that the role may not see
    written: Mapping[str, str] | None = None  # by the files; None: the role may not see them

    def text(self, name: str) -> str:
        """The value at the next start; empty if this server has no such parameter."""
        if name in self.changed:
            return self.changed[name]
        return self.running[name].setting if name in self.running else ""

    def text_with_edits(self, name: str) -> str:
        """As `text`; of what only a reload would change, too, what the files say now."""
        row = self.running.get(name)
        if name in self.changed or self.written is None or row is None:
            return self.text(name)
        if row.source in _ABOVE_FILES:
            return row.setting
        return self.written.get(
            name, row.boot_val or "" if row.source == "configuration file" else row.setting
        )

    def number(self, name: str) -> int:
        """A numeric value at the next start, in base units; 0 without the parameter."""
        row = self.running.get(name)
        return 0 if row is None else int(number(self.text(name), row.vartype, row.unit) or 0)

    def list(self, name: str) -> tuple[str, ...]:
        return elements(self.text(name))

    def concerns(self, *names: str) -> bool:
        return any(name in self.changed for name in names)

    def lowers(self, name: str) -> bool:
        return self.concerns(name) and self.number(name) < int(self.running[name].setting)

    def raises(self, name: str) -> bool:
        return self.concerns(name) and self.number(name) > int(self.running[name].setting)

    @property
    def needs_restart(self) -> bool:
        """Whether something changes that only a restart puts into force."""
        return any(self.running[name].context == "postmaster" for name in self.changed)


def next_start(
    conn: Connection, draft: Mapping[str, str | None], file_name: str, *, restarts: bool
) -> NextStart:
    """Read what the next start would use; None in the `draft` removes the entry of `file_name`.

    What only waits for a restart counts if there is a restart.
    """
    lines = live.file_lines(conn)
    running = live.in_force(conn)  # after the files: reading them flags what waits
    wanted = {name: value for name, value in draft.items() if name in running}
    changed = {
        name: _without_entry(running[name], lines or (), file_name) if value is None else value
        for name, value in wanted.items()
    }
    others = [row for row in running.values() if row.name not in wanted and _waits(row)]
    if restarts and lines is not None:
        changed |= _waiting(others, lines)
    return NextStart(
        major=conn.info.server_version // 10000,
        running=running,
        changed=changed,
        restarts=restarts,
        guessed=tuple(name for name in wanted if wanted[name] is None and lines is None),
        unseen=tuple(row.name for row in others) if restarts and lines is None else (),
        written=None if lines is None else _written(lines),
    )


def written(conn: Connection, names: Iterable[str]) -> dict[str, str] | None:
    """What the files set these to, in force or not, by name; None if the role may not see them."""
    lines = live.file_lines(conn)
    if lines is None:
        return None
    found = {name: _last(name, lines) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def unloaded(conn: Connection, names: Collection[str] = ()) -> tuple[PendingSetting, ...]:
    """What the next reload puts into force besides `names`: lines that others wrote or removed.

    Empty if the role may not see the files.
    """
    lines = live.file_lines(conn)
    if lines is None:
        return ()
    last = {line.name.lower(): line for line in lines if line.name}
    found = ((row, last.get(row.name.lower())) for row in live.in_force(conn).values())
    return tuple(
        _to_come(row, line)
        for row, line in found
        if row.name not in names and _is_unloaded(conn, row, line)
    )


def _is_unloaded(conn: Connection, row: InForce, line: FileSetting | None) -> bool:
    if row.context not in _RELOADED or row.hidden or row.source in _ABOVE_FILES:
        return False
    if row.setting == _DISABLED or (line is not None and line.error is not None):
        return False
    if line is None and row.source != "configuration file":
        return False
    value = (row.boot_val if line is None else line.value) or ""
    return not row.gives(value) and live.shown(conn, row, value) != row.setting


def _to_come(row: InForce, line: FileSetting | None) -> PendingSetting:
    if is_secret(row.name):
        return PendingSetting(name=row.name, before=HIDDEN, value=HIDDEN)
    before, default = (with_unit(text or "", row.vartype, row.unit)
                       for text in (row.setting, row.boot_val))  # fmt: skip
    value = f"{default} (its default)".lstrip() if line is None else line.value or ""
    return PendingSetting(name=row.name, before=before, value=value)


def _written(lines: Sequence[FileSetting]) -> dict[str, str]:
    return {line.name.lower(): line.value for line in lines if line.name and line.value is not None}


def _waits(row: InForce) -> bool:
    return row.pending_restart and row.source not in _ABOVE_FILES


def _waiting(rows: Sequence[InForce], lines: Sequence[FileSetting]) -> dict[str, str]:
    """The values that others have written; pending_restart alone does not prove a difference."""
    found = ((row, _last(row.name, lines)) for row in rows)
    values = ((row, row.boot_val or "" if value is None else value) for row, value in found)
    return {row.name: value for row, value in values if not row.gives(value)}


def _without_entry(row: InForce, lines: Sequence[FileSetting], file_name: str) -> str:
    """The value once the entry of our file is gone: that of another file, or the default."""
    others = [line for line in lines if not live.is_file(line.sourcefile, file_name)]
    value = _last(row.name, others)
    return row.boot_val or "" if value is None else value


def _last(name: str, lines: Sequence[FileSetting]) -> str | None:
    return next(_values(name, reversed(lines)), None)


def _values(name: str, lines: Iterator[FileSetting]) -> Iterator[str]:
    for line in lines:
        if (line.name or "").lower() == name.lower() and line.value is not None:
            yield line.value
