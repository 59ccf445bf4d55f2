"""Driving pgbench: fill its tables, run a script against them, read what it measured."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from mrtuner.bench.load.pgbench_output import LatencySummary, Log, complaint, read_log, read_summary
from mrtuner.bench.server import guard
from mrtuner.described import Doc
from mrtuner.errors import BadValue, MissingPart, MrTunerError, UsageError
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.connect import SECRETS

#: Our names of pgbench's built-in scripts, and pgbench's own.
BUILTIN: Final = {"tpcb": "tpcb-like", "simple-update": "simple-update", "select": "select-only"}
Builtin = Literal["tpcb", "simple-update", "select"]
Protocol = Literal["simple", "extended", "prepared"]

#: Above this, logging itself becomes a load; a sample gives the percentiles just as well.
_LOGGED_TRANSACTIONS: Final = 5_000_000
#: A client waits for its last transaction; this long after the planned end, something hangs.
PATIENCE_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How pgbench is to run its scripts."""

    scale: int = 1
    clients: int = 4
    threads: int = 1
    seconds: int = 60
    protocol: Protocol = "prepared"
    overtime: int = PATIENCE_S  # seconds beyond the planned end after which it is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """What the load program reported."""

    transactions: Annotated[int, Doc("transactions that succeeded")]
    failed: Annotated[int, Doc("given up after serialization failures or deadlocks")]
    tps: Annotated[float, Doc("transactions per second, without the time to connect")]
    latency: Annotated[LatencySummary | None, Doc("null if no transaction was logged")]
    per_second: Annotated[tuple[int, ...], Doc("transactions that ended in each whole second")]
    sampling: Annotated[float, Doc("share of transactions that were logged")]
    wall: Annotated[float, Doc("seconds from its start to its end")]
    client_cpu: Annotated[float, Doc("seconds of CPU time that it took")]

    @property
    def elapsed(self) -> float:
        """Seconds from the first connection being ready to the end of the last transaction."""
        return self.transactions / self.tps

    @property
    def worst_second(self) -> int | None:
        """Transactions in the slowest whole second; None if the run had no whole second."""
        return min(self.per_second, default=None)


def find_pgbench(binaries: Binaries | None = None) -> Path:
    """pgbench of this installation, or on the PATH; MissingPart when there is none."""
    if binaries is not None:
        return binaries.program("pgbench")
    found = shutil.which("pgbench")
    if found is None:
        raise MissingPart(
            "program pgbench not found on the PATH",
            "Install the package with pgbench, or give an installation with --server-bin DIR.",
        )
    return Path(found)


def pgbench_version(program: Path) -> str:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return printed.stdout.strip().removeprefix("pgbench (PostgreSQL) ")


def sampling_for(expected: float) -> float:
    """The share of this many transactions to log, to one significant figure."""
    if expected <= _LOGGED_TRANSACTIONS:
        return 1.0
    return float(f"{_LOGGED_TRANSACTIONS / expected:.0e}")


def initialise(dsn: str, scale: int, *, program: Path | None = None) -> None:
    """Create and fill pgbench's tables, about 15 MB a scale; existing ones are replaced.

    No VACUUM is run: the caller decides when hint bits are settled.
    """
    if scale < 1:
        raise BadValue(f"scale {scale} is below 1", "Give a whole number of at least 1.")
    options = ["--initialize", "--init-steps=dtgp", "--quiet", f"--scale={scale}"]
    _call(program or find_pgbench(), options, dsn, timeout=None)


