"""Which metrics of applications are known, and what they contain.

Sources: OpenTelemetry, HTTP semantic conventions 1.23 (http.server.request.duration in seconds;
milliseconds before); Micrometer's http.server.requests; prometheus_exporter, WebCollector (its
prefix is ``ruby_`` by default); yabeda-rails; django-prometheus, middleware.py;
prometheus_flask_exporter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from mrtuner.errors import BadValue

#: The last of these words in a metric's name is its unit; the value is the seconds in one.
_UNITS: Final = {
    "seconds": 1.0, "milliseconds": 1e-3, "ms": 1e-3, "microseconds": 1e-6, "us": 1e-6,
    "nanoseconds": 1e-9, "ns": 1e-9,
}  # fmt: skip
#: What --metric-unit accepts: the seconds in each unit.
UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A metric with times of requests, and what its library counts besides."""

    name: str
    database: str | None = None  # time in the database of the same requests
    queue: str | None = None  # time before the application, by X-Request-Start


#: The first that is present is used; of one library's, those of the whole request come first.
KNOWN: Final = (
    Known(name="http_server_request_duration_seconds"),
    Known(name="http_server_duration_milliseconds"),
    Known(name="http_server_requests_seconds"),
    Known(name="ruby_http_request_duration_seconds",
          database="ruby_http_request_sql_duration_seconds",
          queue="ruby_http_request_queue_duration_seconds"),
    Known(name="http_request_duration_seconds", database="http_request_sql_duration_seconds",
          queue="http_request_queue_duration_seconds"),
    Known(name="rails_request_duration_seconds", database="rails_db_runtime_seconds"),
    Known(name="django_http_requests_latency_including_middlewares_seconds"),
    Known(name="django_http_requests_latency_seconds_by_view_method"),
    Known(name="flask_http_request_duration_seconds"),
)  # fmt: skip
#: The CPU time of a process, which every client library exposes on Linux.
CPU: Final = "process_cpu_seconds_total"
STARTED: Final = "process_start_time_seconds"

_SELECTOR: Final = re.compile(r"\s*([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_MATCHER: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:\\.|[^"\\])*)"\s*(,|$)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """A condition on one label."""

    label: str
    operator: str
    value: str

    def holds(self, value: str) -> bool:
        """Whether it holds for a label's value; a label that is missing is empty."""
        if "~" in self.operator:
            found = re.fullmatch(self.value, value) is not None
        else:
            found = value == self.value
        return found is not self.operator.startswith("!")

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{self.operator}"{escaped}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A metric and conditions on its labels, as PromQL writes them."""

    name: str | None = None  # None: the first known one that is there
    matchers: tuple[Matcher, ...] = field(default=())

    def of(self, name: str) -> str:
        """Return the same conditions for another metric, as PromQL writes them."""
        return f"{name}{{{','.join(map(str, self.matchers))}}}"


def selector(text: str | None) -> Selector:
    """Parse a selector such as ``http_request_duration_seconds{job="web"}``; None: any known.

    >>> selector('up{job="web",env!~"test|dev"}').of("up")
    'up{job="web",env!~"test|dev"}'

    Raises BadValue for anything else.
    """
    if text is None:
        return Selector()
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise _no_selector(text)
    inside, matchers, place = match[2] or "", [], 0
    while inside[place:].strip():
        found = _MATCHER.match(inside, place)
        if found is None:
            raise _no_selector(text)
        matchers.append(_matcher(found, text))
        place = found.end()
    histogram = re.sub("_(bucket|sum|count)$", "", match[1])
    return Selector(name=histogram, matchers=tuple(matchers))


def _matcher(found: re.Match[str], text: str) -> Matcher:
    value = re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), found[3])
    if "~" in found[2]:
        try:
            re.compile(value)
        except re.error:
            raise _no_selector(text) from None
    return Matcher(label=found[1], operator=found[2], value=value)


def _no_selector(text: str) -> BadValue:
    return BadValue(
        f"--metric {text!r} is not a metric with labels",
        "Write http_request_duration_seconds, or 'http_request_duration_seconds{job=\"web\"}'.",
    )


def seconds_in_unit(name: str, unit: str | None) -> float:
    """Return the seconds in one unit of a metric: as given, else as its name says.

    >>> seconds_in_unit("http_server_duration_milliseconds", None)
    0.001

    Raises BadValue if neither gives it.
    """
    if unit is not None:
        return UNITS[unit]
    for word in reversed(name.split("_")):
        if word in _UNITS:
            return _UNITS[word]
    raise BadValue(
        f"the unit of {name} is not in its name", "Give it: --metric-unit s, ms, us or ns."
    )
