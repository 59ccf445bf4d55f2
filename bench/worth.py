"""Does the advice earn its place? The default's, PgTune's and our settings on one machine.

    python bench/worth.py --scenario memory            # everything fits, storage is fast
    python bench/worth.py --scenario small             # 2 GiB, 3,000 IOPS, data three times that
    python bench/worth.py --scenario small --cycle --blocks 3   # a checkpoint cycle of each arm
    python bench/worth.py --scenario small --cycle --blocks 3 --rate 800   # the same load for all
    python bench/worth.py --scenario memory --iops 3000   # everything fits, storage is slow
    python bench/worth.py --script select --huge-pages 2300 --arms off,on \\
        --extra off:mrtuner:huge_pages=off --extra on:mrtuner:huge_pages=on

Each arm is a server of its own on a copy of the same data, warmed up once, idle while another
is measured. Order is random within blocks; every run starts behind a CHECKPOINT and is followed
by a timed one, whose seconds are charged in a second column. With --cycle a run is as long as
its arm's own checkpoint_timeout: with the charge, all that one cycle reads, logs and writes back.
With --rate every arm gets the same transactions a second on pgbench's schedule, whether or not it
has answered the last ones; a latency then counts from the scheduled start, so that a stall is
felt by all who would have come meanwhile. At full speed it is felt by no more than the clients.
Durability is the same for all.
Ratios by the paired t on log ratios; records go to a JSON file. Nothing here is a promise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

import mrtuner
from mrtuner.bench.load.pgbench import BUILTIN, Load, LoadRun, run, run_logged
from mrtuner.bench.plan.order import blocks
from mrtuner.bench.server.instance import inside, memory_limit, volume
from mrtuner.bench.server.standing import DATABASE, copied, filled
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.stats.comparison import compare
from mrtuner.units import Bytes, parse_bytes

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A machine, its load, and what PgTune's page gives for it."""

    memory: int
    cpus: int
    iops: int | None
    scale: int
    clients: int
    seconds: int
    blocks: int
    warm_up: int  # once, for each arm
    pgtune: dict[str, str]


#: By PgTune's formulas of July 2026 (commit 7caef27) for oltp, SSD, 100 connections, 18. The two
#: lines that a build without lz4 and liburing refuses to start with are left out, as its user
#: would have to: wal_compression = lz4, io_method = io_uring.
PGTUNE_2G = {
    "max_connections": "100",
    "shared_buffers": "512MB",
    "effective_cache_size": "1536MB",
    "maintenance_work_mem": "128MB",
    "checkpoint_completion_target": "0.9",
    "wal_buffers": "16MB",
    "default_statistics_target": "100",
    "random_page_cost": "1.1",
    "effective_io_concurrency": "200",
    "work_mem": "4369kB",
    "huge_pages": "off",
    "jit": "off",
    "min_wal_size": "2GB",
    "max_wal_size": "8GB",
}
PGTUNE_16G = PGTUNE_2G | {
    "shared_buffers": "4GB",
    "effective_cache_size": "12GB",
    "maintenance_work_mem": "1GB",
    "work_mem": "37282kB",
    "huge_pages": "try",
}
SCENARIOS = {
    "memory": Scenario(
        memory=16 * GIB,
        cpus=2,
        iops=None,
        scale=100,
        clients=8,
        seconds=120,
        blocks=6,
        warm_up=30,
        pgtune=PGTUNE_16G,
    ),
    "small": Scenario(
        memory=2 * GIB,
        cpus=2,
        iops=3000,
        scale=400,
        clients=16,
        seconds=180,
        blocks=6,
        warm_up=120,
        pgtune=PGTUNE_2G,
    ),
}


def advised(scenario: Scenario) -> dict[str, str]:
    """Return our advice for the same machine, as any caller gets it."""
    tuning = mrtuner.tune(
        memory=scenario.memory,
        cpus=scenario.cpus,
        storage="ssd",
        workload="oltp",
        connections=100,
        postgres=18,
    )
    return {item.name: item.value for item in tuning.changes}


@dataclass
class Arm:
    """One running server and where its memory is limited."""

    name: str
    cluster: Cluster

    def dsn(self) -> str:
        return self.cluster.dsn(DATABASE)

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def checkpoint_timeout(self) -> int:
        """Seconds between timed checkpoints."""
        query = "SELECT setting FROM pg_settings WHERE name = 'checkpoint_timeout'"
        return int(self.sql(query)[0][0])

    def checkpoint(self) -> float:
        began = time.monotonic()
        self.sql("CHECKPOINT")
        return time.monotonic() - began


def main() -> None:
    options = _options()
    scenario = SCENARIOS[options.scenario]
    changed = {
        name: getattr(options, name)
        for name in ("seconds", "blocks", "clients", "scale", "warm_up", "memory", "iops")
        if getattr(options, name) is not None
    }
    scenario = replace(scenario, **changed)
    arms = {"default": {"max_connections": "100"}, "pgtune": scenario.pgtune}
    arms["mrtuner"] = advised(scenario)
    for extra in options.extra or []:  # name:base:key=value,key=value
        name, base, pairs = extra.split(":")
        arms[name] = arms[base] | dict(pair.split("=") for pair in pairs.split(",") if pair)
    if options.arms:
        arms = {name: arms[name] for name in options.arms.split(",")}
    with ExitStack() as stack:
        stack.enter_context(huge_pages(options.huge_pages))
        disk = stack.enter_context(volume(Bytes(options.gib * GIB)))
        servers = _servers(stack, disk.place, scenario, arms)
        if scenario.iops:
            disk.throttle(scenario.iops)
        rows = _measure(servers, scenario, options)
    Path(options.output).write_text(
        json.dumps({"scenario": vars(scenario), "arms": arms, "runs": rows}, indent=1)
    )
    _tell(rows, list(arms))