def run(
    dsn: str,
    load: Load,
    script: Sequence[str],
    *,
    seed: int | None = None,
    sampling: float = 1.0,
    program: Path | None = None,
) -> tuple[LoadRun, Log]:
    """Run scripts, given as pgbench's options, against the tables that `initialise` made.

    `sampling` is the share of transactions to log. Raises MrTunerError, with pgbench's own
    words, when it dies or when no transaction ends in time.
    """
    options = [*_load_options(load), *script]
    if seed is not None:
        options.append(f"--random-seed={seed}")
    if sampling < 1:
        options.append(f"--sampling-rate={sampling}")
    with guard.temporary_directory("mrtuner-pgbench-") as logs:
        options.append(f"--log-prefix={logs}/log")
        began, cpu_before = time.monotonic(), children_cpu()
        patience = load.seconds + load.overtime
        printed = _call(program or find_pgbench(), options, dsn, timeout=patience)
        wall, cpu = time.monotonic() - began, children_cpu() - cpu_before
        log = read_log(_lines(logs), sampling)
    summary = read_summary(printed)
    measured = LoadRun(
        transactions=summary.transactions,
        failed=summary.failed,
        tps=summary.tps,
        latency=log.latency,
        per_second=log.per_second,
        sampling=min(sampling, 1.0),
        wall=wall,
        client_cpu=cpu,
    )
    return measured, replace(log, skipped=summary.skipped, commands=summary.commands)


def try_out(dsn: str, script: Sequence[str], scale: int, *, program: Path | None = None) -> None:
    """Run one transaction with these options; MrTunerError with what is wrong with the script."""
    options = ["--no-vacuum", "--transactions=1", "--client=1", f"--define=scale={scale}", *script]
    _call(program or find_pgbench(), options, dsn, timeout=PATIENCE_S)


def check_syntax(script: Sequence[str], *, program: Path | None = None) -> None:
    """MrTunerError for a mistake in a script's backslash commands, found without a server.

    pgbench reads its scripts before it connects. Only `try_out` finds errors in the SQL.
    """
    nowhere = "host=127.0.0.1 port=1 connect_timeout=1"
    try:
        _call(program or find_pgbench(), ["--no-vacuum", "--transactions=1", *script], nowhere, 10)
    except MrTunerError as error:
        if "connection to server" not in error.message:
            raise


def _load_options(load: Load) -> list[str]:
    return [
        *("--no-vacuum", "--log", f"--time={load.seconds}", f"--protocol={load.protocol}"),
        *(f"--client={load.clients}", f"--jobs={min(load.threads, load.clients)}"),
    ]


def _lines(directory: Path) -> Iterator[bytes]:
    """All log lines; every thread of pgbench writes a file of its own."""
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            yield from file


def _call(program: Path, options: list[str], dsn: str, timeout: float | None) -> str:
    """Run pgbench to its end and return its stdout."""
    target, environment = split_secrets(dsn)
    try:
        done = ended([program, *options, target], "pgbench", environment, timeout)
    except OSError as error:
        raise MissingPart(
            f"{program} cannot be run: {error.strerror}", "Give another with --server-bin DIR."
        ) from error
    if done.returncode != 0:
        raise MrTunerError(
            f"pgbench failed: {complaint(done.stderr)}",
            "Check the server's log of that time.",
        )
    return done.stdout


def ended(
    words: Sequence[str | Path], name: str, environment: Mapping[str, str],
    timeout: float | None, directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a program to its end; MrTunerError, with its `name`, after `timeout` seconds.

    Raises OSError for one that cannot be run.
    """
    try:
        return subprocess.run(
            words, env=environment, cwd=directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", check=False, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise MrTunerError(
            f"{name} did not end within {timeout:.0f} s",
            "Check pg_stat_activity for sessions that block each other.",
        ) from error


def split_secrets(dsn: str) -> tuple[str, dict[str, str]]:
    """The conninfo for the command line, which everybody can read, and the environment.

    PGPASSWORD carries the password: only the same user can read another process's environment.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:
        # Its message may quote the string, and with it the password; so no chaining either.
        raise UsageError(
            "the connection string cannot be parsed", "Write postgresql://user@host/database."
        ) from None
    environment = os.environ | {"LC_ALL": "C"}  # labels and messages in English
    password = parts.pop("password", None)
    if password is not None:
        environment["PGPASSWORD"] = str(password)
    for secret in sorted(SECRETS.intersection(parts)):
        raise UsageError(
            f"{secret} cannot be passed to pgbench without showing it to all users",
            "Use a login without it for the proof.",
        )
    return make_conninfo("", **parts), environment


def children_cpu() -> float:
    """CPU seconds of the programs that this process ran and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
