"""A search for settings on a server of our own, from the advice on, with a record that resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from mrtuner import __version__
from mrtuner.answers.proof.loads import Wish, ask, database_name, threads
from mrtuner.answers.proof.prove import busy, pgbench
from mrtuner.answers.recorded import Tell, silent
from mrtuner.answers.settings_search.resuming import (
    machine_of,
    require_accepted,
    require_database,
    require_same,
)
from mrtuner.answers.settings_search.statements import (
    MOST,
    left_out,
    read_statements,
    replayed,
    searched_statements,
)
from mrtuner.bench.plan.model import fresh_seed
from mrtuner.bench.record.model import now
from mrtuner.bench.server import scratch
from mrtuner.bench.server.copying import database_size
from mrtuner.errors import MrTunerError
from mrtuner.inputs import MachineInputs, checked
from mrtuner.search import record
from mrtuner.search.model import (
    Costs,
    Schedule,
    Search,
    SearchedLoad,
    Settings,
)
from mrtuner.search.schedule import forecast, schedule, warming
from mrtuner.tuning import changes, pgtune, tune
from mrtuner.tuning.crash_recovery import replay
from mrtuner.units import Bytes, GiB, parse_duration, pretty_bytes, pretty_duration

if TYPE_CHECKING:
    from mrtuner.answers.proof.loads import Question
    from mrtuner.bench.engine.events import Event, Progress, Stage
    from mrtuner.bench.load.pgbench import Builtin
    from mrtuner.bench.plan.model import Workload
    from mrtuner.search.procedure import Measuring
    from mrtuner.search.server import Measurements, OwnServer
    from mrtuner.search.space import Server
    from mrtuner.tuning import Tuning

    #: Shows the events of a measurement while its block lasts.
    Shown = Callable[[], AbstractContextManager[Progress | None]]

DIRECTORY: Final = Path("mrtuner-search")
BUDGET: Final = "20min"
#: For WAL, which a trial may let grow, and for the machine itself.
_RESERVE: Final = Bytes(6 * GiB)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWish:
    """What is to be searched; None where MrTuner is to choose."""

    builtin: Builtin = "tpcb"
    scripts: tuple[Path, ...] = ()  # pgbench scripts instead
    scale: int | None = None
    clients: int | None = None
    budget: float | str = BUDGET  # seconds, or text
    keep: Collection[str] = ()  # settings that stay as advised
    seed: int | None = None
    rate: float | None = None  # the goal is the p99 latency at this rate [1/s]; None: throughput
    copied: str | None = None  # connection string of a database to copy, instead of pgbench's
    statements: bool = False  # replay what runs in that database
    history: Path | None = None  # where it was recorded; None: its pg_stat_statements
    instance: str | None = None

    def load(self, planned: Schedule) -> Wish:
        here = self.copied is not None
        return Wish(
            builtin=self.builtin, scripts=self.scripts, scale=self.scale, clients=self.clients,
            seed=fresh_seed() if self.seed is None else self.seed, seconds=planned.window,
            warmup=planned.warmup, here=here, writes=here,
            statements=MOST if self.statements else None, statements_from=self.copied,
        )  # fmt: skip


def search(
    directory: Path = DIRECTORY,
    wish: SearchWish | None = None,
    *,
    server_bin: Path | None = None,
    tell: Tell = silent,
    progress: Shown = nullcontext,
    **machine: Unpack[MachineInputs],
) -> Search:
    """Search for settings better than the advice, on a server of our own, and confirm them.

    The server is filled by pgbench, or gets a copy of a database, and is removed afterwards.
    `memory` and `iops` of `machine`, the inputs of `tune`, also limit the server, which takes root.
    `directory` gets the record after each step; `resume` goes on where an interrupted search was.
    `result` of the answer has only settings that fresh pairs confirmed.

    Raises:
        Refused: there is a search in `directory` already.
        MissingPart: there is no optuna, no scipy, no pgbench, or a limit cannot be set here.
        MrTunerError: the advice does not run, or several trials in a row do not.
    """
    wish = wish or SearchWish()
    planned = schedule(parse_duration(wish.budget), rate=wish.rate)
    load = wish.load(planned)
    load.check(wish.copied)
    record.require_new(directory)
    given = checked(machine)
    with locked(directory), _server(server_bin, given, tell) as own:
        known = own.known()
        known.require(wish.keep)
        tuning = tune(own.dsn, **machine)
        inside = own.dsn
        if wish.statements:  # before the copy is made, whose statements are none of the load
            load = replace(load, known=read_statements(wish))
        if wish.copied is not None:
            inside = _copied(own, wish.copied, tuning, tell)
        question = ask(load, tuning, inside)
        if wish.copied is None:
            _require_space(scratch.size_of_database(question.task.plan.scales[0]), own, tuning)
        made = Search(
            mrtuner=__version__, postgres=own.version, started=now(),
            seed=question.task.plan.seed, schedule=planned, keep=tuple(sorted(wish.keep)),
            load=_load(question, given, wish), machine=plain(given), advice={},
            baselines={},
            busy=busy(tell), goal="throughput" if wish.rate is None else "p99",
        )  # fmt: skip
        made.unknown.extend(left_out(made.load))
        conditions = question.conditions if wish.copied is None else ()  # of a proof's databases
        for text in (*made.unknown, made.load.title, *conditions, *forecast(planned)):
            tell(text)
        workload = question.task.plan.workloads[0]
        run = _Run(
            made, own, _with_memory(known, tuning), workload, directory, pgbench(server_bin), tell
        )
        if wish.copied is None:
            run.fill()
        tuning = tune(own.dsn, **machine)  # now it knows how much data there is
        run.start_from(tuning)
        return run.carried_out(tuning, progress)


def resume(
    directory: Path,
    *,
    copied: str | None = None,
    server_bin: Path | None = None,
    tell: Tell = silent,
    progress: Shown = nullcontext,
) -> Search:
    """Go on with an interrupted search; a finished one is returned as it is.

    `copied` is the connection string of the database, if it ran on a copy of one.
    Raises UsageError if there is none in `directory`, Refused if it ran on another version.
    """
    found = record.load(directory)
    if found.result is not None:
        return found
    require_database(found, copied)
    machine: MachineInputs = {**found.machine}  # type: ignore[typeddict-item]
    with locked(directory), _server(server_bin, checked(machine), tell) as own:
        tuning = tune(own.dsn, **machine)
        known = _with_memory(own.known(), tuning)
        require_same(found, own.version, tuning)
        require_accepted(found, known)
        inside = None if copied is None else _copied(own, copied, tuning, tell)
        workload = _workload(found, inside)
        run = _Run(found, own, known, workload, directory, pgbench(server_bin), tell)
        if inside is None:
            run.fill()
        return run.carried_out(tune(own.dsn, **machine), progress)


def _copied(own: OwnServer, dsn: str, tuning: Tuning, tell: Tell) -> str:
    """Copy a database; return the connection string of the copy."""
    size = database_size(dsn)
    _require_space(size, own, tuning)
    tell(f"copying the database: {pretty_bytes(size)} at most")
    return own.copy(dsn)


def _require_space(size: Bytes, own: OwnServer, tuning: Tuning) -> None:
    """Require space for the data [bytes] of each server; Refused if there is too little."""
    copies = 2 if own.may_have_twin(tuning.host) else 1
    scratch.require_space(Bytes(copies * size), _RESERVE, tuning.host)


def _with_memory(known: Server, tuning: Tuning) -> Server:
    memory = tuning.situation.memory
    return known if memory is None else replace(known, memory=int(memory.size))


@dataclass(frozen=True, slots=True)
class _Run:
    """A search on its server."""

    made: Search
    own: OwnServer
    known: Server
    workload: Workload
    directory: Path
    program: Path  # pgbench
    tell: Tell

    def fill(self) -> None:
        self.tell(f"filling it at scale {self.made.load.scale}")
        self.own.fill(self.made.load.scale or 1, self.program)

    def start_from(self, tuning: Tuning) -> None:
        """Take the advice, and what else one might use."""
        advised = {one.name: one.value for one in tuning.changes}
        advice = self.made.advice = _texts(advised, self.known)
        self.made.baselines = {
            origin: kept_in(side, advice, self.made.keep)
            for origin, side in _baselines(tuning, self.known, self.tell).items()
        }
        recall(self.made, tuning)

    def carried_out(self, tuning: Tuning, progress: Shown) -> Search:
        @contextmanager
        def measuring(clock: Clock) -> Iterator[Measurements]:
            from mrtuner.search.server import sides

            with sides(self.own, tuning.host) as servers:
                measurements = self._measurements(servers, tuning, clock.moved)
                seconds = len(servers) * warming(self.made.schedule)
                clock.say(f"the load runs for {seconds} s first, or until it is no longer faster")
                measurements.warm_up(self.made.advice)
                yield measurements

        return carried_out(
            self.made, self.known, tuning, directory=self.directory, measuring=measuring,
            tell=self.tell, progress=progress,
        )  # fmt: skip

    def _measurements(
        self, servers: tuple[OwnServer, ...], tuning: Tuning, shown: Progress
    ) -> Measurements:
        from mrtuner.bench.plan.model import GridCell
        from mrtuner.search.server import Measurements

        made, workload = self.made, self.workload
        clients = made.load.clients or 1
        rate = "" if made.load.rate is None else f"{made.load.rate:.9g}"
        return Measurements(
            own=servers, known=self.known, workload=workload,
            cell=GridCell(workload.name, made.load.scale or 1, clients, rate),
            threads=threads(clients), schedule=made.schedule, seed=made.seed,
            program=self.program, host=tuning.host, kept=self.directory, progress=shown,
            recordable=not made.load.statements,
        )  # fmt: skip


def recall(made: Search, tuning: Tuning) -> None:
    """Note the machine, and what earlier searches of this load found on it."""
    made.cpus, made.memory = machine_of(tuning)
    made.earlier = record.earlier(made)


def carried_out(
    made: Search,
    known: Server,
    tuning: Tuning,
    *,
    directory: Path,
    measuring: Callable[[Clock], AbstractContextManager[Measuring]],
    tell: Tell,
    progress: Shown,
) -> Search:
    """Carry out what is not done yet, with what `measuring` makes ready."""
    from mrtuner.search.procedure import Procedure

    with progress() as shown:
        clock = Clock(made, shown, tell)
        with measuring(clock) as measurements:
            clock.begin()
            made = Procedure(
                search=made,
                measuring=measurements,
                server=known,
                fits=changes.fits(tuning, made.advice),
                costs=lambda side: costs(tuning, known, side, live=made.live),
                keep=lambda done: record.save(done, directory),
                tell=clock.say,
            ).run()
    try:
        record.remember(made)
    except MrTunerError as error:  # the result is no worse for it
        tell(f"warning: {error.message}")
    return made


class Clock:
    """Shows how much of the budget is spent, whatever runs meanwhile."""

    def __init__(self, made: Search, shown: Progress | None, tell: Tell) -> None:
        self.budget, self.shown, self.tell = made.schedule.budget, shown, tell
        once = (made.calibration, made.confirmation, made.reduced, made.long_runs)
        done = (*made.trials, *once, *(one.measured for one in made.ablation))
        self.spent = sum(one.seconds for one in done if one is not None)
        self.began = time.monotonic()

    def begin(self) -> None:
        """Count from now on: what came before is no part of the budget."""
        self.began = time.monotonic()

    def moved(self, event: Event) -> None:
        """Show an event of a race, which is worth no line that stays: a trial is one line."""
        from mrtuner.bench.engine.events import Stage

        lasting = {Stage.MEASURED, Stage.NOTE, Stage.DONE}
        self._show(Stage.MEASURING if event.stage in lasting else event.stage, event.text)

    def say(self, text: str) -> None:
        """Show a line that stays."""
        from mrtuner.bench.engine.events import Stage

        if self.shown is None:
            self.tell(text)
        else:
            self._show(Stage.NOTE, text)

    def _show(self, stage: Stage, text: str) -> None:
        from mrtuner.bench.engine.events import Event

        if self.shown is not None:
            spent = self.spent + time.monotonic() - self.began
            self.shown(Event(stage, round(spent), round(self.budget), text))


def _load(question: Question, given: Mapping[str, Any], wish: SearchWish) -> SearchedLoad:
    plan = question.task.plan
    workload = plan.workloads[0]
    return SearchedLoad(
        builtin=workload.builtin, scripts=() if question.replay else workload.scripts,
        scale=plan.scales[0] if wish.copied is None else None, clients=plan.clients[0],
        memory=given.get("memory"), iops=given.get("iops"), rate=wish.rate,
        database=None if wish.copied is None else database_name(wish.copied),
        statements=() if question.replay is None else searched_statements(question.replay),
    )  # fmt: skip


def _workload(found: Search, inside: str | None) -> Workload:
    """Return the load of a search that goes on; statements draw their values again."""
    from mrtuner.bench.plan.model import Workload

    load = found.load
    if load.builtin is not None:
        return Workload(name=load.builtin, builtin=load.builtin)
    if inside is not None and load.statements:
        return replayed(inside, load.statements, found.seed)
    return Workload(name="scripts", scripts=load.scripts)


@contextmanager
def _server(server_bin: Path | None, given: Mapping[str, Any], tell: Tell) -> Iterator[OwnServer]:
    from mrtuner.postgres.binaries import find_binaries
    from mrtuner.search.server import own_server

    tell(f"starting a temporary PostgreSQL {find_binaries(server_bin).version}")
    with own_server(server_bin, memory=given.get("memory"), iops=given.get("iops")) as own:
        yield own


def _baselines(tuning: Tuning, known: Server, tell: Tell) -> dict[str, dict[str, str]]:
    """Return what else one might use; what this build does not accept is left out, and said."""
    found: dict[str, dict[str, str]] = {"default": {}}
    machine = pgtune.machine_of(tuning.situation)
    if machine is None:
        tell("PgTune's values are not compared: the memory or the CPUs are not known")
        return found
    theirs = {name: one.value for name, one in pgtune.settings(machine).items()}
    refused = known.refuses(theirs)
    if refused:
        tell(f"left out of PgTune's values: {', '.join(refused)}")
    kept = {name: text for name, text in theirs.items() if name not in refused}
    return found | {"pgtune": _texts(kept, known)}


def kept_in(side: Settings, advice: Settings, keep: Collection[str]) -> dict[str, str]:
    """Return a side with the settings to keep as the advice has them, or does not."""
    others = {name: text for name, text in side.items() if name not in keep}
    return others | {name: text for name, text in advice.items() if name in keep}


def _texts(side: Settings, known: Server) -> dict[str, str]:
    """Return settings in their shortest form, without those that are the default anyway."""
    texts = {name: known.shown(name, text) for name, text in side.items()}
    return {name: text for name, text in texts.items() if text != known.default(name)}


def costs(tuning: Tuning, known: Server, side: Settings, *, live: bool = False) -> Costs:
    """Return the worst case of memory, and of recovery after a crash."""
    from mrtuner.tuning.feasibility import in_force

    situation = replace(tuning.situation, running={**tuning.situation.running, **side})
    budget = in_force(situation)
    wal = known.bytes("max_wal_size", situation.running if live else side)
    pace = replay(situation)
    fast, slow = (pretty_duration(wal / speed) for speed in (pace.fast, pace.slow))
    return Costs(
        memory=None if budget is None else int(budget.total),
        replay=f"{fast} to {slow} for {pretty_bytes(wal)} of WAL (max_wal_size), {pace.how}",
    )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a search's directory, and translate what the server reports."""
    from mrtuner.bench.record.archive import locked
    from mrtuner.postgres.connect import translated

    with ExitStack() as stack:
        stack.enter_context(locked(directory))
        stack.enter_context(translated())
        yield


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as JSON has them."""
    return {
        name: sorted(value)
        if isinstance(value, frozenset)
        else str(value)  # a member of an enumeration
        if isinstance(value, str)
        else value
        for name, value in given.items()
    }
