"""Who made the recorded changes: read from the journal of the user who runs the viewer.

Only the settings, values, times and steps of an entry are shown, never the files that a change
wrote.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from mrtuner import notation
from mrtuner.catalog.platforms import newest
from mrtuner.change.journal import Step, changes_with_steps, journal_directory
from mrtuner.change.record import Change, ParameterChange, State
from mrtuner.errors import MrTunerError, UsageError
from mrtuner.history.analysis.changes import HistoryChange, changes
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.recorded.machine import facts
from mrtuner.history.recorded.settings import other_value_between
from mrtuner.history.store.opening import last_identity

#: Two clocks may differ by this much. A new setting is seen only at the next sample.
_CLOCKS: Final = timedelta(minutes=1)
#: A restart, or RDS's event about it, comes at most this long after the step that asked for it.
_SOON: Final = timedelta(minutes=15)
#: Kinds of recorded changes that may be MrTuner's.
_LOOKED_UP: Final = frozenset({"setting", "restart", "rds", "machine"})
#: The only fact of a machine that MrTuner changes.
_GROUP: Final = "parameter_group"
#: host:port, or host:port/database of what is in one; the host may be a socket directory.
_ADDRESS: Final = re.compile(r"(.+?):([0-9]+)(?:/(.*))?", re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributed:
    """A recorded change, and the number of the journal's entry that explains it, if any."""

    change: HistoryChange
    by: str
    entry: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A change that MrTuner made to the server, and its steps."""

    change: Change
    steps: tuple[Step, ...]

    @property
    def began(self) -> datetime:
        return datetime.fromisoformat(self.change.began)

    @property
    def ended(self) -> datetime:
        return self.steps[-1].at if self.steps else self.began


def attributed_changes(history: History, about: HistoryPeriod) -> list[Attributed]:
    """Return the recorded changes of a period, each with whether MrTuner made it."""
    return history.once(
        ("changes", about), lambda: attributed(history, about, changes(history, about))
    )


def attributed(
    history: History, about: HistoryPeriod, found: Sequence[HistoryChange]
) -> list[Attributed]:
    """Say of each recorded change whether MrTuner made it."""
    if not any(one.what in _LOOKED_UP for one in found):
        return [Attributed(change=one, by="") for one in found]
    try:
        made = _made(history, about.instance)
    except MrTunerError as error:
        return [Attributed(change=one, by=f"not known: {error.message}") for one in found]
    return [_attributed(history, about, one, made) for one in found]


def _attributed(
    history: History, about: HistoryPeriod, one: HistoryChange, made: Sequence[Made] | None
) -> Attributed:
    if one.what not in _LOOKED_UP or (one.what == "machine" and one.name != _GROUP):
        return Attributed(change=one, by="")
    if made is None:
        return Attributed(change=one, by="no journal of MrTuner here")
    author = next((each for each in reversed(made) if _explains(history, about, each, one)), None)
    if author is not None:
        return Attributed(
            change=one, by=f"MrTuner's change {author.change.id}", entry=author.change.id
        )
    return Attributed(change=one, by="" if one.what == "rds" else "not changed by MrTuner")


def _explains(history: History, about: HistoryPeriod, made: Made, one: HistoryChange) -> bool:
    if one.at < made.began - _CLOCKS:
        return False
    if one.what == "restart":
        asked = [step.at for step in made.steps if step.state is State.RESTARTING]
        return any(at - _CLOCKS <= one.at <= at + _SOON for at in asked)
    if one.what == "rds":
        return made.change.group is not None and one.at <= made.ended + _SOON
    if one.what == "machine":
        group = made.change.group
        return group is not None and (group.attached_before, group.attached_after) == (
            one.before, one.value
        )  # fmt: skip
    entry = next((each for each in made.change.entries if each.name == one.name), None)
    if entry is None or not _led_to(entry, one):
        return False
    # The first new value that was seen after the change is due to the change.
    return not other_value_between(history, about.instance, one, made.began - _CLOCKS)


def _led_to(entry: ParameterChange, one: HistoryChange) -> bool:
    """Whether the recorded value is the entry's; if it unset one, whether that was in force."""
    if entry.after is not None:
        return _same(entry.name, entry.after, one.value)
    return _same(entry.name, entry.in_force, one.before)


