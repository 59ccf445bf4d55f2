"""What a recorder costs the server that it records: `make bench-recording`, or shorter:

    python bench/recording.py --blocks 3 --seconds 60
    python bench/recording.py --workload select-only

pgbench runs on one server in random order within blocks, each run after a CHECKPOINT:

    alone      no watcher
    recorded   `mrtuner record` at its default intervals
    exporter   the Prometheus exporter for PostgreSQL, scraped every 15 s (Prometheus's own default
               is a minute, that of many dashboards 15 s); Debian: prometheus-postgres-exporter
    PRESET     pgwatch's queries at the intervals of one of its presets (see bench/pgwatch.py), with
               --pgwatch-metrics, a copy of its internal/metrics/metrics.yaml

Ratios by the paired t on log ratios, with their 95 % intervals. Throughput of a small machine
varies by more than a recorder costs, so CPU time is printed too, as a share of one CPU: that of the
watcher's sessions in the server, and that of its own process, which can also run elsewhere.
pgwatch itself does not run here, only a process that sends its queries.

A watcher is started before each run and has sampled everything once when pgbench begins. Queries
whose interval is longer than the run are not repeated within it; the CPU time of the first sample
shows how much they may cost.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pgwatch

from mrtuner.bench.engine.machine import cpu_of
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.load.pgbench_output import read_summary
from mrtuner.bench.plan import order
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.stats.comparison import Comparison, compare

EXPORTER = "prometheus-postgres-exporter"
PORT = 9187
SCRAPE = 15.0
#: Wait before pgbench starts [s], so that the first sample of everything is not counted.
SETTLE = 5.0


#: Fewest blocks for which the paired t gives an interval.
FEWEST = 2


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds so far, of a watcher's sessions in the server and of its own process."""

    sessions: dict[int, float]
    process: float

    @property
    def server(self) -> float:
        return sum(self.sessions.values())


@dataclass(frozen=True, slots=True)
class Seen:
    """One run: throughput, and the shares of one CPU that the watcher used meanwhile."""

    tps: float
    server: float
    process: float
    first: float  # CPU seconds of the server, before pgbench began


def main(arguments: Sequence[str]) -> None:
    given = _options().parse_args(arguments)
    binaries = find_binaries(given.server_bin)
    presets = given.pgwatch_preset if given.pgwatch_metrics else []
    for preset in presets:
        _tell_preset(given.pgwatch_metrics, preset, binaries.major)
    exporter = ["exporter"] if shutil.which(EXPORTER) else []
    variants = ["alone", "recorded", *exporter, *presets]
    settings = {"max_wal_size": "4GB", "shared_preload_libraries": "pg_stat_statements"}
    cluster = Cluster.create(binaries, scratch_directory(), settings)
    program = find_pgbench(binaries)
    seen: list[dict[str, Seen]] = []
    try:
        with cluster, TemporaryDirectory(prefix="mrtuner-recording-") as store:
            with connect(cluster.dsn(), own_search_path=True) as session:
                session.execute("CREATE EXTENSION pg_stat_statements")
            _pgbench(program, cluster, "--initialize", f"--scale={given.scale}", "--quiet")
            for number, variants_in_order in enumerate(
                order.blocks(variants, given.blocks, given.seed), 1
            ):
                block = {}
                for name in variants_in_order:
                    block[name] = _run(program, cluster, name, Path(store), given)
                seen.append(block)
                said = ", ".join(f"{name} {block[name].tps:.0f} tps" for name in variants)
                sys.stderr.write(f"block {number} of {given.blocks}: {said}\n")
    finally:
        cluster.remove()
    _tell(given, binaries.version, variants, seen)


def _tell_preset(file: Path, name: str, major: int) -> None:
    metrics, left_out = pgwatch.preset(file, name, major)
    without = ", ".join(f"{metric} ({why})" for metric, why in left_out.items())
    sys.stdout.write(f"pgwatch's {name}: {len(metrics)} metrics; left out: {without or 'none'}\n")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workload", choices=("tpcb-like", "select-only"), default="tpcb-like")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server-bin", type=Path)
    parser.add_argument("--pgwatch-metrics", type=Path, metavar="FILE")
    parser.add_argument("--pgwatch-preset", nargs="+", default=["exhaustive"], metavar="NAME")
    return parser


