"""The busiest minutes of a load from a Prometheus server, or what an application exposes.

Source: Prometheus documentation, HTTP API, version 1.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from mrtuner.errors import BadValue, ConnectError, MrTunerError, UsageError
from mrtuner.facts import Fact
from mrtuner.files import LARGEST
from mrtuner_pods.observed.histogram import Histogram
from mrtuner_pods.observed.metrics import (
    CPU,
    KNOWN,
    Known,
    Matcher,
    Selector,
    seconds_in_unit,
    selector,
)
from mrtuner_pods.observed.model import Observed
from mrtuner_pods.observed.prometheus import Counted, observed, of_texts, wanted_metric

#: How far back to look for the busiest minutes, and the time between two readings [s].
DAY, APART = 86_400.0, 60.0
#: Long enough for a rate at the usual scrape intervals, short enough for a peak [s].
_WINDOW: Final = 300.0
#: Points of a range query: Prometheus refuses many more.
_POINTS: Final = 10_000
_PATIENCE: Final = 30.0
#: Labels of a scrape target, which its CPU time has as well.
_OF_TARGETS: Final = frozenset(
    {"app", "cluster", "container", "env", "environment", "instance", "job", "namespace", "node",
     "pod", "service", "zone"}
)  # fmt: skip


def of_url(
    url: str, *, metric: str | None = None, unit: str | None = None, over: float | None = None,
    sleep: Callable[[float], object] = time.sleep, now: Callable[[], float] = time.time,
) -> Observed:  # fmt: skip
    """Return the load that a Prometheus server, or an application's own metrics, show.

    A server is queried for the busiest minutes of the last `over` seconds; an application's metrics
    are read twice, `over` seconds apart.

    Raises UsageError for an invalid address, ConnectError if nothing answers there, BadValue as
    `of_texts` does.
    """
    address = _Address(url)
    if address.is_server():
        return _of_server(address, selector(metric), unit, over or DAY, now())
    first = address.text()
    began = time.monotonic()
    sleep(over or APART)
    second = address.text()
    return of_texts(
        [first, second], address.shown, metric=metric, unit=unit, apart=time.monotonic() - began
    )


@dataclass(frozen=True, slots=True)
class _Address:
    """An HTTP address, which may have a user and a password."""

    url: str

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")) or not urlsplit(self.url).hostname:
            raise UsageError(
                f"{self.shown} is not an HTTP address", "Write http://prometheus:9090, or a file."
            )

    @property
    def shown(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")

    def is_server(self) -> bool:
        """Whether a Prometheus server, or a compatible one, answers there."""
        try:
            answer = json.loads(self._get("/api/v1/query", {"query": "vector(1)"}))
        except (_Rejected, ValueError):
            return False
        return isinstance(answer, dict) and answer.get("status") == "success"

    def text(self) -> str:
        """Return the text that is exposed there."""
        try:
            return self._get("", {})
        except _Rejected as error:
            raise ConnectError(
                f"{self.shown} answered {error.code}",
                "Give the address of a Prometheus server, or of an application's metrics.",
            ) from None

    def ask(self, path: str, parameters: Mapping[str, object]) -> Any:
        """Return the data of an answer; MrTunerError if the query is rejected."""
        try:
            answer = json.loads(self._get(path, parameters))
        except _Rejected as error:
            raise MrTunerError(
                f"Prometheus rejected a query: {error.code} {error.detail}", "Check --metric."
            ) from None
        return answer["data"]

    def _get(self, path: str, parameters: Mapping[str, object]) -> str:
        from base64 import b64encode
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        parts = urlsplit(self.shown)
        address = urlunsplit(parts._replace(path=parts.path + path, query=urlencode(parameters)))
        if not parameters:
            address = urlunsplit(parts)
        login = urlsplit(self.url).netloc.rpartition("@")[0]
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
        request = Request(address, headers=headers)  # noqa: S310 - http(s) only
        try:
            with urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310
                found = answer.read(LARGEST + 1)
        except HTTPError as error:
            raise _Rejected(error.code, _reason(error.read())) from None
        except OSError as error:
            raise ConnectError(
                f"{self.shown} does not respond: {getattr(error, 'reason', error)}",
                "Check the address; a Prometheus server usually has port 9090.",
            ) from None
        if len(found) > LARGEST:
            raise UsageError(f"{self.shown} returned too much data", "Narrow it with --metric.")
        return bytes(found).decode("utf-8", "replace")


class _Rejected(Exception):
    """An HTTP answer with an error status."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body).get("error", ""))
    except (ValueError, AttributeError):
        return ""


# Queries.


