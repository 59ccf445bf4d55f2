"""Read pgbench's results: its summary and its log of every transaction.

The summary's labels changed over the versions; 13 to 18 are understood. Its latencies are not
used: without --progress it divides the duration by the number of transactions. The log has
the true ones. Source: src/bin/pgbench/pgbench.c, printResults and doLog.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.errors import MrTunerError
from mrtuner.stats.histogram import Histogram, histogram

#: Logged in place of a time for a transaction that was given up, or never begun.
_NEVER_RAN: Final = frozenset({b"skipped", b"failed"})
#: A client's first transaction has number 0 in some versions and 1 in others.
_FIRST: Final = frozenset({b"0", b"1"})
_MICROSECONDS: Final = 1_000_000
#: Ends of transactions are kept in steps of 10 ms: anything shorter is not a pause.
_TICK: Final = 10_000
_UNREADABLE_HINT: Final = "Run pgbench yourself with the same options and check its output."


@dataclass(frozen=True, slots=True)
class PgbenchSummary:
    """The closing lines of one pgbench run."""

    transactions: int  # those that succeeded
    failed: int  # given up after serialization failures or deadlocks; 0 before 15
    tps: float  # without the time to connect
    skipped: int = 0  # at a given rate with a latency limit: too late to begin
    commands: tuple[float, ...] = ()  # mean time [ms] of each command of the script, with -r


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Times of single transactions in milliseconds."""

    mean: Annotated[float, Doc("mean")]
    stddev: Annotated[float, Doc("standard deviation")]
    p50: Annotated[float, Doc("median")]
    p95: Annotated[float, Doc("95th percentile")]
    p99: Annotated[float, Doc("99th percentile")]
    p999: Annotated[float, Doc("99.9th percentile")]
    maximum: Annotated[float, Doc("the longest")]


@dataclass(frozen=True, slots=True)
class Log:
    """What a load program logged of single transactions."""

    latency: LatencySummary | None = None  # None when no transaction was logged
    per_second: tuple[int, ...] = ()  # transactions that ended in each whole second, stalls as 0
    times: Histogram = field(default_factory=Histogram)  # from the scheduled start at a given rate
    slowest: tuple[int, ...] = ()  # the longest time [µs] that ended in each whole second
    pause: float | None = None  # the longest time [s] in which no transaction ended, to 10 ms
    skipped: int = 0  # transactions that were too late to be begun
    commands: tuple[float, ...] = ()  # mean time [ms] of each command of the script, with -r


def read_summary(text: str) -> PgbenchSummary:
    """Read what pgbench prints at the end; MrTunerError when a line is missing."""
    failed = re.search(r"^number of failed transactions: (\d+)", text, re.MULTILINE)
    skipped = re.search(r"^number of transactions skipped: (\d+)", text, re.MULTILINE)
    return PgbenchSummary(
        transactions=int(
            _found(r"^number of transactions actually processed: (\d+)", text, "transactions")
        ),
        failed=int(failed[1]) if failed else 0,
        tps=float(
            _found(
                # 13 says "excluding connections establishing", and has a line including them.
                r"^tps = ([\d.]+) \((?:excluding|without initial connection)",
                text,
                "throughput",
            )
        ),
        skipped=int(skipped[1]) if skipped else 0,
        commands=tuple(_commands(text)),
    )


def _commands(text: str) -> Iterator[float]:
    """Yield the times that -r prints; since 15 a number of failures follows each."""
    _, heading, rest = text.partition("statement latencies in milliseconds")
    for line in rest.splitlines()[1:] if heading else ():
        if not (found := re.match(r" +(\d+\.\d+) ", line)):
            return
        yield float(found[1])


def _found(pattern: str, text: str, what: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise MrTunerError(f"pgbench printed no {what}", _UNREADABLE_HINT)
    return match[1]


def complaint(stderr: str) -> str:
    """The line of pgbench's stderr that names the cause: its last ones only repeat that it died.

    >>> complaint("pgbench: error: deadlock\\npgbench: error: Run was aborted")
    'deadlock'
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"pgbench: (error|fatal): ", line)]
    said = (causes or lines[-1:] or ["no reason given"])[0]
    return re.sub(r"^pgbench: (error|fatal): ", "", said)


def read_log(lines: Iterable[bytes], sampling: float = 1.0) -> Log:
    """Condense log lines ``client number time script second microsecond …``; time in µs.

    `sampling` is the share of transactions logged: counts per second are scaled up by it.
    The first and the last second are dropped from the series, for they are not whole.
    """
    times: Counter[bytes] = Counter()
    seconds: Counter[bytes] = Counter()
    slowest: dict[bytes, int] = {}
    ends: set[int] = set()
    begins: list[int] = []
    for line in lines:
        _, number, time, _, second, rest = line.split(b" ", 5)
        if time in _NEVER_RAN:
            continue
        end = int(second) * _MICROSECONDS + int(rest.split(b" ", 1)[0])
        ends.add(end // _TICK)
        if number in _FIRST:
            begins.append(end - int(time))
        times[time] += 1
        seconds[second] += 1
        if int(time) > slowest.get(second, -1):
            slowest[second] = int(time)
    whole = _whole_seconds(seconds)
    return Log(
        latency=_latency(times),
        per_second=tuple(round(seconds[second] / sampling) for second in whole),
        times=histogram({int(time): count for time, count in times.items()}),
        slowest=tuple(slowest.get(second, 0) for second in whole),
        pause=_pause(ends | {begin // _TICK for begin in begins}),
    )


def _pause(ticks: Collection[int]) -> float:
    """The longest time [s] between two successive ticks."""
    ordered = sorted(ticks)
    gaps = (later - earlier for earlier, later in pairwise(ordered))
    return max(gaps, default=0) * _TICK / _MICROSECONDS


def _whole_seconds(seconds: Counter[bytes]) -> list[bytes]:
    """Every second between the first and the last one, including those without a transaction."""
    seen = [int(second) for second in seconds]
    return [b"%d" % second for second in range(min(seen) + 1, max(seen))] if seen else []


def _latency(times: Counter[bytes]) -> LatencySummary | None:
    if not times:
        return None
    ranked = sorted((int(time), count) for time, count in times.items())
    number = times.total()
    mean = sum(time * count for time, count in ranked) / number
    variance = sum(count * (time - mean) ** 2 for time, count in ranked) / number
    p50, p95, p99, p999 = (_percentile(ranked, number, p) for p in (0.5, 0.95, 0.99, 0.999))
    return LatencySummary(
        mean=mean / 1000,
        stddev=math.sqrt(variance) / 1000,
        p50=p50 / 1000,
        p95=p95 / 1000,
        p99=p99 / 1000,
        p999=p999 / 1000,
        maximum=ranked[-1][0] / 1000,
    )


def _percentile(ranked: Sequence[tuple[int, int]], number: int, share: float) -> int:
    """The least time that at least this share of the transactions did not exceed."""
    wanted = math.ceil(round(share * number, 6))  # 0.95 * 20 is a hair above 19
    seen = 0
    for time, count in ranked:
        seen += count
        if seen >= wanted:
            return time
    return ranked[-1][0]