def _run(
    program: Path, cluster: Cluster, name: str, store: Path, given: argparse.Namespace
) -> Seen:
    with connect(cluster.dsn()) as session:
        session.execute("CHECKPOINT")
    with _watcher(name, cluster, store, given) as process:
        time.sleep(SETTLE)
        before = _used(cluster, process)
        done = _pgbench(
            program, cluster, "--no-vacuum", f"--builtin={given.workload}",
            f"--client={given.clients}", f"--time={given.seconds}", "--protocol=prepared",
        )  # fmt: skip
        after = _used(cluster, process)
    if process is not None and not before.sessions:
        sys.exit(f"error: {name} has no session")
    if ended := before.sessions.keys() - after.sessions.keys():
        sys.stderr.write(f"{name}: {len(ended)} sessions ended, their CPU time is lost\n")
    return Seen(
        tps=read_summary(done).tps,
        server=(after.server - before.server) / given.seconds,
        process=(after.process - before.process) / given.seconds,
        first=before.server,
    )


@contextmanager
def _watcher(
    name: str, cluster: Cluster, store: Path, given: argparse.Namespace
) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run the named watcher; yield its process, None for `alone`."""
    environment = dict(os.environ)
    match name:
        case "alone":
            yield None
            return
        case "recorded":
            program = ["-c", "from mrtuner.cli import main; main()"]
            options = ["record", cluster.dsn(), "--dir", str(store / "history")]
            command = [sys.executable, *program, *options]
        case "exporter":
            command = [EXPORTER, f"--web.listen-address=127.0.0.1:{PORT}"]
            environment["DATA_SOURCE_NAME"] = f"{cluster.dsn()} sslmode=disable"
        case _:
            driver = [pgwatch.__file__, cluster.dsn(), str(given.pgwatch_metrics), name]
            command = [sys.executable, *driver]
    with (store / f"{name}.log").open("ab") as log, subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=log
    ) as process:  # fmt: skip
        over = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(over,))
        if name == "exporter":
            scraper.start()
        try:
            yield process
            if process.poll() is not None:
                sys.exit(f"error: {name} ended: {Path(log.name).read_text()}")
        finally:
            over.set()
            if scraper.ident is not None:
                scraper.join()
            process.terminate()


def _scrape(over: threading.Event) -> None:
    """Scrape as Prometheus does, from the time when the exporter listens."""
    pause = 0.1
    while not over.is_set():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as page:
            page.read()
            pause = SCRAPE
        over.wait(pause)


def _used(cluster: Cluster, process: subprocess.Popen[bytes] | None) -> Used:
    if process is None:
        return Used({}, 0.0)
    with connect(cluster.dsn()) as session:
        rows = session.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND application_name <> 'pgbench' AND pid <> pg_backend_pid()"
        ).fetchall()
    return Used({backend: cpu_of(backend) for (backend,) in rows}, cpu_of(process.pid))


def _pgbench(program: Path, cluster: Cluster, *arguments: str) -> str:
    command = [str(program), *arguments, cluster.dsn()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _tell(
    given: argparse.Namespace, version: str, variants: Sequence[str],
    seen: Sequence[dict[str, Seen]],
) -> None:  # fmt: skip
    say = sys.stdout.write
    say(
        f"PostgreSQL {version}, {given.workload}, scale {given.scale}, {given.clients} clients, "
        f"{given.blocks} blocks of {given.seconds} s; "
        f"alone {median(block['alone'].tps for block in seen):.0f} tps (median)\n"
    )
    for name in variants[1:]:
        runs = [block[name] for block in seen]
        pairs = [(block["alone"].tps, block[name].tps) for block in seen]
        ratio = median(b / a for a, b in pairs)
        say(
            f"{name}:\n"
            f"  CPU, of one: {_spread([run.server for run in runs])} in the server, "
            f"{_spread([run.process for run in runs])} in its own process\n"
            f"  its first sample: {median(run.first for run in runs):.2f} s of the server's CPU\n"
            f"  throughput: "
        )
        if given.blocks < FEWEST:
            say(f"{ratio:.3f} times\n")
        else:
            say(f"{_words(compare(pairs, delta=0.01))}\n")
    if "exporter" not in variants:
        say(f"{EXPORTER} is not installed: nothing to compare with\n")


def _spread(shares: Sequence[float]) -> str:
    return f"{median(shares):.2%} ({min(shares):.2%} to {max(shares):.2%})"


def _words(found: Comparison) -> str:
    return f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times, {found.verdict}"


if __name__ == "__main__":
    main(sys.argv[1:])
