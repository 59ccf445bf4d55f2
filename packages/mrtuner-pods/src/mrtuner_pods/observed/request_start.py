"""X-Request-Start: how long requests waited before the application, from a log or a list.

    t=1512379167.574        nginx, ${msec}: seconds
    1700000000123           Heroku, Thruster; HAProxy's %Ts%ms: milliseconds
    t=1570633834463123      Apache, %t: microseconds
    1700000000123456789     nanoseconds
    Root=1-5759e988-bd86…   X-Amzn-Trace-Id of an AWS load balancer: whole seconds

The size of the number shows its unit: all are times since 1970. Each line has the header and, in
any unit or as ISO 8601, when the application received the request.

Sources: documentation of nginx, Apache (mod_headers), HAProxy (log format), Heroku (HTTP routing)
and Elastic Load Balancing (request tracing).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Final

from mrtuner.errors import BadValue
from mrtuner_pods.observed.model import Observed, PodsMeasuredWaiting
from mrtuner_pods.waiting.queues import quantile
from mrtuner_pods.wording import milliseconds

#: The least number in each unit, and the unit [s]: all are times since 1970, from 2001 to 2100.
_UNITS: Final = ((1_000_000_000, 1.0), (10**12, 1e-3), (10**15, 1e-6), (10**18, 1e-9))
_LATEST: Final = 4_102_444_800  # 2100-01-01
#: Fewest requests for a p95.
LEAST: Final = 200
#: No request waits this long [s]: a unit or a clock is wrong.
_LONGEST: Final = 600.0
#: If even the shortest wait is longer than this [s], the clocks may differ by that much.
_SUSPICIOUS: Final = 0.1
#: If more than this share of the lines cannot be used, it is probably the wrong file.
_READABLE: Final = 0.5

_HEADER: Final = re.compile(r"\bt=(\d{10,19}(?:\.\d+)?)(?![\d.])")
_TRACE: Final = re.compile(r"\bRoot=1-([0-9a-fA-F]{8})-[0-9a-fA-F]{24}\b")
_NUMBER: Final = re.compile(r"(?<![\w.:+/-])(\d{10,19}(?:\.\d+)?)(?![\w.:/-])")
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s?(Z|UTC|[+-]\d\d:?\d\d)?"
)


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time since 1970 [s], and how finely it was written [s]."""

    at: float
    step: float


def waited(text: str, where: str) -> Observed:
    """Return how long requests waited, by a text with two times in each line.

    The first is the header's, which may have ``t=`` before it; the second is when the application
    received the request. Lines without times are left out.

    Raises BadValue with the number of a line that cannot be used, for fewer than 200 requests, and
    where times are more than ten minutes apart.
    """
    pairs = list(_pairs(text, where))
    if len(pairs) < LEAST:
        raise BadValue(
            f"{where} has {len(pairs)} requests, too few for a p95",
            f"Give {LEAST} or more: each line needs the header and the time when the application "
            "received it.",
        )
    waits = sorted(received.at - sent.at for sent, received in pairs)
    far = [one for one in waits if abs(one) > _LONGEST]
    if far:
        raise BadValue(
            f"{where}: {len(far)} of {len(waits)} requests are up to {max(map(abs, far)):,.0f} "
            "s away from their header",
            "A unit or a time zone is wrong: give both times as they were written.",
        )
    skew = max(0.0, -waits[0])
    shown = [one + skew for one in waits]
    step = max(max(sent.step, received.step) for sent, received in pairs)
    return Observed(
        waited=PodsMeasuredWaiting(
            source=f"X-Request-Start in {where}, {len(waits):,} requests",
            count=len(shown), mean=fmean(shown), p50=quantile(shown, 0.5),
            p95=quantile(shown, 0.95), p99=quantile(shown, 0.99),
        ),
        warnings=tuple(_doubts(waits, skew, step, where)),
    )  # fmt: skip


def _doubts(waits: Sequence[float], skew: float, step: float, where: str) -> Iterator[str]:
    if skew:
        future = sum(one < 0 for one in waits)
        yield (
            f"{where}: {future:,} of {len(waits):,} headers are in the future, by up to "
            f"{milliseconds(skew)}: the proxy's clock is ahead by at least that much, which was "
            "added to every wait; with several proxies, each may differ"
        )
    elif waits[0] > _SUSPICIOUS:
        yield (
            f"{where}: even the request that waited least waited {milliseconds(waits[0])}: either "
            "all of them queue, or the clocks differ by that much; compare them (chronyc tracking)"
        )
    if step >= _SUSPICIOUS:
        yield (
            f"{where}: times are in steps of {step:g} s: shorter waits cannot be seen, and each "
            "wait may be off by that much"
        )


def _pairs(text: str, where: str) -> Iterator[tuple[_Moment, _Moment]]:
    others = found = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            pair = _pair(line)
        except BadValue as error:
            raise BadValue(f"{where}, line {number}: {error.message}", error.hint) from None
        if pair is None:
            others += 1
        else:
            found += 1
            yield pair
    if others > _READABLE * (others + found):
        raise BadValue(
            f"{where}: {others:,} of {others + found:,} lines lack the time of the start or of "
            "the receipt",
            "Write both into each line of the log: the header X-Request-Start, and when the "
            "application received the request.",
        )


def _pair(line: str) -> tuple[_Moment, _Moment] | None:
    """Return when a request was sent and received; None if the line lacks one of the two."""
    trace = None
    found = _HEADER.search(line) or (trace := _TRACE.search(line)) or _NUMBER.search(line)
    if found is None:
        return None
    sent = _Moment(int(trace[1], 16), 1.0) if trace else moment(found[1])
    rest = line[: found.start()] + " " + line[found.end() :]
    received = _NUMBER.search(rest)
    if received is not None:
        return sent, moment(received[1])
    written = _ISO.search(rest)
    return None if written is None else (sent, _iso(written))


def moment(text: str) -> _Moment:
    """Return the time that a header's number means, whatever its unit.

    >>> [moment(text).at for text in ("1700000000.5", "1700000000500", "1700000000500000")]
    [1700000000.5, 1700000000.5, 1700000000.5]

    Raises BadValue for a number that is no time from 2001 to 2100 in any unit.
    """
    whole, _, fraction = text.partition(".")
    number = int(whole)
    unit = max((unit for unit in _UNITS if number >= unit[0]), default=None)
    if unit is None or number * unit[1] > _LATEST:
        raise BadValue(
            f"{text} is not a time in seconds, milliseconds, microseconds or nanoseconds since "
            "1970",
            "Write the header as the proxy sent it.",
        )
    parts = float(f"0.{fraction}") if fraction else 0.0
    return _Moment((number + parts) * unit[1], unit[1] * 10.0 ** -len(fraction))


def _iso(match: re.Match[str]) -> _Moment:
    """Parse a time in ISO 8601; without a zone, it is UTC."""
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in {None, "Z", "UTC"} else zone
    try:
        at = datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC).timestamp()
    except ValueError:
        hint = "Write it like 2026-11-24T09:15:00.123Z."
        raise BadValue(f"{match[0]!r} is not a time", hint) from None
    digits = fraction or ""
    return _Moment(at + (float(f"0.{digits}") if digits else 0.0), 10.0 ** -len(digits))
