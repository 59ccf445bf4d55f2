"""A search on a server in use: its own load, settings that a reload changes, canary windows."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import randrange
from typing import TYPE_CHECKING, Final, Unpack

from mrtuner import __version__
from mrtuner.answers.proof.sides import Alone, Sides
from mrtuner.answers.recorded import Tell, silent
from mrtuner.answers.settings_search.own_server import (
    DIRECTORY,
    SearchWish,
    carried_out,
    locked,
    plain,
    recall,
)
from mrtuner.answers.settings_search.resuming import require_same
from mrtuner.bench.record.model import now
from mrtuner.change.settings import apply as changing
from mrtuner.change.settings import live
from mrtuner.change.settings.apply import Wanted
from mrtuner.change.settings.restart import NEVER
from mrtuner.errors import Refused
from mrtuner.inputs import MachineInputs, checked
from mrtuner.postgres.conf_file import with_unit
from mrtuner.postgres.connect import connect, impatient, translated
from mrtuner.postgres.named_queries import rows_of
from mrtuner.search import record
from mrtuner.search.model import Search, SearchedLoad, Settings, differences
from mrtuner.search.profile import table
from mrtuner.search.schedule import forecast, schedule
from mrtuner.search.space import inactive
from mrtuner.search.window import SHORTEST_BY_TRANSACTIONS
from mrtuner.tuning import changes, tune
from mrtuner.units import parse_duration
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.answers.settings_search.own_server import Clock, Shown
    from mrtuner.change.journal import Journal
    from mrtuner.postgres.connect import Connection
    from mrtuner.search.live import LiveMeasurements
    from mrtuner.search.space import Server
    from mrtuner.tuning import Tuning

_BY_STATEMENTS: Final = "statement time"
#: Whoever replays WAL must know the method: a build without it stops there.
_REPLAYED: Final = "wal_compression"


def search_live(
    dsn: str,
    directory: Path = DIRECTORY,
    wish: SearchWish | None = None,
    *,
    journal: Journal,
    confirm: Callable[[Search], None] = lambda _search: None,
    tell: Tell = silent,
    progress: Shown = nullcontext,
    resumed: bool = False,
    repair: str | None = None,
    **machine: Unpack[MachineInputs],
) -> Search:
    """Search for settings better than those in force, under a server's own load.

    Only settings that a reload changes are tried, each in a window between two untouched ones, by
    changes in `journal`, and taken back at the end of the window or as soon as its guard trips. Of
    `wish`, only the budget, `keep` and the seed count. `confirm` may raise before anything is
    changed. `resumed`: the search in `directory` goes on. `repair` is the command that takes back
    what a killed search left in force: it is run if we are killed.

    Raises:
        Refused: it is a standby, its settings are managed elsewhere, or a standby could pause.
        MissingPart: there is no optuna or no scipy, or a permission is missing.
        MrTunerError: no untouched windows are alike, or several trials in a row do not run.
    """
    wish = wish or SearchWish()
    dsn = impatient(dsn)
    made = record.load(directory) if resumed else None
    if made is None:
        record.require_new(directory)
    elif made.result is not None:
        return made
    else:
        machine = {**made.machine}  # type: ignore[typeddict-item]
    with locked(directory), Alone(dsn) as alone:
        _put_back(dsn, journal, tell)
        tuning = tune(dsn, **machine)
        known = _known(dsn, tuning)
        who = _identity(dsn)
        if made is None:
            made = _begun(dsn, wish, tuning, known, who, checked(machine))
        _require(dsn, tuning, made)
        require_same(made, tuning.server.version if tuning.server else "", tuning, who)
        known.require(made.keep)
        require_untouched(dsn, known, made.advice)
        _require_goal(dsn, made)
        for text in (made.load.title, *forecast(made.schedule)):
            tell(text)
        confirm(made)
        tried = Tried(dsn, made.advice, known, journal, changes.fits(tuning), tell, repair, alone)
        return _carried_out(tried, made, tuning, directory, progress)


def _begun(
    dsn: str, wish: SearchWish, tuning: Tuning, known: Server, who: str, given: Mapping[str, object]
) -> Search:
    assert tuning.server is not None  # noqa: S101 - it was tuned by its dsn
    from mrtuner.search.live import statement_times

    with connect(dsn) as session:
        in_force = _in_force(session, known, _searchable(known))
        by_statements = statement_times(session) is not None
    least = 0 if by_statements else SHORTEST_BY_TRANSACTIONS
    planned = schedule(parse_duration(wish.budget), live=True, least=least)
    advised = {
        one.name: known.shown(one.name, one.value)
        for one in tuning.changes
        if one.name in in_force and one.name not in wish.keep
    }
    return Search(
        mrtuner=__version__, postgres=tuning.server.version, started=now(),
        seed=randrange(2**31) if wish.seed is None else wish.seed,  # noqa: S311 - no secret
        goal=_BY_STATEMENTS if by_statements else "throughput",
        schedule=planned, keep=tuple(sorted(wish.keep)),
        load=SearchedLoad(
            builtin=None, scripts=(), scale=None, clients=None, memory=None, iops=None, server=who
        ),
        machine=plain(given), advice=in_force,
        baselines={"advice": in_force | advised} if advised else {},
    )  # fmt: skip


def _in_force(session: Connection, known: Server, names: Collection[str]) -> dict[str, str]:
    return {
        name: known.shown(name, with_unit(one.setting, one.vartype, one.unit))
        for name, one in live.in_force(session, list(names)).items()
    }


def require_untouched(dsn: str, known: Server, untouched: Settings) -> None:
    """Refuse a server whose settings are no longer those that all is compared with."""
    with connect(dsn) as session:
        now = _in_force(session, known, untouched)
    changed = [
        f"{name} was {value}, is {now.get(name, 'unknown')}"
        for name, value in untouched.items()
        if now.get(name) != value
    ]
    if changed:
        raise Refused(
            f"settings were changed since the search began: {', '.join(changed)}",
            "Restore them to go on, or begin another search in a new directory.",
        )


def _searchable(known: Server) -> set[str]:
    return {one["name"] for one in table()["knobs"]} & known.parameters.keys() - known.fixed.keys()


def _known(dsn: str, tuning: Tuning) -> Server:
    """Return what is known of the server; what no reload changes for all sessions is fixed."""
    from mrtuner.search.server import known

    assert tuning.server is not None  # noqa: S101 - it was tuned by its dsn
    found = known(dsn, tuning.server.major)
    fixed = {
        name: "it takes a restart, which a live server never gets"
        for name, one in found.parameters.items()
        if one.context not in {"sighup", "superuser", "user"}
    }
    fixed |= {one["name"]: one["live"] for one in table()["knobs"] if "live" in one}
    values = {name: one.setting for name, one in tuning.server.settings.items()}
    fixed |= {one["name"]: why for one in table()["knobs"] if (why := inactive(one, values))}
    fixed |= {
        one.name: "ALTER ROLE or ALTER DATABASE overrides it" for one in tuning.server.overrides
    }
    return replace(found, fixed=fixed)


def _identity(dsn: str) -> str:
    with connect(dsn) as session:
        return live.identify(session).server


def _require(dsn: str, tuning: Tuning, made: Search) -> None:
    """Refuse a server on which nothing may be tried, before anything is changed."""
    server = tuning.server
    assert server is not None  # noqa: S101 - it was tuned by its dsn
    if server.standby:
        raise Refused(
            "this server is a standby: a change could pause its replay", "Search on its primary."
        )
    if elsewhere := changing.plan(server, []).elsewhere:
        raise Refused("settings cannot be changed with ALTER SYSTEM here", elsewhere)
    from mrtuner.search.live import behind

    with connect(dsn) as session, translated():
        live.require_reload(session)
        behind(session)  # else the guard would be blind
        names = [name for name in made.advice if name not in made.keep]
        live.require_alter_system(session, names)
        replaying = [row["name"] for row in rows_of(session, "standbys", server.version_num)]
    if server.text("archive_mode") not in {"off", None}:
        replaying.append("whoever restores from the archive")
    if replaying and _REPLAYED not in made.keep:
        raise Refused(
            f"{enumerated(replaying)} would stop replay if built without a method of {_REPLAYED}",
            f"Add --keep {_REPLAYED}.",
        )


def _require_goal(dsn: str, made: Search) -> None:
    from mrtuner.search.live import statement_times

    with connect(dsn) as session:
        by_statements = statement_times(session) is not None
    if (made.goal == _BY_STATEMENTS) is not by_statements:
        raise Refused(
            "pg_stat_statements is not as it was when the search began",
            "Restore it, or begin another search in a new directory.",
        )


def _carried_out(
    tried: Tried, made: Search, tuning: Tuning, directory: Path, progress: Shown
) -> Search:
    from mrtuner.search.live import LiveMeasurements

    by_statements = made.goal == _BY_STATEMENTS
    if not made.trials and made.calibration is None:
        recall(made, tuning)
    if not by_statements and not made.unknown:
        made.unknown.append(
            "statement times: pg_stat_statements is not installed in this database, or hides some "
            "from this role; transactions a second count instead, which clients may decide"
        )

    @contextmanager
    def measuring(clock: Clock) -> Iterator[LiveMeasurements]:
        measurements = LiveMeasurements(
            dsn=tried.dsn, postmaster=tuning.server.local_pid if tuning.server else None,
            untouched=made.advice, trying=tried.during, by_statements=by_statements,
            schedule=made.schedule, progress=clock.moved,
        )  # fmt: skip
        with measurements.connected():
            yield measurements

    return carried_out(
        made, tried.known, tuning, directory=directory, measuring=measuring, tell=tried.tell,
        progress=progress,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tried:
    """Puts settings into force on a live server for a while."""

    dsn: str
    untouched: Settings
    known: Server
    journal: Journal
    fits: Callable[[Mapping[str, str]], bool]
    tell: Tell = silent
    repair: str | None = None  # the command that takes back what is tried
    alone: Alone | None = None

    @contextmanager
    def during(self, side: Settings) -> Iterator[None]:
        """Put a side into force during the block, as a change in the journal; then take it back.

        Raises Refused for a setting that would not come into force.
        """
        from mrtuner.search.live import PATIENCE

        if self.alone is not None:
            self.alone.hold()
        _put_back(self.dsn, self.journal, self.tell)  # what a failed trial may have left
        require_untouched(self.dsn, self.known, self.untouched)
        changed = differences(self.untouched, side, self.known.default)
        if not changed:
            yield
            return
        wanted = [Wanted(name=name, value=value) for name, (_, value) in changed.items()]
        sides = Sides(
            self.dsn, wanted, self.journal, NEVER, self.fits, tell=self.tell, repair=self.repair,
            often=True, patience=PATIENCE,
        )  # fmt: skip
        with _undone_if_killed(self.repair, sides), sides:
            sides.as_advised()
            if sides.plan is not None and sides.plan.left_alone:
                one = sides.plan.left_alone[0]
                raise Refused(f"{one.name} cannot be tried: {one.why}", f"Add --keep {one.name}.")
            yield


def _put_back(dsn: str, journal: Journal, tell: Tell) -> None:
    """Take back what a killed search, or a failed trial, left in force."""
    found = changing.finish_or_revert_settings(dsn, journal)
    if found is not None:
        tell("an interrupted change was cleaned up")
    last = journal.measured(_identity(dsn))
    if last is not None:
        done = changing.undo(dsn, journal, proof=True)
        tell(f"taken back, as a killed run had left it: {', '.join(done.changed) or 'nothing'}")
        if done.kept:
            tell(done.kept)


@contextmanager
def _undone_if_killed(repair: str | None, sides: Sides) -> Iterator[None]:
    """If we are killed inside the block, or fail to restore, `repair` is run at our end.

    It undoes only a measurement. A password that only the connection string has is not in it:
    command lines are public.
    """
    from mrtuner.bench.server import guard

    if repair is None:
        yield
        return
    with guard.repaired(_as_a_program(repair), lambda: not sides.left):
        yield


def _as_a_program(repair: str) -> list[str]:
    _, *words = shlex.split(repair)
    return [sys.executable, "-c", "from mrtuner.cli import main; main()", *words, "--yes"]
