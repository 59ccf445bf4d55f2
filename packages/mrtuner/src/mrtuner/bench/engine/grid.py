"""Run a plan and record it in a directory, or continue the unfinished run there."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mrtuner import __version__
from mrtuner.bench.engine.blocks import carry_out
from mrtuner.bench.engine.events import Progress
from mrtuner.bench.engine.preparation import Conduct, Preparation
from mrtuner.bench.engine.run import RunFiles
from mrtuner.bench.load.pgbench import find_pgbench, pgbench_version
from mrtuner.bench.plan.model import GridCell, Plan
from mrtuner.bench.record.archive import Archive, load, locked
from mrtuner.bench.record.model import Record, assembled, host_facts, now, unlike
from mrtuner.bench.server import guard
from mrtuner.bench.server.variant import possible, servers
from mrtuner.errors import Refused
from mrtuner.host import Host, probe
from mrtuner.postgres.connect import translated

if TYPE_CHECKING:
    from mrtuner.bench.record.document import RunDocument


def run_grid(
    plan: Plan | None,
    directory: Path,
    *,
    embedded: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Record:
    """Run a plan and record it in a directory; without a plan, continue the unfinished run there.

    `embedded` is the PostgreSQL installation of variants that name none. Raises Refused for a
    busy machine (unless `force`, which marks the record), for too small a disk, for unequal
    durability of variants not marked `bound`, and if another run uses the directory; MrTunerError
    for a variant that does not start and for a script that does not run, both before anything is
    measured. Variants that this machine has no engine or no limits for are left out, and the
    record says so.
    """
    with locked(directory), translated():
        # Where scratch_directory() puts the servers.
        host = probe(data_directory=Path(os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
        program = _pgbench(embedded)
        if plan is not None:
            _check_workloads(plan, program)
            plan = possible(plan, embedded)
        archive, record = _opened(plan, directory, host, program, force=force)
        plan = record.plan if plan is None else plan
        with (
            guard.temporary_directory("mrtuner-") as scratch,
            servers(plan, embedded) as by_name,
        ):
            files = RunFiles(plan, scratch, program)
            prepared = Preparation(plan, by_name, archive, files, Conduct(force=force), progress)
            carry_out(prepared, host, record)
            archive.seal(now())
    return load(directory)


def head(plan: Plan, host: Host | None, program: Path, *, local: bool, forced: bool) -> RunDocument:
    """Return the head of a record: the plan, the host and the versions."""
    from mrtuner.bench.record.document import RunDocument

    return RunDocument(
        plan=plan.recorded,
        host=host_facts(host),
        kernel=f"{platform.system()} {platform.release()} {_preemption()}".strip(),
        pgbench=pgbench_version(program),
        mrtuner=__version__,
        started=now(),
        local=local,
        forced=forced,
    )


def _opened(
    plan: Plan | None, directory: Path, host: Host, program: Path, *, force: bool
) -> tuple[Archive, Record]:
    """Create an archive, or open that of the unfinished run; return it with its record."""
    if plan is None:
        archive, record = Archive.resume(directory)
        local = record.local
        _require_same_place(record, head(record.plan, host, program, local=local, forced=force))
        return archive, record
    local = all(variant.start is None for variant in plan.variants)
    archive = Archive.create(directory, head(plan, host, program, local=local, forced=force))
    return archive, load(directory)


def _check_workloads(plan: Plan, program: Path) -> None:
    """Check the workloads as far as possible without a server, before anything is created."""
    with TemporaryDirectory(prefix="mrtuner-") as name:
        files = RunFiles(plan, Path(name), program)
        for workload in plan.workloads:
            files.driver(GridCell(workload.name, 1, 1)).check()


def _require_same_place(record: Record, here: RunDocument) -> None:
    """Refuse to continue on another machine or version: the halves would not be comparable."""
    changed = unlike(record, assembled(here, (), sealed=False))
    if changed:
        raise Refused(
            f"the run was started on another machine: {'; '.join(changed)}",
            "Continue it there, or start another run.",
        )


def _preemption() -> str:
    """PREEMPT_DYNAMIC or the like: it changes pgbench's results by factors. Source: uname(2)."""
    words = platform.version().split()
    return next((word for word in words if word.startswith("PREEMPT")), "")


def _pgbench(embedded: Path | None) -> Path:
    from mrtuner.postgres.binaries import find_binaries

    return find_pgbench(find_binaries(embedded))
