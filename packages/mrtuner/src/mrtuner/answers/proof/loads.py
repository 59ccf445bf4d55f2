"""What `mrtuner prove` measures: pgbench's tables, the user's scripts, or the user's statements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.proof.sides import ADVISED, CURRENT
from mrtuner.errors import MrTunerError, Refused, UsageError

if TYPE_CHECKING:
    from mrtuner.bench.load.pgbench import Builtin
    from mrtuner.bench.load.statements import Replay
    from mrtuner.bench.plan.model import Plan, Script, Workload
    from mrtuner.bench.plan.sizing import Size
    from mrtuner.bench.series import LeftOut, Task
    from mrtuner.postgres.explain import Statement
    from mrtuner.tuning import Tuning

_NAMES: Final = {
    "tpcb": "pgbench's TPC-B-like transaction",
    "select": "pgbench's select by key",
    "simple-update": "pgbench's simple update",
}
_SHOWN: Final = 60  # letters of a statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options that describe the load; None where MrTuner is to choose."""

    builtin: Builtin = "tpcb"
    scripts: tuple[Path, ...] = ()
    statements: int | None = None
    statements_from: str | None = None
    known: tuple[Statement, ...] = ()  # they were read already
    here: bool = False  # on the data in the connection string's database
    writes: bool = False
    rate: str | None = None
    scale: int | None = None
    clients: int | None = None
    seconds: int | None = None
    warmup: int = 15
    blocks: int = 10
    calibrate: int = 3
    delta: float = 0.03
    seed: int | None = None
    database: str = "mrtuner_proof"

    def check(self, dsn: str | None) -> None:
        """Refuse dangerous or meaningless options before a server is touched."""
        from mrtuner.bench.plan.model import Plan, Variant, Workload
        from mrtuner.bench.proof import check_database

        check_database(self.database)
        scale, clients, seconds = (
            1 if size is None else size for size in (self.scale, self.clients, self.seconds)
        )
        Plan(
            workloads=(Workload(name=self.builtin, builtin=self.builtin),),
            variants=(Variant(name=CURRENT), Variant(name=ADVISED)),
            scales=(scale,), clients=(clients,), seconds=seconds, warmup=self.warmup,
            blocks=self.blocks, calibrate=self.calibrate, delta=self.delta,
        )  # fmt: skip
        if self.statements is not None and self.scripts:
            raise UsageError(
                "--statements and --script exclude each other", "Give only one of them."
            )
        if self.statements_from is not None and self.statements is None:
            raise UsageError("--statements-from needs --statements", "Add --statements N.")
        if self.here and self.statements is None and not self.scripts:
            raise UsageError("--on-this-data needs a load", "Add --statements N or --script FILE.")
        if self.here and dsn is None:
            raise UsageError(
                "the embedded server has none of your data", "Give a connection string."
            )
        if self.statements is not None and not self.here:
            raise Refused(
                "--statements runs on the server's own data",
                "Restore a copy, give its connection string and add --on-this-data. Do not use "
                "production.",
            )
        if self.writes and not self.here:
            raise UsageError(
                "--writes is for your own data",
                "Leave it out: the proof may write to its own tables.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to measure on a server: one load, on which database, and what is left out."""

    task: Task
    database: str
    left_out: tuple[LeftOut, ...] = ()
    conditions: tuple[str, ...] = ()
    busy: str | None = None
    replay: Replay | None = None  # of statements


def ask(wish: Wish, tuning: Tuning, dsn: str, *, busy: str | None = None) -> Question:
    """Return the question about one load, sized by options, else by the machine and the data."""
    replay = _replay(wish, dsn) if wish.statements is not None else None
    workload = _workload(wish, replay)
    size = _size(wish, tuning, reads_only=workload.reads_only)
    plan = _plan(wish, workload, size)
    return Question(
        task=_task(wish, plan, replay),
        database=database_name(dsn) if wish.here else wish.database,
        left_out=tuple(_left_out(replay)) if replay else (),
        conditions=tuple(_conditions(wish, size, replay)),
        busy=busy,
        replay=replay,
    )


def _task(wish: Wish, plan: Plan, replay: Replay | None) -> Task:
    from mrtuner.bench.series import Task

    if replay is not None:
        many = len(replay.statements)
        return Task(
            title="your statements",
            why=f"{many} of pg_stat_statements, as often as they were called",
            plan=plan,
        )  # fmt: skip
    if wish.scripts:
        names = ", ".join(path.name for path in wish.scripts)
        return Task(title="your scripts", why=f"{names}, unchanged", plan=plan)
    return Task(
        title=wish.builtin, why=f"{_NAMES[wish.builtin]} at scale {plan.scales[0]}", plan=plan
    )


def _workload(wish: Wish, replay: Replay | None) -> Workload:
    from mrtuner.bench.plan.model import Workload

    reads = wish.here and not wish.writes
    if replay is not None:
        return workload_of(replay, reads=reads)
    if wish.scripts:
        return Workload(
            name="scripts", scripts=tuple(_script(path) for path in wish.scripts), reads=reads
        )
    return Workload(name=wish.builtin, builtin=wish.builtin)


def workload_of(replay: Replay, *, reads: bool) -> Workload:
    """Return statements as a load. They are planned each time.

    Prepared, each set of values would be a statement of its own, planned once. Comments are run,
    since they may be hints to the planner, and not recorded, since they may hold anything.
    """
    from mrtuner.bench.plan.model import Workload
    from mrtuner.history.recording.statement_text import normalized

    scripts = tuple(
        replace(one, statement=normalized(one.statement, positions=True)) for one in replay.scripts
    )
    return Workload(name="statements", scripts=scripts, reads=reads, protocol="simple")


def _script(path: Path) -> Script:
    from mrtuner.bench.plan.model import Script

    try:
        return Script(name=path.name, text=path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise MrTunerError(f"cannot read {path}: {error}", "Give a pgbench script.") from error


def _size(wish: Wish, tuning: Tuning, *, reads_only: bool) -> Size:
    """The sizes given as options; for the others, what fits the machine, with the reasons."""
    from mrtuner.bench.plan.sizing import size_for

    situation, host = tuning.situation, tuning.host
    chosen = size_for(
        memory=situation.memory.size if situation.memory else None,
        cpus=situation.cpus.count if situation.cpus else None,
        data=situation.data.size if situation.data else None,
        disk_free=host.disk_free.value if host and host.disk_free else None,
        reads_only=reads_only,
    )
    said = {
        name: value
        for name in ("scale", "clients", "seconds")
        if (value := getattr(wish, name)) is not None
    }
    needless = {*said, "scale"} if wish.here else set(said)  # the user's own data has no scale
    why = {name: text for name, text in chosen.why.items() if name not in needless}
    return replace(chosen, **said, why=why)


def _plan(wish: Wish, workload: Workload, size: Size) -> Plan:
    from mrtuner.bench.plan.model import Plan, Variant, fresh_seed

    return Plan(
        name="proof", workloads=(workload,), scales=(1 if wish.here else size.scale,),
        clients=(size.clients,), rates=_rates(wish.rate),
        variants=(Variant(name=CURRENT), Variant(name=ADVISED)),
        blocks=wish.blocks, calibrate=wish.calibrate, seconds=size.seconds, warmup=wish.warmup,
        threads=threads(size.clients), delta=wish.delta,
        seed=fresh_seed() if wish.seed is None else wish.seed, standing=wish.here,
    )  # fmt: skip


def _rates(said: str | None) -> tuple[str, ...]:
    """The rates to run: a share of the slower side's maximum needs that maximum measured first."""
    if said is None:
        return ("",)
    return ("", said) if said.endswith("%") else (said,)


def _replay(wish: Wish, dsn: str) -> Replay:
    """Read the statements, from another server if one is named, and find those that can be run."""
    from mrtuner.bench.load.statements import replay
    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.explain import top_statements

    statements = wish.known
    if not statements:
        with connect(wish.statements_from or dsn) as session:
            statements = top_statements(session, wish.statements or 0)
    if not statements:
        raise MrTunerError(
            "pg_stat_statements has no statements of that database",
            "Give the database in the connection string, and let the application run for a while.",
        )
    with connect(dsn, own_search_path=True) as session:
        found = replay(session, statements, seed=wish.seed or 0, writes=wish.writes)
    if not found.scripts:
        why = "; ".join(dict.fromkeys(one.why for one in found.left_out))
        raise MrTunerError(
            f"none of the {len(statements)} statements can be replayed: {why}",
            "Write them as pgbench scripts: --script FILE.",
        )
    return found


def _left_out(found: Replay) -> Iterator[LeftOut]:
    from mrtuner.bench.series import LeftOut

    for one in found.left_out:
        yield LeftOut(
            title=shortened(one.statement.text), why=one.why,
            remedy="To measure it, write it as a pgbench script: --script FILE.",
        )  # fmt: skip


def _conditions(wish: Wish, size: Size, found: Replay | None) -> Iterator[str]:
    if found is not None:
        yield (
            f"statements for {found.share:.0%} of the time of all that were examined are replayed; "
            "their parameters are values of sampled rows, not those of real calls"
        )
    yield from size.why.values()
    if wish.here:
        yield (
            "run on your own data"
            + ("" if wish.writes else ", in read-only sessions")
            + "; the proof did not create or drop any of it"
        )


def database_name(dsn: str) -> str:
    """Return the name of the database that a connection string leads to."""
    from mrtuner.bench.server.session import one_row
    from mrtuner.postgres.connect import connect

    with connect(dsn) as session:
        return str(one_row(session, "SELECT current_database()")[0])


def shortened(query: str) -> str:
    """Return the beginning of a statement, on one line."""
    text = " ".join(query.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def threads(clients: int) -> int:
    """Threads for pgbench: no more than clients, or than CPUs here."""
    return max(1, min(clients, os.cpu_count() or 1))
