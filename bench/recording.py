"""What a recorder costs the server that it records: `make bench-recording`, or shorter:

    python bench/recording.py --blocks 3 --seconds 30

pgbench runs on one server in random order within blocks, each run behind a CHECKPOINT:

    alone      nobody watches
    recorded   `mrtuner record` at its default intervals
    exporter   the Prometheus exporter for PostgreSQL, scraped every 15 s (Prometheus's own default
               is a minute, that of many dashboards 15 s); Debian: prometheus-postgres-exporter

Ratios by the paired t on log ratios, with their 95 % intervals. Throughput of a small machine
scatters by more than a recorder costs, so the CPU time is told too: of the watching process and of
its sessions in the server, as a share of one CPU.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from mrtuner.bench.engine.machine import cpu_of
from mrtuner.bench.load.output import read_summary
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.plan import order
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.stats.comparison import Comparison, compare

EXPORTER = "prometheus-postgres-exporter"
PORT = 9187
SCRAPE = 15.0
#: Before pgbench starts: the first sample of everything is not what recording costs.
SETTLE = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One run: throughput, and CPUs that the watching process and its sessions took."""

    tps: float
    cpus: float


def main(arguments: Sequence[str]) -> None:
    given = _options().parse_args(arguments)
    variants = ["alone", "recorded", *(["exporter"] if shutil.which(EXPORTER) else [])]
    binaries = find_binaries(given.server_bin)
    settings = {"max_wal_size": "4GB", "shared_preload_libraries": "pg_stat_statements"}
    cluster = Cluster.create(binaries, scratch_directory(), settings)
    program = find_pgbench(binaries)
    seen: list[dict[str, Seen]] = []
    try:
        with cluster, TemporaryDirectory(prefix="mrtuner-recording-") as store:
            with connect(cluster.dsn()) as session:
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
    _tell(given, variants, seen)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workload", choices=("tpcb-like", "select-only"), default="tpcb-like")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server-bin", type=Path)
    return parser


def _run(
    program: Path, cluster: Cluster, name: str, store: Path, given: argparse.Namespace
) -> Seen:
    with connect(cluster.dsn()) as session:
        session.execute("CHECKPOINT")
    with _watcher(name, cluster, store) as pid:
        time.sleep(SETTLE)
        before = _watching(cluster, pid)
        done = _pgbench(
            program, cluster, "--no-vacuum", f"--builtin={given.workload}",
            f"--client={given.clients}", f"--time={given.seconds}", "--protocol=prepared",
        )  # fmt: skip
        after = _watching(cluster, pid)
    return Seen(read_summary(done).tps, (after - before) / given.seconds)


@contextmanager
def _watcher(name: str, cluster: Cluster, store: Path) -> Iterator[int | None]:
    """Start what watches the server; yields its process id."""
    if name == "alone":
        yield None
        return
    if name == "recorded":
        command = [
            sys.executable, "-c", "from mrtuner.cli import main; main()", "record", cluster.dsn(),
            "--dir", str(store / "history"),
        ]  # fmt: skip
        environment = dict(os.environ)
    else:
        command = [EXPORTER, f"--web.listen-address=127.0.0.1:{PORT}"]
        environment = {**os.environ, "DATA_SOURCE_NAME": f"{cluster.dsn()} sslmode=disable"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as process:
        over = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(over,))
        if name == "exporter":
            scraper.start()
        try:
            yield process.pid
        finally:
            over.set()
            if scraper.ident is not None:
                scraper.join()
            process.terminate()


def _scrape(over: threading.Event) -> None:
    """As Prometheus does; the exporter may not listen yet at the first time."""
    while not over.is_set():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as page:
            page.read()
        over.wait(SCRAPE)


def _watching(cluster: Cluster, pid: int | None) -> float:
    """CPU seconds so far of the process and of its sessions; sessions that ended are lost."""
    if pid is None:
        return 0.0
    with connect(cluster.dsn()) as session:
        rows = session.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND application_name <> 'pgbench' AND pid <> pg_backend_pid()"
        ).fetchall()
    return cpu_of(pid) + sum(cpu_of(backend) for (backend,) in rows)


def _pgbench(program: Path, cluster: Cluster, *arguments: str) -> str:
    command = [str(program), *arguments, cluster.dsn()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _tell(
    given: argparse.Namespace, variants: Sequence[str], seen: Sequence[Mapping[str, Seen]]
) -> None:
    say = sys.stdout.write
    say(
        f"{given.workload}, scale {given.scale}, {given.clients} clients, "
        f"{given.blocks} blocks of {given.seconds} s\n"
    )
    for name in variants[1:]:
        cpus = median(block[name].cpus for block in seen)
        say(f"{name}: {cpus:.2%} of a CPU (median)")
        if given.blocks > 1:
            pairs = [(block["alone"].tps, block[name].tps) for block in seen]
            say(f"; throughput {_words(compare(pairs, delta=0.01))}")
        say("\n")
    if "exporter" not in variants:
        say(f"{EXPORTER} is not installed: nothing to compare with\n")


def _words(found: Comparison) -> str:
    return f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times, {found.verdict}"


if __name__ == "__main__":
    main(sys.argv[1:])