def _same(name: str, text: str, recorded: str | None) -> bool:
    """Compare a configuration text with the server's own, which is in the base unit."""
    if recorded is None:
        return False
    known = newest(name)
    if known is None:
        return text == recorded
    return notation.same(name, text, recorded, known.vartype, known.unit)


def _made(history: History, instance: str) -> list[Made] | None:
    """Return MrTuner's changes to an instance's server, oldest first; None without a journal."""
    found = changes_with_steps()
    if found is None:
        return None
    who = last_identity(history.db, instance)
    system = None if who is None else who.system
    described = facts(history, instance).get("identifier")
    identifier = described.value if described else None
    return [
        Made(change=change, steps=steps)
        for change, steps in found
        if _is_of(change, instance, system, identifier)
    ]


def _is_of(change: Change, instance: str, system: str | None, identifier: str | None) -> bool:
    if change.group is not None:
        return identifier is not None and change.group.identifier == identifier
    if change.method in {"storage parameters", "role settings"}:
        return system is not None and change.server.endswith(f" in {system}")
    if system is not None and change.system_identifier is not None:
        return change.system_identifier == system
    return change.address == instance


# One entry.


def entry(history: History, about: HistoryPeriod, number: int) -> tuple[Made, str]:
    """Return an entry of the journal, and the command that undoes it or why there is none.

    Raises:
        UsageError: there is no such change of this instance.
        JournalError: the journal cannot be read.
    """
    made = _made(history, about.instance) or []
    found = next((one for one in made if one.change.id == number), None)
    if found is None:
        raise UsageError(
            f"the journal has no change {number} of {about.instance}",
            f"It has {', '.join(str(one.change.id) for one in made)}." if made
            else "This user's journal has no change of it by MrTuner.",
        )  # fmt: skip
    return found, _undo(found, made)


def journal_owner() -> str:
    """Return the user who made the journal's changes: the owner of its file."""
    import pwd

    uid = (journal_directory() / "journal.sqlite3").stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _undo(found: Made, made: Sequence[Made]) -> str:
    """Return the command that undoes the change, or why there is none."""
    change = found.change
    if change.state is State.REVERTED:
        return "it has been undone"
    if not change.finished:
        return "it was interrupted: the next run of the same command finishes or reverts it"
    if change.undoes is not None:
        return "it is itself an undo"
    later = [
        one.change.id for one in made
        if one.change.id > change.id and one.change.server == change.server
        and one.change.state is State.VERIFIED and one.change.undoes is None
    ]  # fmt: skip
    first = f"after change {later[-1]} was taken back the same way: " if later else ""
    return first + shlex.join(_undo_words(change))


def _undo_words(change: Change) -> list[str]:
    from psycopg.conninfo import make_conninfo

    own = os.environ.get("MRTUNER_STATE_DIR")
    journal = ["--journal", str(Path(own).absolute())] if own else []
    if change.group is not None:
        return [
            "rdstune", "undo", change.group.identifier, "--region", change.group.region, *journal
        ]  # fmt: skip
    place = _ADDRESS.fullmatch(change.address)
    host, port, database = place.groups() if place else (change.address, None, None)
    dsn = make_conninfo(host=host, port=port, dbname=database or "postgres")
    if change.method == "storage parameters":
        return ["mrtuner", "vacuum", "undo", dsn, *journal]
    if change.method == "role settings":
        return ["mrtuner", "undo", dsn, "--roles", *journal]
    restart = ["--restart", "ask"] if any(one.restart for one in change.entries) else []
    return ["mrtuner", "undo", dsn, *restart, *journal]