def _servers(
    stack: ExitStack, place: Path, scenario: Scenario, arms: dict[str, dict[str, str]]
) -> list[Arm]:
    """A server for each arm on a copy of the same data, started inside its own limit."""
    binaries = find_binaries()
    _say(f"loading scale {scenario.scale}")
    template = filled(binaries, place / "template", scenario.scale)
    servers = []
    for name, settings in arms.items():
        _say(f"copying to {name}")
        cluster = copied(template, place / name)
        cluster.configure(settings | {"port": cluster.port})
        group = (
            stack.enter_context(memory_limit(name, Bytes(scenario.memory)))
            if scenario.iops
            else None
        )
        with inside(group):
            cluster.start()
        stack.callback(cluster.stop)
        servers.append(Arm(name, cluster))
    shutil.rmtree(template.directory)
    return servers


def _measure(
    servers: list[Arm], scenario: Scenario, options: argparse.Namespace
) -> list[dict[str, Any]]:
    seed = options.seed
    load = Load(
        script=options.script, scale=scenario.scale, clients=scenario.clients, threads=1, seconds=30
    )
    pgbench = servers[0].cluster.binaries.program("pgbench")
    for arm in servers:
        _say(f"warming {arm.name}")
        run(arm.dsn(), replace(load, seconds=scenario.warm_up), seed=seed, program=pgbench)
        arm.checkpoint()
    by_name = {arm.name: arm for arm in servers}
    rows = []
    for number, order in enumerate(blocks(list(by_name), scenario.blocks, seed), start=1):
        for name in order:
            arm = by_name[name]
            seconds = arm.checkpoint_timeout() if options.cycle else scenario.seconds
            timed = replace(load, seconds=seconds)
            rows.append(_one(arm, timed, options.rate, number, seed + number, pgbench))
            _say(" ".join(f"{key}={value}" for key, value in rows[-1].items()))
    return rows


def _one(
    arm: Arm, load: Load, rate: int | None, block: int, seed: int, pgbench: Path
) -> dict[str, Any]:
    arm.sql("VACUUM pgbench_branches, pgbench_tellers")
    arm.checkpoint()
    wal = int(arm.sql("SELECT wal_bytes FROM pg_stat_wal")[0][0])
    script = [f"--builtin={BUILTIN[load.script]}", *([f"--rate={rate}"] if rate else [])]
    done, _ = run_logged(arm.dsn(), load, script, seed=seed, program=pgbench)
    wal = int(arm.sql("SELECT wal_bytes FROM pg_stat_wal")[0][0]) - wal
    debt = arm.checkpoint()
    return _row(arm.name, block, done, debt, wal)


def _row(name: str, block: int, done: LoadRun, debt: float, wal: int) -> dict[str, Any]:
    latency = done.latency
    assert latency is not None
    return {
        "block": block,
        "arm": name,
        "seconds": round(done.elapsed),
        "tps": round(done.tps, 1),
        "charged": round(done.transactions / (done.elapsed + debt), 1),
        "debt_s": round(debt, 1),
        "median_ms": round(latency.p50, 2),
        "p95_ms": round(latency.p95, 2),
        "p99_ms": round(latency.p99, 2),
        "max_ms": round(latency.maximum, 1),
        "worst_second": done.worst_second,
        "wal_per_transaction": round(wal / done.transactions),
    }


def _tell(rows: list[dict[str, Any]], names: list[str]) -> None:
    def series(name: str, key: str) -> list[float]:
        found = sorted((row for row in rows if row["arm"] == name), key=lambda row: row["block"])
        return [float(row[key]) for row in found]

    for other in names:
        for base in names[: names.index(other)]:
            for key in ("tps", "charged", "p99_ms"):
                pairs = list(zip(series(base, key), series(other, key), strict=True))
                if len(pairs) < 3:
                    continue
                found = compare(pairs, higher_is_better=key != "p99_ms")
                sys.stdout.write(
                    f"{other} / {base} {key:8} {found.ratio:.2f} "
                    f"({found.low:.2f} to {found.high:.2f}, {len(pairs)} pairs) {found.verdict}\n"
                )


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """Reserve that many huge pages for the block; raise RuntimeError if the kernel cannot."""
    knob = Path("/proc/sys/vm/nr_hugepages")
    before = knob.read_text() if count else ""
    try:
        if count:
            knob.write_text(str(count))
            if int(knob.read_text()) < count:
                raise RuntimeError(f"only {knob.read_text().strip()} huge pages to be had")
        yield
    finally:
        if count:
            knob.write_text(before)


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", choices=SCENARIOS, default="memory")
    parser.add_argument("--rate", type=int, help="transactions a second; without: full speed")
    for name in ("seconds", "blocks", "clients", "scale", "iops"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--cycle", action="store_true", help="a run lasts its checkpoint_timeout")
    parser.add_argument("--warm-up", type=int)
    parser.add_argument("--memory", type=parse_bytes, help="another size, such as 1GB")
    parser.add_argument("--script", default="tpcb", help="tpcb, select or simple-update")
    parser.add_argument("--huge-pages", type=int, default=0, help="reserve so many meanwhile")
    parser.add_argument("--arms", help="only these, separated by commas")
    parser.add_argument("--extra", action="append", help="NAME:BASE:setting=value,…")
    parser.add_argument("--gib", type=int, default=48, help="size of the volume")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="worth.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