def _of_server(
    address: _Address, wanted: Selector, unit: str | None, over: float, now: float
) -> Observed:
    server = _Server(address, wanted, window=min(_WINDOW, over / 3))
    known = wanted_metric(wanted, server.names(over, now), address.shown)
    in_unit = seconds_in_unit(known.name, unit)
    at, rate = server.busiest(known, over, now)
    when = datetime.fromtimestamp(at, UTC)
    where = f"{address.shown}, the {_length(server.window)} to {when:%Y-%m-%d %H:%M:%S} UTC"

    def of(name: str | None) -> Histogram | None:
        return server.histogram(name, at, seconds_in_unit(name, None)) if name else None

    times = server.histogram(known.name, at, in_unit)
    if times is None:
        raise BadValue(
            f"{address.shown} has no requests of {server.selected(known.name)}",
            "Check --metric, or look further back: --over 7d.",
        )
    return observed(
        Counted(
            where=where,
            known=known,
            times=times,
            database=of(known.database),
            queue=of(known.queue),
            cpu=server.cpu(known, at),
            rate=Fact(rate, f"{known.name}_count of {where}, the busiest of {_length(over)}"),
            warnings=(),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=False)
class _Server:
    """Queries over windows of `window` seconds."""

    address: _Address
    wanted: Selector
    window: float

    def names(self, over: float, now: float) -> set[str]:
        """Return the known metrics that the server has; if one is wanted, only that."""
        chosen = [self.wanted.name] if self.wanted.name else [one.name for one in KNOWN]
        pattern = "|".join(f"{name}_count" for name in chosen)
        by_name = Selector(
            matchers=(Matcher(label="__name__", operator="=~", value=pattern),
                      *self.wanted.matchers)
        )  # fmt: skip
        found = self.address.ask(
            "/api/v1/label/__name__/values",
            {"match[]": by_name.of(""), "start": now - over, "end": now},
        )
        return {str(name).removesuffix("_count") for name in found}

    def busiest(self, known: Known, over: float, now: float) -> tuple[float, float]:
        """Return when the busiest window ended [s since 1970], and its rate [1/s]."""
        step = max(self.window, over / _POINTS)
        rows = self.address.ask(
            "/api/v1/query_range",
            {"query": f"sum({self._over('rate', f'{known.name}_count')})", "start": now - over,
             "end": now, "step": step},
        )["result"]  # fmt: skip
        values = [(float(value), float(at)) for row in rows for at, value in row["values"]]
        if not values or max(values)[0] == 0:
            raise BadValue(
                f"{self.address.shown} has no requests of {self.selected(known.name)} in "
                f"{_length(over)}",
                "Check --metric, or look further back: --over 7d.",
            )
        rate, at = max(values)
        return at, rate

    def histogram(self, name: str, at: float, in_unit: float) -> Histogram | None:
        """Return what was counted in the window that ends at `at`; None if nothing was."""
        total = self._number(f"sum({self._over('increase', f'{name}_sum')})", at)
        count = self._number(f"sum({self._over('increase', f'{name}_count')})", at)
        if not count or total is None:
            return None
        rows = self._now(f"sum by (le) ({self._over('increase', f'{name}_bucket')})", at)
        buckets = {float(row["metric"]["le"]): float(row["value"][1]) for row in rows}
        return _rising(buckets, count, total, in_unit)

    def cpu(self, known: Known, at: float) -> Fact[float] | None:
        """Return CPU seconds of the processes that counted these requests; None if unknown."""
        if any(one.label not in _OF_TARGETS for one in self.wanted.matchers):
            return None  # only some of the requests, whose CPU time is not counted
        rows = self._now(f"count by (job) ({self.wanted.of(f'{known.name}_count')})", at)
        if len(rows) != 1 or "job" not in rows[0]["metric"]:
            return None
        job = Matcher(label="job", operator="=", value=str(rows[0]["metric"]["job"]))
        chosen = Selector(matchers=(*self.wanted.matchers, job))
        query = f"sum(increase({chosen.of(CPU)}[{_milliseconds(self.window)}]))"
        seconds = self._number(query, at)
        return Fact(seconds, f'{CPU}{{job="{job.value}"}}') if seconds else None

    def selected(self, name: str) -> str:
        """Return a metric with its labels, for display."""
        return self.wanted.of(name) if self.wanted.matchers else name

    def _over(self, function: str, name: str) -> str:
        return f"{function}({self.wanted.of(name)}[{_milliseconds(self.window)}])"

    def _now(self, query: str, at: float) -> list[Any]:
        return list(self.address.ask("/api/v1/query", {"query": query, "time": at})["result"])

    def _number(self, query: str, at: float) -> float | None:
        rows = self._now(query, at)
        found = float(rows[0]["value"][1]) if rows else math.nan
        return found if math.isfinite(found) else None


def _rising(
    buckets: Mapping[float, float], count: float, total: float, in_unit: float
) -> Histogram:
    """Make buckets cumulative again: each is extrapolated by itself, so sums differ a little."""
    whole = buckets.get(math.inf, count) or count
    most, found = 0.0, {}
    for bound in sorted(buckets):
        most = max(most, buckets[bound])
        found[bound * in_unit] = most / whole * count
    return Histogram(buckets=found, total=total * in_unit, count=count)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _length(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:.3g} s"
