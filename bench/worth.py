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
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

import mrtuner
from mrtuner.bench.load.pgbench import BUILTIN, Load, LoadRun, run
from mrtuner.bench.plan.order import blocks
from mrtuner.bench.server.instance import huge_pages, volume
from mrtuner.bench.server.standing import DATABASE, filled, side_by_side
from mrtuner.inputs import Storage, Workload
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.stats.comparison import compare
from mrtuner.tuning.pgtune import PgTuneInputs
from mrtuner.tuning.pgtune import settings as settings_of_pgtune
from mrtuner.units import Bytes, parse_bytes

GIB = 2**30
REFUSED = frozenset(["wal_compression", "io_method"])


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A machine and its load."""

    memory: int
    cpus: int
    iops: int | None
    scale: int
    clients: int
    seconds: int
    blocks: int
    warm_up: int  # once, for each arm


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
    ),
}


def pgtunes(scenario: Scenario, *, literally: bool = False) -> dict[str, str]:
    """Return PgTune's values for oltp on SSD with 100 connections.

    Without the two lines that a build without lz4 and liburing refuses to start with, as its user
    would have to leave them out, unless they are taken `literally`.
    """
    machine = PgTuneInputs(
        memory=scenario.memory, cpus=scenario.cpus, connections=100, workload=Workload.OLTP,
        storage=Storage.SSD, major=18,
    )  # fmt: skip
    left_out = frozenset() if literally else REFUSED
    return {
        name: one.value for name, one in settings_of_pgtune(machine).items() if name not in left_out
    }


#: What a unit of pgbench's scale takes with its index [bytes].
PER_SCALE = 15_000_000


def advised(scenario: Scenario) -> dict[str, str]:
    """Return our advice for the same machine, as any caller gets it."""
    tuning = mrtuner.tune(
        memory=scenario.memory,
        cpus=scenario.cpus,
        storage="ssd",
        workload="oltp",
        connections=100,
        postgres=18,
        iops=scenario.iops,
        data=scenario.scale * PER_SCALE,
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
    arms = {"default": {"max_connections": "100"}, "pgtune": pgtunes(scenario)}
    arms["mrtuner"] = advised(scenario)
    for extra in options.extra or []:  # name:base:key=value,key=value
        name, base, pairs = extra.split(":")
        arms[name] = arms[base] | dict(pair.split("=") for pair in pairs.split(",") if pair)
    if options.arms:
        arms = {name: arms[name] for name in options.arms.split(",")}
    with ExitStack() as stack:
        if stack.enter_context(huge_pages(options.huge_pages)) < options.huge_pages:
            raise SystemExit(f"{options.huge_pages} huge pages are not to be had")
        disk = stack.enter_context(volume(Bytes(options.gib * GIB)))
        servers = started(stack, disk.place, scenario, arms)
        if scenario.iops:
            disk.throttle(scenario.iops)
        rows = _measure(servers, scenario, options)
    Path(options.output).write_text(
        json.dumps({"scenario": vars(scenario), "arms": arms, "runs": rows}, indent=1)
    )
    _tell(rows, list(arms))


def started(
    stack: ExitStack,
    place: Path,
    scenario: Scenario,
    arms: dict[str, dict[str, str]],
    server_bin: Path | None = None,
) -> list[Arm]:
    """A server for each arm on a copy of the same data, started inside its own limit."""
    say(f"loading scale {scenario.scale}")
    template = filled(find_binaries(server_bin), place / "template", scenario.scale)
    memory = Bytes(scenario.memory) if scenario.iops else None
    servers = stack.enter_context(side_by_side(template, arms, place=place, memory=memory))
    return [Arm(name, one.cluster) for name, one in servers.items()]


def _measure(
    servers: list[Arm], scenario: Scenario, options: argparse.Namespace
) -> list[dict[str, Any]]:
    seed = options.seed
    load = Load(scale=scenario.scale, clients=scenario.clients, threads=1, seconds=30)
    full_speed = [f"--builtin={BUILTIN[options.script]}"]
    script = [*full_speed, f"--rate={options.rate}"] if options.rate else full_speed
    pgbench = servers[0].cluster.binaries.program("pgbench")
    for arm in servers:
        say(f"warming {arm.name}")
        warm_up = replace(load, seconds=scenario.warm_up)
        run(arm.dsn(), warm_up, full_speed, seed=seed, program=pgbench)
        arm.checkpoint()
    by_name = {arm.name: arm for arm in servers}
    rows = []
    for number, order in enumerate(blocks(list(by_name), scenario.blocks, seed), start=1):
        for name in order:
            arm = by_name[name]
            seconds = arm.checkpoint_timeout() if options.cycle else scenario.seconds
            timed = replace(load, seconds=seconds)
            rows.append(measured_run(arm, timed, script, number, seed + number, pgbench))
            say(" ".join(f"{key}={value}" for key, value in rows[-1].items()))
    return rows


def measured_run(
    arm: Arm, load: Load, script: list[str], block: int, seed: int, pgbench: Path
) -> dict[str, Any]:
    """One run between two checkpoints as a row; `script` holds pgbench's options for its load."""
    arm.sql("VACUUM pgbench_branches, pgbench_tellers")
    arm.checkpoint()
    wal = int(arm.sql("SELECT wal_bytes FROM pg_stat_wal")[0][0])
    done, _ = run(arm.dsn(), load, script, seed=seed, program=pgbench)
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


def say(text: str) -> None:
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
