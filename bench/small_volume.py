r"""Settings on a small volume: which win where requests bind, and what they cost where they do not.

    python bench/small_volume.py --clients 16 --blocks 6 --arm pgtune --arm advice \
        --arm more:shared_buffers=640MB --reload "" --reload commit_delay=500
    python bench/small_volume.py --load inserts --clients 8 --arm advice --reload "" \
        --reload commit_delay=500

Each --arm is a server of its own on a copy of the same data, in a cgroup of --memory: the advice
with other settings, or PgTune's values if it is called pgtune. Each --reload is tried on every arm
without a restart. One run at a time, in random order within blocks, each after a CHECKPOINT and a
lead-in and followed by a timed CHECKPOINT, whose seconds are charged. No two runs share a random
seed: repeated keys would be found in memory. Linux, as root. Rows go to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import count, product
from pathlib import Path

from worth import GIB, SCENARIOS, Arm, advised, measured_run, pgtunes, say, started

from mrtuner.bench.load.pgbench import Load, run
from mrtuner.bench.plan.order import blocks
from mrtuner.bench.record.model import now
from mrtuner.bench.server.instance import volume
from mrtuner.units import Bytes, parse_bytes, pretty_bytes

HERE = Path(__file__).parent
LOADS = {
    "tpcb": ["--builtin=tpcb-like"],
    "reads": ["--builtin=select-only@9", "--builtin=simple-update@1"],
    "inserts": [f"--file={HERE / 'inserts.sql'}"],
}
#: What `inserts` writes to: a key in random order and one in order, each with an index.
TABLE = """
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key uuid UNIQUE, account int,
    at timestamptz, body text
);
CREATE INDEX ON events (account, at);
INSERT INTO events (key, account, at, body)
    SELECT gen_random_uuid(), n, now(), repeat('payload ', 20) FROM generate_series(1, 2000000) AS n
"""


def main() -> None:
    options, began = _options(), now()
    scenario = replace(
        SCENARIOS["small"], memory=options.memory, scale=options.scale, iops=options.iops
    )
    arms = {}
    for text in options.arm:
        name, _, pairs = text.partition(":")
        base = (
            pgtunes(scenario, literally=options.server_bin is not None)
            if name == "pgtune"
            else advised(scenario)
        )
        if options.server_bin and name != "pgtune":
            base |= {"wal_compression": "lz4"}  # as for a live server whose build has it
        arms[name] = base | _pairs(pairs)
    script = LOADS[options.load]
    with ExitStack() as stack:
        disk = stack.enter_context(volume(Bytes(options.gib * GIB)))
        servers = {
            arm.name: arm for arm in started(stack, disk.place, scenario, arms, options.server_bin)
        }
        for arm in servers.values() if options.load == "inserts" else ():
            arm.sql(TABLE)
        seeds = count(options.seed)
        load = Load(
            scale=options.scale, clients=options.clients, threads=1, seconds=options.seconds
        )
        for arm in servers.values():  # caches filled at the disk's own pace
            pgbench = arm.cluster.binaries.program("pgbench")
            warm_up = replace(load, seconds=options.warm_up)
            run(arm.dsn(), warm_up, script, seed=next(seeds), program=pgbench)
        disk.throttle(options.iops, bandwidth=options.bandwidth)
        rows = []
        version = next(iter(servers.values())).sql("SHOW server_version")[0][0]
        machine = f"{pretty_bytes(options.memory)}, {options.iops:,} IOPS"
        trials = [f"{arm} {reloaded}" for arm, reloaded in product(servers, options.reload)]
        for number, order in enumerate(blocks(trials, options.blocks, options.seed), start=1):
            for trial in order:
                name, _, reloaded = trial.partition(" ")
                arm = servers[name]
                _reload(arm, _pairs(reloaded))
                pgbench = arm.cluster.binaries.program("pgbench")
                lead_in = replace(load, seconds=3)
                run(arm.dsn(), lead_in, script, seed=next(seeds), program=pgbench)
                row = measured_run(arm, load, script, number, next(seeds), pgbench)
                rows.append({"load": options.load, "clients": options.clients, **row})
                rows[-1]["reloaded"] = reloaded
                say(" ".join(f"{key}={value}" for key, value in rows[-1].items()))
            told = {
                "what": f"{options.load}, {machine}, scale {options.scale}",
                "postgres": version.split()[0], "started": began,
                "clients": options.clients, "seconds": options.seconds, "blocks": number,
                "arms": arms, "runs": rows,
            }  # fmt: skip
            Path(options.output).write_text(json.dumps(told, indent=1))


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def _reload(arm: Arm, settings: dict[str, str]) -> None:
    arm.sql("ALTER SYSTEM RESET ALL")
    for name, value in settings.items():
        arm.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    arm.sql("SELECT pg_reload_conf()")
    time.sleep(0.5)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", action="append", required=True, help="NAME:setting=value,…")
    parser.add_argument("--reload", action="append", required=True, help="setting=value,… or ''")
    parser.add_argument("--load", choices=LOADS, default="tpcb")
    parser.add_argument("--server-bin", type=Path, help="another installation, such as Debian's")
    parser.add_argument("--memory", type=parse_bytes, default=GIB)
    parser.add_argument("--bandwidth", type=parse_bytes, default=125_000_000)
    for name, usual in (("scale", 200), ("clients", 16), ("iops", 3000), ("seconds", 12),
                        ("blocks", 6), ("gib", 50), ("seed", 1), ("warm-up", 40)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--output", default="small-volume.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
