"""Prove one configuration against another on a server of somebody's, by randomised paired runs.

A proof is a grid of one cell on servers that are there already. What differs is said by `Conduct`:
a database of the name that the plan gives, an end at the first error, and everything dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mrtuner.bench import guard
from mrtuner.bench.events import Progress
from mrtuner.bench.grid.archive import Archive, contents, load
from mrtuner.bench.grid.campaign import carry_out
from mrtuner.bench.grid.cells import again, blocks
from mrtuner.bench.grid.cells import seconds_expected as seconds_of_grid
from mrtuner.bench.grid.ground import Conduct, Ground
from mrtuner.bench.grid.measure import RunFiles
from mrtuner.bench.grid.plan import GridPlan, Script, Variant, Workload
from mrtuner.bench.grid.runner import head
from mrtuner.bench.pgbench import Load, find_pgbench
from mrtuner.bench.record import Order, Phase, Plan, Record, now
from mrtuner.bench.series import Measured, Task
from mrtuner.errors import BadValue
from mrtuner.host.model import Host
from mrtuner.postgres.connect import translated


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of the comparison.

    `activate` puts its settings in force, restarts the server if they need it, and returns when
    `dsn` answers again. It is called before every run of the arm, and whichever ran last stays
    active. Runs start alike only if it does the same each time and for every arm: it restarts
    the server for all of them, or for none.
    """

    name: str
    dsn: str = field(repr=False)  # may hold a password
    activate: Callable[[], None] = field(repr=False)


def prove(
    arms: Sequence[Arm],
    plan: Plan,
    *,
    progress: Progress | None = None,
    program: Path | None = None,
    host: Host | None = None,
) -> Record:
    """Measure the arms against each other; the first is the one to beat.

    It makes databases of its own on each server (`plan.database` and its working copy), refuses
    any of that name that no proof made, and drops them at the end, on an error and on Ctrl-C.
    Raises Refused for a standby and for arms of unequal durability, MissingPart without the
    right to create databases or to run CHECKPOINT, MrTunerError when a run fails.
    """
    grid, program = _grid(plan, _names(arms)), program or find_pgbench()
    conduct = Conduct(
        what="proof", database=plan.database, fillfactor=plan.fillfactor, theirs=True, force=True
    )
    with _carried_out(arms, grid, conduct, progress, program, host) as (place, ground):
        return _record(plan, load(place).of_cell(blocks(grid)[0].cell), grid, ground)


def prove_load(
    arms: Sequence[Arm],
    task: Task,
    *,
    database: str,
    progress: Progress | None = None,
    program: Path | None = None,
    host: Host | None = None,
) -> Measured:
    """The same for a load of a series, with all that the collectors see.

    Where the task's plan says that its data stand, `database` is somebody's: it is used as it is
    and not dropped. Raises what `prove` raises.
    """
    _names(arms)
    conduct = Conduct(what="proof", database=database, theirs=True, force=True)
    program = program or find_pgbench()
    with _carried_out(arms, task.plan, conduct, progress, program, host) as (place, _):
        return Measured(title=task.title, why=task.why, contents=contents(place))


def _names(arms: Sequence[Arm]) -> list[str]:
    names = [arm.name for arm in arms]
    if len(arms) < 2 or len({*names, again(names[0])}) <= len(names):
        raise BadValue("a proof needs two arms or more, of different names", "Name each once.")
    return names


@contextmanager
def _carried_out(
    arms: Sequence[Arm], grid: GridPlan, conduct: Conduct, progress: Progress | None,
    program: Path, host: Host | None,
) -> Iterator[tuple[Path, Ground]]:  # fmt: skip
    """Measured into a directory, which goes with the block; and what it stood on."""
    with (
        translated(),
        TemporaryDirectory(prefix="mrtuner-proof-") as name,
        guard.directory_removed(Path(name)),
    ):
        place = Path(name)
        archive = Archive.create(
            place / "record", head(grid, host, program, local=True, forced=False)
        )
        files = RunFiles(grid, place, program, patience=0)  # its warm-up is as long as it says
        ground = Ground(grid, _servers(arms), archive, files, conduct, progress)
        carry_out(ground, host)
        yield place / "record", ground


def seconds_expected(arms: int, plan: Plan) -> float:
    """A guess at the whole length [s], restarts and copies at a few seconds a run."""
    return seconds_of_grid(_grid(plan, [f"arm-{number}" for number in range(arms)]))


class _Theirs:
    """A server that runs anyway; to start it is to activate an arm."""

    data = None
    companions: Sequence[int] = ()
    layered = nullcontext[None]

    def __init__(self, arm: Arm, site: str) -> None:
        self.dsn, self.site, self.start = arm.dsn, site, arm.activate

    def stop(self) -> None:
        """It goes on running."""


def _servers(arms: Sequence[Arm]) -> Mapping[str, _Theirs]:
    first: dict[str, str] = {}
    return {arm.name: _Theirs(arm, first.setdefault(arm.dsn, arm.name)) for arm in arms}


def _grid(plan: Plan, names: Sequence[str]) -> GridPlan:
    """The one cell of a proof."""
    load = plan.load
    return GridPlan(
        name="proof", workloads=(_workload(load),), scales=(load.scale,), clients=(load.clients,),
        # What a proof keeps has no place for what collectors see.
        variants=tuple(Variant(name=name, collect=False) for name in names),
        blocks=plan.blocks, calibrate=plan.calibrate, seconds=load.seconds, warmup=plan.warmup,
        threads=load.threads, delta=plan.delta, seed=plan.seed,
        steal_limit=plan.steal_limit, foreign_limit=plan.foreign_limit,
    )  # fmt: skip


def _workload(load: Load) -> Workload:
    file = load.script_file
    if file is None:
        return Workload(name=load.script, builtin=load.script, protocol=load.protocol)
    script = Script(name=file.name, text=file.read_text(encoding="utf-8"))
    return Workload(name="script", scripts=(script,), protocol=load.protocol)


def _record(plan: Plan, record: Record, grid: GridPlan, ground: Ground) -> Record:
    scripts = grid.workloads[0].scripts
    return replace(
        record,
        plan=plan,
        calibration_order=_order(grid, "calibration"),
        order=_order(grid, "comparison"),
        notes=ground.notes,
        local=ground.local,
        script=scripts[0].text if scripts else None,
        ended=now(),
    )


def _order(grid: GridPlan, phase: Phase) -> Order:
    return tuple(block.labels for block in blocks(grid) if block.phase == phase)
