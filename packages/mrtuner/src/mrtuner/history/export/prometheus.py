"""The last sample in the text format of Prometheus, and over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner import __version__
from mrtuner.history.export.latest import MOST_ROWS, Figure, latest
from mrtuner.history.recording.source import Kind, built_in

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

_PREFIX: Final = "mrtuner"
#: The last word of a name, by the unit; other units, such as blocks, are in the names already.
_UNITS: Final = {
    "ms": "seconds", "s": "seconds", "bytes": "bytes", "share": "ratio",
    "bytes/s": "bytes_per_second", "%": "percent", "timestamp": "timestamp_seconds",
}  # fmt: skip


def metric(source: str, column: str) -> str:
    """Return the name under which a column of a built-in source is exposed.

    >>> metric("checkpoints", "write_ms")
    'mrtuner_checkpoints_write_seconds_total'
    """
    (declared,) = (one for one in built_in()[source].columns if one.name == column)
    name = f"{_PREFIX}_{_with_unit(f'{source}_{column}', declared.unit)}"
    return f"{name}_total" if declared.kind is Kind.COUNTER else name


def own_metric(name: str) -> str:
    """Return the exposed name of a figure that is not a column, such as the load or the lag."""
    return f"{_PREFIX}_{name}"


def exposition(
    directory: Path, *, most_rows: int = MOST_ROWS, clock: Callable[[], float] = time.time
) -> bytes:
    """Return the last sample in Prometheus' text format; `clock` gives seconds since 1970.

    Raises:
        UsageError: there is no store, or it is damaged.
    """
    from prometheus_client import generate_latest

    return bytes(generate_latest(registry(directory, most_rows=most_rows, clock=clock)))


def registry(
    directory: Path, *, most_rows: int = MOST_ROWS, clock: Callable[[], float] = time.time
) -> CollectorRegistry:
    """Return a registry that reads the store at each collection."""
    from prometheus_client.registry import CollectorRegistry

    found = CollectorRegistry()
    found.register(_Collector(directory, most_rows, clock))
    return found


class _Collector:
    """Collects the figures of a store for Prometheus' client."""

    def __init__(self, directory: Path, most_rows: int, clock: Callable[[], float]) -> None:
        self.directory, self.most_rows, self.clock = directory, most_rows, clock

    def describe(self) -> Iterator[Any]:
        """Describe nothing: the metrics depend on the store."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Yield one metric family for each name."""
        families: dict[str, Any] = {}
        found = latest(self.directory, self.clock(), most_rows=self.most_rows)
        for figure in map(_in_base_units, found):
            family = families.setdefault(figure.name, _family(figure))
            family.add_metric(list(figure.labels.values()), figure.value)
        yield from families.values()
        yield _recorder()


def _in_base_units(figure: Figure) -> Figure:
    """Name the unit, and convert ms to seconds. Source: prometheus.io, Metric and label naming."""
    name = _with_unit(figure.name, figure.unit)
    if figure.unit != "ms":
        return replace(figure, name=name)
    return replace(figure, name=name, unit="s", value=figure.value / 1000)


def _with_unit(name: str, unit: str | None) -> str:
    """Return a name that ends with its unit.

    >>> _with_unit("io_read_ms", "ms"), _with_unit("wal_bytes", "bytes"), _with_unit("age", None)
    ('io_read_seconds', 'wal_bytes', 'age')
    """
    word = _UNITS.get(unit or "")
    name = name.removesuffix("_ms")
    return name if word is None or name.endswith(f"_{word}") else f"{name}_{word}"


def _recorder() -> Any:
    from prometheus_client.core import GaugeMetricFamily

    name, about = own_metric("recorder_info"), "Version of MrTuner"
    found = GaugeMetricFamily(name, about, labels=["version"])
    found.add_metric([__version__], 1)
    return found


def _family(figure: Figure) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if figure.cumulative else GaugeMetricFamily
    labels = [_LABELS.get(name, name) for name in figure.labels]
    return kind(f"{_PREFIX}_{figure.name}", figure.help, labels=labels)


#: Prometheus has a label "instance" of its own: the exporter's address. A user's source may have a
#: key of ours.
_LABELS: Final = {"instance": "server", "server": "key_server"}
