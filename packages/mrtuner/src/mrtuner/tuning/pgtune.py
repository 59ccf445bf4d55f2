"""What PgTune gives for the same machine, and where MrTuner's advice differs.

The rules are PgTune's own, restated from its source: github.com/le0pard/pgtune,
src/features/configuration/configurationSlice.js, at commit 7caef27 of 30 July 2026, for Linux. Its
versions end at 18, so 19 gets what 18 gets. docs/comparison.md lists its known mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Annotated, Final

from mrtuner.catalog import parameters
from mrtuner.described import Doc
from mrtuner.inputs import Storage, Workload
from mrtuner.tuning.engine import as_value
from mrtuner.tuning.measured import AGAINST_PGTUNE
from mrtuner.units import GiB, KiB, MiB

if TYPE_CHECKING:
    from mrtuner.catalog import Parameter
    from mrtuner.tuning.advice import Tuning
    from mrtuner.tuning.situation import Situation
    from mrtuner.tuning.verdict import Value

SOURCE: Final = "PgTune, commit 7caef27 of 30 July 2026"
#: Connections if no number is given.
_CONNECTIONS: Final = {
    Workload.WEB: 200, Workload.OLTP: 300, Workload.OLAP: 40, Workload.DESKTOP: 20,
    Workload.MIXED: 100,
}  # fmt: skip
#: min_wal_size and max_wal_size [MiB].
_WAL: Final = {
    Workload.WEB: (1024, 4096), Workload.OLTP: (2048, 8192), Workload.OLAP: (4096, 16_384),
    Workload.DESKTOP: (100, 2048), Workload.MIXED: (1024, 4096),
}  # fmt: skip
#: PgTune knows hard disks, SSD, storage networks and NVMe; any other storage counts as SSD.
_READS: Final = {Storage.HDD: 2, Storage.NETWORK: 300, Storage.NVME: 1000}
_READS_OF_SSD: Final = 200
#: Below this many CPUs, PgTune gives no settings for parallel workers.
_FEW_CPUS: Final = 4
_WORKERS: Final = 8  # the server's default of max_worker_processes


class DataSize(StrEnum):
    """The size of the data relative to memory, as PgTune's form asks."""

    SMALLER = "smaller than the memory"
    SIMILAR = "one to three times the memory"
    LARGER = "more than three times the memory"


#: Factors by which PgTune multiplies work_mem.
_BY_DATA: Final = {DataSize.SMALLER: 1.3, DataSize.SIMILAR: 1.0, DataSize.LARGER: 0.9}


@dataclass(frozen=True, slots=True, kw_only=True)
class PgTuneInputs:
    """What PgTune's form asks for."""

    memory: int  # bytes
    cpus: int
    connections: int | None
    workload: Workload
    storage: Storage | None
    major: int
    data: DataSize = DataSize.SIMILAR


@dataclass(frozen=True, slots=True)
class Theirs:
    """A setting that PgTune gives: its value as configuration text, and its rule in words."""

    name: str
    value: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDifference:
    """A setting to which another tool gives another value."""

    name: Annotated[str, Doc("the parameter")]
    ours: Annotated[str, Doc("the advice, or what stays in force; empty if unknown")]
    theirs: Annotated[str, Doc("the other tool's value")]
    rule: Annotated[str, Doc("how the other tool computes it")]
    reason: Annotated[str, Doc("why the advice is what it is")]


#: Why MrTuner does not advise what PgTune sets without having seen the server.
_UNSEEN: Final = {
    "io_method": "a build without liburing, or a container that forbids io_uring, does not start "
    "with it; the default works everywhere",
    "wal_level": "a server that archives WAL or has standbys does not start with minimal",
    "max_wal_senders": "it belongs to wal_level = minimal, which is not advised",
}
_NO_RULE: Final = "MrTuner has no rule for it, so it stays as it is"


def settings(machine: PgTuneInputs) -> dict[str, Theirs]:
    found = (*_memory(machine), *_wal(machine), *_planner(machine), *_workers(machine))
    return {one.name: one for one in found}


