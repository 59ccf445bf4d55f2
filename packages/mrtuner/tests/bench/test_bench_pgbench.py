"""The real pgbench against the real embedded server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from conftest import PASSWORD, NewCluster

from mrtuner.bench.load.pgbench import Load, find_pgbench, initialise, run, try_out
from mrtuner.cli.common.change import undo_command
from mrtuner.errors import MissingPart, MrTunerError, UsageError
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.cluster import Cluster
from servers import binaries

TPCB = ["--builtin=tpcb-like"]


@pytest.fixture
def program() -> Path:
    return find_pgbench(binaries(18))


@pytest.fixture
def dsn(embedded: Cluster) -> Iterator[str]:
    """A database of our own on the worker's server."""
    name = "pgbench_test"
    with psycopg.connect(embedded.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield embedded.dsn(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def one_value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_a_run_is_measured_from_the_log_of_every_transaction(dsn: str, program: Path) -> None:
    initialise(dsn, 1, program=program)
    assert one_value(dsn, "SELECT count(*) FROM pgbench_accounts") == 100_000

    load = Load(seconds=3, clients=2, threads=2)
    seen, _ = run(dsn, load, TPCB, seed=1, program=program)

    # TPC-B writes one row of history a transaction.
    assert one_value(dsn, "SELECT count(*) FROM pgbench_history") == seen.transactions
    assert seen.failed == 0
    assert 2.9 < seen.elapsed < 4.5
    assert seen.latency is not None
    assert seen.latency.p50 <= seen.latency.p95 <= seen.latency.p99 <= seen.latency.maximum
    # Two clients that never think are busy all the time: tps x latency is close to 2.
    assert seen.tps * seen.latency.mean / 1000 == pytest.approx(2, rel=0.3)
    assert seen.worst_second is not None
    assert seen.worst_second <= max(seen.per_second) <= seen.transactions
    assert 0 < seen.client_cpu < 2 * seen.wall


def test_a_sampled_log_still_counts_every_transaction(dsn: str, program: Path) -> None:
    initialise(dsn, 1, program=program)
    load = Load(seconds=1, clients=1)
    seen, _ = run(dsn, load, ["--builtin=select-only"], sampling=0.2, program=program)
    assert seen.sampling == 0.2
    assert seen.latency is not None
    assert seen.transactions > 100


def test_a_script_of_ones_own_runs_with_its_scale(dsn: str, program: Path, tmp_path: Path) -> None:
    script = tmp_path / "own.sql"
    script.write_text("SELECT 1 / (CASE WHEN :scale = 7 THEN 1 ELSE 0 END);\n")
    load = Load(seconds=1, clients=1)
    seen, _ = run(dsn, load, [f"--file={script}", "--scale=7"], program=program)
    assert seen.transactions > 0


def test_transactions_too_late_to_begin_are_counted_apart(
    dsn: str, program: Path, tmp_path: Path
) -> None:
    """100 a second are due, and each takes 50 ms: one client serves 20, the rest are late."""
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(0.05);")
    seen, log = run(
        dsn, Load(seconds=2, clients=1),
        [f"--file={script}", "--rate=100", "--latency-limit=20"], seed=1, program=program,
    )  # fmt: skip
    assert log.skipped > seen.transactions
    assert log.times.total == seen.transactions
    assert 20 <= seen.transactions <= 45
    # Latency counts from the scheduled start: never below what the server took.
    assert log.times.counts[0][0] >= 50_000


def test_a_script_is_tried_out_with_one_transaction(
    dsn: str, program: Path, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.sql"
    script.write_text("SELECT :scale;")
    try_out(dsn, [f"--file={script}"], 3, program=program)
    script.write_text("SELEKT 1;")
    with pytest.raises(MrTunerError, match="syntax error"):
        try_out(dsn, [f"--file={script}"], 3, program=program)


def test_a_transaction_that_overruns_is_charged_to_the_run(
    dsn: str, program: Path, tmp_path: Path
) -> None:
    script = tmp_path / "slow.sql"
    script.write_text("SELECT pg_sleep(2);\n")
    seen, _ = run(dsn, Load(seconds=1, clients=1), [f"--file={script}"], program=program)
    assert seen.transactions == 1
    assert seen.elapsed == pytest.approx(2, abs=0.3)


def test_pgbench_dying_gives_its_cause(dsn: str, program: Path, tmp_path: Path) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1 / 0;\n")
    with pytest.raises(MrTunerError, match="division by zero"):
        run(dsn, Load(seconds=1), [f"--file={script}"], program=program)


def test_a_database_that_is_not_there_is_named(embedded: Cluster, program: Path) -> None:
    with pytest.raises(MrTunerError, match='"nowhere" does not exist'):
        run(embedded.dsn("nowhere"), Load(seconds=1), TPCB, program=program)


def test_the_password_is_never_on_a_command_line(new_cluster: NewCluster, program: Path) -> None:
    cluster = new_cluster(listen=True)
    dsn = psycopg.conninfo.make_conninfo(cluster.dsn(tcp=True), password=PASSWORD)
    seen: list[str] = []
    stop = Event()
    watcher = Thread(target=watch_command_lines, args=(seen, stop))
    watcher.start()
    try:
        initialise(dsn, 1, program=program)
        run(dsn, Load(seconds=1, clients=1), TPCB, program=program)
    finally:
        stop.set()
        watcher.join()
    assert any("--init-steps" in line for line in seen)
    assert any("--log-prefix" in line for line in seen)
    assert not any(PASSWORD in line for line in seen)


def watch_command_lines(seen: list[str], stop: Event) -> None:
    while not stop.wait(0.02):
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "--init-steps" in line or "--log-prefix" in line:
                seen.append(line)


def test_a_wrong_password_is_not_echoed(new_cluster: NewCluster, program: Path) -> None:
    cluster = new_cluster(listen=True)
    dsn = psycopg.conninfo.make_conninfo(cluster.dsn(tcp=True), password="open sesame")
    with pytest.raises(MrTunerError) as failure:
        run(dsn, Load(seconds=1), TPCB, program=program)
    assert "password authentication failed" in failure.value.message
    assert "sesame" not in failure.value.message


def test_a_connection_string_that_cannot_be_read_is_not_quoted(program: Path) -> None:
    with pytest.raises(UsageError) as failure:
        run("password=open sesame host", Load(seconds=1), TPCB, program=program)
    assert "sesame" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("name", ["sslpassword", "scram_client_key"])
def test_other_secrets_are_refused(name: str, program: Path) -> None:
    if psycopg.pq.version() < 180000 and name.startswith("scram"):
        pytest.skip("this libpq does not know the keyword")
    with pytest.raises(UsageError, match=f"{name} cannot be passed to pgbench"):
        run(f"host=h {name}=x", Load(seconds=1), TPCB, program=program)
    assert "hunter2" not in undo_command(f"host=h user=u {name}=hunter2", "never", None)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="has no pgbench"):
        find_pgbench(Binaries(tmp_path, "18.6", 18))
    with pytest.raises(MissingPart, match="cannot be run"):
        run("", Load(seconds=1), TPCB, program=tmp_path / "pgbench")
