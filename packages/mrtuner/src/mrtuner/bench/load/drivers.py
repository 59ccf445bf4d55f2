"""What puts the load of a cell on a server: pgbench, sysbench, or any command.

A `Driver` is one of them; it knows everything but the server and the length of the run. The
password is passed in the environment: any user can read a command line.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from mrtuner.bench.load.pgbench import (
    PATIENCE_S,
    Load,
    LoadRun,
    check_syntax,
    children_cpu,
    ended,
    run,
    split_secrets,
    try_out,
)
from mrtuner.bench.load.pgbench_output import Log
from mrtuner.bench.load.programs import CommandWorkload, Sysbench, filled
from mrtuner.bench.plan.model import GridCell, Workload
from mrtuner.errors import BadValue, MissingPart, MrTunerError
from mrtuner.stats.histogram import Histogram, histogram

_HINT: Final = "Run it yourself with the same arguments and check its output."


class Driver(Protocol):
    """Puts one cell's load on a server."""

    def run(self, dsn: str, seconds: int, seed: int, sampling: float = 1, /) -> tuple[LoadRun, Log]:
        """Run for `seconds`; MrTunerError with the program's own message if it fails.

        `sampling` is the share of transactions in pgbench's log.
        """

    def check(self) -> None:
        """Check what can be checked without a server."""

    def try_out(self, dsn: str) -> None:
        """Run as briefly as possible, to see whether the load works at all."""


@dataclass(frozen=True, slots=True)
class PgbenchDriver:
    """pgbench with a script; `options` say which one, and at which rate."""

    program: Path
    load: Load
    options: Sequence[str]

    def check(self) -> None:
        check_syntax(self.options, program=self.program)

    def run(self, dsn: str, seconds: int, seed: int, sampling: float = 1) -> tuple[LoadRun, Log]:
        load = replace(self.load, seconds=seconds)
        return run(dsn, load, self.options, seed=seed, sampling=sampling, program=self.program)

    def try_out(self, dsn: str) -> None:
        try_out(dsn, self.options, self.load.scale, program=self.program)


@dataclass(frozen=True, slots=True)
class CommandDriver:
    """Any program. It yields only throughput: no latencies, no figures per second."""

    command: CommandWorkload
    cell: GridCell
    threads: int

    def check(self) -> None:
        """Raise MissingPart if the program is not installed."""
        _require(shlex.split(self.command.run)[0], "Install it")

    def run(self, dsn: str, seconds: int, seed: int, _sampling: float = 1) -> tuple[LoadRun, Log]:
        known = _known(self.cell, self.threads) | {"seconds": seconds, "seed": seed}
        printed, wall, cpu = _timed(self.command.run, dsn, known, seconds + PATIENCE_S)
        tps = throughput(self.command, printed)
        found = LoadRun(
            # At least one: counted figures are divided by it.
            transactions=max(1, round(tps * seconds)), failed=0, tps=tps, latency=None,
            per_second=(), sampling=1.0, wall=wall, client_cpu=cpu,
        )  # fmt: skip
        return found, Log()

    def try_out(self, dsn: str) -> None:
        self.run(dsn, 1, 1)


@dataclass(frozen=True, slots=True)
class SysbenchDriver:
    """sysbench with one of its scripts, or one by its path; one thread per client."""

    sysbench: Sysbench
    cell: GridCell
    rate: float | None
    simple: bool  # protocol

    def check(self) -> None:
        """Raise MissingPart without sysbench, BadValue if the user's script is missing."""
        _require("sysbench", "Install it (Debian's package is sysbench)")
        if self.sysbench.own and not Path(self.sysbench.script).is_file():
            raise BadValue(
                f"sysbench script {self.sysbench.script} not found",
                "Check the workload's sysbench.",
            )

    def run(self, dsn: str, seconds: int, seed: int, _sampling: float = 1) -> tuple[LoadRun, Log]:
        options = [
            *(f"--threads={self.cell.clients}", f"--time={seconds}", "--events=0"),
            *(f"--rand-seed={max(1, seed)}", "--report-interval=1", "--histogram=on"),
            *("--percentile=99", f"--db-ps-mode={'disable' if self.simple else 'auto'}"),
        ]
        if self.rate is not None:
            options.append(f"--rate={max(1, round(self.rate))}")
        began, before = time.monotonic(), children_cpu()
        printed = _sysbench(
            self.sysbench, self.cell.scale, [*options, "run"], dsn, seconds + PATIENCE_S
        )
        return read_sysbench(printed, time.monotonic() - began, children_cpu() - before)

    def try_out(self, dsn: str) -> None:
        self.run(dsn, 1, 1)


def _require(program: str, install: str) -> None:
    if shutil.which(program) is None:
        raise MissingPart(
            f"program {program} not found", f"{install}, or give its path in the plan."
        )


def prepare(workload: Workload, dsn: str, scale: int) -> None:
    """Let sysbench or a command fill its tables; pgbench's exist already."""
    if workload.sysbench is not None:
        _sysbench(workload.sysbench, scale, ["prepare"], dsn, None)
    elif workload.command is not None and workload.command.prepare is not None:
        cell = GridCell(workload.name, scale, 1)
        _timed(workload.command.prepare, dsn, _known(cell, 1), None)