def _memory(of: PgTuneInputs) -> Iterator[Theirs]:
    desktop = of.workload is Workload.DESKTOP
    memory, connections = of.memory // KiB, _connections(of)
    given = "as given" if of.connections else f"{connections} for this workload"
    yield Theirs("max_connections", str(connections), given)
    buffers = _shared_buffers(of)
    yield Theirs("shared_buffers", f"{buffers}kB", f"1/{16 if desktop else 4} of memory")
    cache = memory // 4 if desktop else memory * 3 // 4
    share = "a quarter" if desktop else "three quarters"
    yield Theirs("effective_cache_size", f"{cache}kB", f"{share} of memory")
    part = 8 if of.workload is Workload.OLAP else 16
    maintenance = min(memory // part, 8 * GiB // KiB)
    yield Theirs(
        "maintenance_work_mem", f"{maintenance}kB", f"1/{part} of memory, at most 8 GB"
    )  # fmt: skip
    if maintenance >= 2 * GiB // KiB:
        yield Theirs("autovacuum_work_mem", "2GB", "2 GB once maintenance_work_mem has as much")
    yield Theirs(
        "work_mem", f"{_work_mem(of)}kB",
        "what shared_buffers leaves, divided by three times connections and worker processes"
        f"{_part_of_work_mem(of)}, at least 4 MB",
    )  # fmt: skip
    yield Theirs(
        "huge_pages", "try" if buffers >= 2 * GiB // KiB else "off",
        "try from 2 GB of shared_buffers on",
    )  # fmt: skip


def _connections(of: PgTuneInputs) -> int:
    return of.connections or _CONNECTIONS[of.workload]


def _shared_buffers(of: PgTuneInputs) -> int:
    """Return PgTune's shared_buffers [kB]."""
    return of.memory // KiB // (16 if of.workload is Workload.DESKTOP else 4)


def _work_mem(of: PgTuneInputs) -> int:
    """Return PgTune's work_mem [kB]."""
    workers = of.cpus if of.cpus >= _FEW_CPUS else _WORKERS
    whole = (of.memory / KiB - _shared_buffers(of)) / (3 * (_connections(of) + workers))
    return max(4096, int(whole / _divisor(of.workload) * _BY_DATA[of.data]))


def _divisor(workload: Workload) -> int:
    if workload is Workload.DESKTOP:
        return 6
    return 2 if workload in {Workload.OLAP, Workload.MIXED} else 1


def _part_of_work_mem(of: PgTuneInputs) -> str:
    divisor, factor = _divisor(of.workload), _BY_DATA[of.data]
    return f", divided by {divisor}" * (divisor > 1) + f", times {factor}" * (factor != 1)


def _wal(of: PgTuneInputs) -> Iterator[Theirs]:
    for name, size in zip(("min_wal_size", "max_wal_size"), _WAL[of.workload], strict=True):
        yield Theirs(name, f"{size}MB", "by workload, whatever the machine")
    yield Theirs("checkpoint_completion_target", "0.9", "always")
    buffers = min(_shared_buffers(of) * 3 // 100, 16 * MiB // KiB)
    near = 14 * MiB // KiB < buffers
    yield Theirs(
        "wal_buffers", "16MB" if near else f"{max(32, buffers)}kB",
        "3 % of shared_buffers, at most 16 MB",
    )  # fmt: skip
    if of.major >= 15:
        yield Theirs("wal_compression", "lz4", "lz4 from 15 on")
    else:
        yield Theirs("wal_compression", "on", "on before 15")
    if of.workload is Workload.DESKTOP:
        yield Theirs("wal_level", "minimal", "for a desktop")
        yield Theirs("max_wal_senders", "0", "as wal_level = minimal needs it")


def _planner(of: PgTuneInputs) -> Iterator[Theirs]:
    olap = of.workload is Workload.OLAP
    yield Theirs("default_statistics_target", "500" if olap else "100", "500 for OLAP, else 100")
    yield Theirs("random_page_cost", _page_cost(of), "by storage and size of the data")
    reads = _READS.get(of.storage, _READS_OF_SSD) if of.storage else _READS_OF_SSD
    yield Theirs("effective_io_concurrency", str(reads), "by storage")
    if of.workload not in {Workload.OLAP, Workload.DESKTOP}:
        yield Theirs("jit", "off", "off unless for OLAP or a desktop")


def _page_cost(of: PgTuneInputs) -> str:
    if of.data is DataSize.SMALLER:
        return "1.1"
    return "4" if of.storage is Storage.HDD or of.workload is Workload.OLAP else "1.1"


def _workers(of: PgTuneInputs) -> Iterator[Theirs]:
    if of.cpus >= 16:
        workers = "5" if of.cpus >= 32 else "4"
        yield Theirs("autovacuum_max_workers", workers, "4 from 16 CPUs on, 5 from 32 on")
    if of.cpus >= _FEW_CPUS:
        half = ceil(of.cpus / 2)
        olap = of.workload is Workload.OLAP
        yield Theirs("max_worker_processes", str(of.cpus), "as many as CPUs")
        yield Theirs("max_parallel_workers", str(of.cpus), "as many as CPUs")
        yield Theirs(
            "max_parallel_workers_per_gather", str(half if olap else min(half, 4)),
            "half of the CPUs" + ", at most 4" * (not olap),
        )  # fmt: skip
        yield Theirs(
            "max_parallel_maintenance_workers", str(min(half, 4)), "half of the CPUs, at most 4"
        )
    if of.major >= 18:
        yield Theirs("io_method", "io_uring", "io_uring on every Linux from 18 on")


def machine_of(situation: Situation) -> PgTuneInputs | None:
    """Return the machine as PgTune's form asks for it; None if memory or CPUs are unknown."""
    if situation.memory is None or situation.cpus is None:
        return None
    memory = situation.memory.size
    return PgTuneInputs(
        memory=memory,
        cpus=situation.cpus.count,
        connections=situation.connections.wanted,
        workload=situation.workload,
        storage=situation.storage,
        major=situation.major,
        data=_data_size(situation.data.size if situation.data else None, memory),
    )


def _data_size(size: int | None, memory: int) -> DataSize:
    if size is None:
        return DataSize.SIMILAR
    if size < memory:
        return DataSize.SMALLER
    return DataSize.LARGER if size > 3 * memory else DataSize.SIMILAR


def differences(tuning: Tuning) -> list[PeerDifference]:
    """Return the settings to which PgTune gives another value, in PgTune's order.

    Empty if memory or CPUs are unknown.
    """
    machine = machine_of(tuning.situation)
    return list(_differences(tuning, machine)) if machine else []


def measured_against(tuning: Tuning) -> str | None:
    """What the advice gained over PgTune on such a machine, and the row; None: not measured."""
    if not (AGAINST_PGTUNE.covers(tuning.situation) and AGAINST_PGTUNE.shown_by(tuning)):
        return None
    return f"{AGAINST_PGTUNE.says} (docs/measured-results.md, {AGAINST_PGTUNE.row})"


def _here(situation: Situation, parameter: Parameter) -> Value | None:
    running = situation.running.get(parameter.name)
    return parameter.default if running is None else as_value(parameter, running)


def _differences(tuning: Tuning, machine: PgTuneInputs) -> Iterator[PeerDifference]:
    known = parameters(machine.major)
    for name, theirs in settings(machine).items():
        parameter, advice = known[name], tuning.get(name)
        ours = advice.target if advice else _here(tuning.situation, parameter)
        value = parameter.parse(theirs.value)
        if ours == value:
            continue
        yield PeerDifference(
            name=name,
            ours="" if ours is None else parameter.show(ours),
            theirs=parameter.show(value),
            rule=theirs.rule,
            reason=_UNSEEN.get(name) or (advice.reason if advice else _NO_RULE),
        )
