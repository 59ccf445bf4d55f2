"""The loads of the demo, with their reasons: chosen and sized before it runs, whatever the result.

Lengths come from pilot runs on two CPUs (docs/measured-results.md): at most six minutes of
measuring in all. Every load has the blocks that a verdict needs, except the fixed rate, which is
shown without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mrtuner.bench.plan.model import JudgedBy, Plan, Script, Variant, Workload
from mrtuner.bench.plan.sizing import BYTES_PER_SCALE
from mrtuner.bench.series import Task
from mrtuner.units import Bytes, GiB, MiB

DEFAULT: Final = "default"
ADVISED: Final = "advised"

#: Six times the default shared_buffers (128 MB) where memory allows it, three times at least.
_LARGEST: Final = 50
_SMALLEST: Final = 28
_SHARE_OF_MEMORY: Final = 16

#: The small cloud volume: the IOPS of the cheapest gp3 volume, a small machine, and data three
#: times its memory.
VOLUME_IOPS: Final = 3000
VOLUME_MEMORY: Final = Bytes(768 * MiB)
VOLUME_SIZE: Final = Bytes(12 * GiB)
VOLUME_SCALE: Final = 150
VOLUME_DATA: Final = Bytes(VOLUME_SCALE * BYTES_PER_SCALE)
VOLUME_SESSIONS: Final = 30  # that it is tuned for
VOLUME_CLIENTS: Final = 16

#: Every row is found through the index, as in a nested loop: no plan can avoid it.
_CACHED_READS: Final = """\
SELECT sum((SELECT abalance FROM pgbench_accounts a WHERE a.aid = k.aid))
FROM (SELECT 1 + floor(random() * 100000 * :scale)::int AS aid FROM generate_series(1, 20000)) k;
"""
#: Three sizes each, in rows; hashint4 gives an order that differs from the stored one.
_SIZES: Final = (20_000, 100_000, 400_000)
_SORT: Final = (
    "SELECT aid FROM pgbench_accounts WHERE aid <= {rows} ORDER BY hashint4(aid) OFFSET {rows} - 1;"
)
_DISTINCT: Final = (
    "SELECT count(*) FROM (SELECT DISTINCT hashint4(aid) FROM pgbench_accounts"
    " WHERE aid <= {rows}) d;"
)
_JOIN: Final = (
    "SELECT count(*) FROM pgbench_accounts a JOIN pgbench_accounts b"
    " ON hashint4(b.aid) = hashint4(a.aid) WHERE a.aid <= {rows} AND b.aid <= {rows};"
)
_AGGREGATE: Final = (
    "SELECT max(total) FROM (SELECT hashint4(aid) AS part, sum(abalance) AS total"
    " FROM pgbench_accounts WHERE aid <= {rows} GROUP BY 1) g;"
)
_TPCB: Final = "pgbench's TPC-B-like transaction"


def scale_for(memory: int) -> int:
    """Scale of the data that are read and reported on: far above 128 MB, far below memory.

    >>> scale_for(16 * GiB), scale_for(2 * GiB)
    (50, 28)
    """
    return max(_SMALLEST, min(_LARGEST, memory // _SHARE_OF_MEMORY // BYTES_PER_SCALE))


def in_memory(
    scale: int, cpus: int, seed: int, sides: Mapping[str, Mapping[str, str]]
) -> list[Task]:
    """Cached reads, reports and the control, on this machine as it is."""
    data = f"{scale * BYTES_PER_SCALE // MiB} MB of data"
    reads = Task(
        title="cached reads",
        why=(
            f"20,000 random rows per query by index, out of {data}: an application whose data fit "
            "into memory, but not into the default 128 MB of shared_buffers"
        ),
        plan=_plan("cached-reads", _scripts("cached-reads", _CACHED_READS), scale, cpus, seed,
                   sides, seconds=2, blocks=8),
        lead_in=4,
    )  # fmt: skip
    sizes = ", ".join(f"{rows:,}" for rows in _SIZES)
    reports = Task(
        title="reports",
        why=(
            f"{', '.join(_REPORTS)} of {sizes} rows, one after another in one session: whatever "
            "exceeds work_mem goes to files, but a large hash table does not fit the CPU's cache"
        ),
        plan=_plan("reports", _reports(), scale, 1, seed, sides, seconds=2, blocks=6),
        lead_in=2,
    )
    control = Task(
        title="short writes, fast disk",
        why=(
            f"{_TPCB} in memory, at the speed of this disk: the control, where settings matter "
            "least"
        ),
        plan=_plan("control", _builtin("control"), scale, 4 * cpus, seed, sides, seconds=2,
                   blocks=6),
        lead_in=2,
    )  # fmt: skip
    return [reads, reports, control]


_REPORTS: Final = {
    "sorts": _SORT, "distinct values": _DISTINCT, "joins": _JOIN, "aggregates": _AGGREGATE,
}  # fmt: skip


def small_volume(seed: int, sides: Mapping[str, Mapping[str, str]]) -> list[Task]:
    """Loads on a small cloud machine, simulated by a cgroup and a loop device."""
    machine = (
        f"{VOLUME_MEMORY // MiB} MB of memory, data three times that, {VOLUME_IOPS:,} reads and "
        "writes per second"
    )

    return [
        Task(
            title="small cloud volume, full speed",
            why=(
                f"{_TPCB}, {VOLUME_CLIENTS} sessions that wait for each answer; {machine}. Judged "
                "by the longest time in which nobody was served"
            ),
            plan=_plan(
                "volume-full",
                _builtin("volume-full", "longest pause"),
                VOLUME_SCALE,
                VOLUME_CLIENTS,
                seed,
                sides,
                seconds=18,
                blocks=6,
            ),
            lead_in=30,
        ),
        Task(
            title="small cloud volume, fixed rate",
            why=(
                "the same at three quarters of the faster side's throughput, like an application "
                "that does not wait: latency is counted from when a transaction was due"
            ),
            plan=_plan(
                "volume-rate",
                _builtin("volume-rate"),
                VOLUME_SCALE,
                VOLUME_CLIENTS,
                seed,
                sides,
                seconds=16,
                blocks=2,
                rates=("1",),
            ),
            share=0.75,
        ),
    ]


def _plan(
    name: str, workload: Workload, scale: int, clients: int, seed: int,
    sides: Mapping[str, Mapping[str, str]], *, seconds: int, blocks: int,
    rates: tuple[str, ...] = ("",),
) -> Plan:  # fmt: skip
    """A plan that repeats nothing on a busy machine: the report says how busy it was."""
    return Plan(
        name=name, workloads=(workload,), scales=(scale,), clients=(clients,), rates=rates,
        variants=tuple(Variant(name=side, settings=settings) for side, settings in sides.items()),
        blocks=blocks, seconds=seconds, warmup=1, threads=1, seed=seed,
        steal_limit=1.0, foreign_limit=1.0, standing=True,
    )  # fmt: skip


def _builtin(name: str, judged_by: JudgedBy = "throughput") -> Workload:
    return Workload(name=name, builtin="tpcb", judged_by=judged_by)


def _scripts(name: str, text: str, parts: Sequence[str] = ()) -> Workload:
    """A read-only script, sent prepared as by an ordinary session; plans may be parallel."""
    script = Script(name=f"{name}.sql", text=text)
    return Workload(name=name, scripts=(script,), reads=True, parts=tuple(parts))


def _reports() -> Workload:
    """Each report in three sizes, timed separately and judged together."""
    lines = [text.format(rows=rows) for text in _REPORTS.values() for rows in _SIZES]
    return _scripts("reports", "".join(f"{line}\n" for line in lines), tuple(_REPORTS))