def throughput(command: CommandWorkload, printed: str) -> float:
    """Find throughput [tps] in the output as the plan says; MrTunerError if it is missing.

    >>> throughput(CommandWorkload(run="x", throughput=r"tps: ([\\d.]+)"), "tps: 12.5")
    12.5
    >>> throughput(CommandWorkload(run="x", throughput_key="sum.tps"), 'talk\\n{"sum": {"tps": 3}}')
    3.0
    """
    if command.throughput_key is not None:
        value = _at(_json(printed), command.throughput_key)
    else:
        found = re.findall(command.throughput or "", printed, re.MULTILINE)
        value = found[-1] if found else None
    try:
        tps = float(value)
    except (TypeError, ValueError):
        where = command.throughput_key or command.throughput
        raise MrTunerError(f"the command printed no throughput at {where!r}", _HINT) from None
    if not (tps > 0 and math.isfinite(tps)):
        raise MrTunerError(f"the command printed a throughput of {tps:g}", _HINT)
    return tps


def _json(printed: str) -> object:
    """Parse the whole output as JSON, or else its last line."""
    for text in (printed, (printed.strip().splitlines() or [""])[-1]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    raise MrTunerError("the command printed no JSON", _HINT)


def _at(document: object, path: str) -> Any:
    found: Any = document
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def read_sysbench(printed: str, wall: float, cpu: float) -> tuple[LoadRun, Log]:
    """Read sysbench 1.0's final report, and its line of every second.

    Its histogram has 1,024 steps from 1 µs to 100 s: times are good to 1.8 %. Source:
    sysbench.c, report_histogram and print_global_stats.
    """
    transactions, tps = (
        float(_number(rf"^\s+transactions:\s+{part}", printed, "transactions"))
        for part in (r"(\d+)", r"\d+\s+\(([\d.]+) per sec")
    )
    if not transactions:
        raise MrTunerError("sysbench completed no transaction", _HINT)
    found = LoadRun(
        transactions=int(transactions),
        failed=int(_number(r"^\s+ignored errors:\s+(\d+)", printed, "errors")),
        tps=tps,
        latency=None,  # the histogram has it all
        per_second=tuple(
            round(float(text))
            for text in re.findall(r"^\[ \d+s \] .*?\btps: ([\d.]+)", printed, re.MULTILINE)
        ),
        sampling=1.0,
        wall=wall,
        client_cpu=cpu,
    )
    # Late transactions wait, and the waiting counts: none is skipped.
    return found, Log(times=_histogram(printed))


def _histogram(printed: str) -> Histogram:
    """sysbench's histogram in µs; its highest step becomes the maximum that sysbench reports."""
    counts: Counter[int] = Counter()
    for value, count in re.findall(r"^\s+([\d.]+) \|\**\s+(\d+)$", printed, re.MULTILINE):
        counts[round(float(value) * 1000)] += int(count)
    if counts:
        last = max(counts)
        longest = round(float(_number(r"^\s+max:\s+([\d.]+)", printed, "maximum")) * 1000)
        counts[max(last, longest)] = counts.pop(last)
    return histogram(counts)


def _number(pattern: str, printed: str, what: str) -> str:
    match = re.search(pattern, printed, re.MULTILINE)
    if match is None:
        raise MrTunerError(f"sysbench printed no {what}", _HINT)
    return match[1]


def _sysbench(
    wanted: Sysbench, scale: int, options: Sequence[str], dsn: str, timeout: float | None
) -> str:
    places = _places(dsn)
    command = [
        *("sysbench", wanted.script, "--db-driver=pgsql", f"--pgsql-host={places['host']}"),
        *(f"--pgsql-port={places['port']}", f"--pgsql-user={places['user']}"),
        *(f"--pgsql-db={places['database']}", *wanted.arguments(scale), *options),
    ]
    # A user's script finds the files that it needs beside it.
    place = Path(wanted.script).parent if wanted.own else None
    return _call(command, dsn, timeout, place)


def _timed(
    command: str, dsn: str, known: Mapping[str, object], timeout: float | None
) -> tuple[str, float, float]:
    """Run a command; return its output, its duration and its CPU time [s]."""
    places = {**known, **_places(dsn)}
    words = [filled(word, places) for word in shlex.split(command)]
    began, before = time.monotonic(), children_cpu()
    printed = _call(words, dsn, timeout)
    return printed, time.monotonic() - began, children_cpu() - before


def _known(cell: GridCell, threads: int) -> dict[str, object]:
    return {"clients": cell.clients, "scale": cell.scale, "threads": threads, "rate": cell.rate}


def _places(dsn: str) -> dict[str, str]:
    """Placeholders that describe the server in a command, without the password."""
    from mrtuner.postgres.connect import resolved

    target, _ = split_secrets(dsn)
    parts = {name: each.value for name, each in resolved(dsn).items()}
    return {
        "dsn": target,
        "host": parts.get("host", ""),
        "port": parts.get("port", "5432"),
        "user": parts.get("user", ""),
        "database": parts.get("dbname", ""),
    }


def _call(
    words: Sequence[str], dsn: str, timeout: float | None, directory: Path | None = None
) -> str:
    """Run a program and return its output; MrTunerError if it fails or does not end in time."""
    _, environment = split_secrets(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}
    known = {names[name]: text for name, text in _places(dsn).items() if text and name in names}
    try:
        done = ended(words, words[0], environment | known, timeout, directory)
    except OSError as error:
        raise BadValue(f"{words[0]} cannot be run: {error.strerror}", _HINT) from error
    if done.returncode != 0:
        raise MrTunerError(f"{words[0]} failed: {_complaint(done.stderr, done.stdout)}", _HINT)
    return done.stdout


def _complaint(*outputs: str) -> str:
    """The first line that mentions an error, else the last line."""
    lines = [line.strip() for text in outputs for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"\b(FATAL|ERROR|error)\b", line)]
    return (causes or lines[-1:] or ["no reason given"])[0]
