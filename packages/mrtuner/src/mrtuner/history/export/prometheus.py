"""The last sample in the text format of Prometheus, and over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.history.export.latest import MOST_ROWS, Figure, latest
from mrtuner.history.recording.source import Kind, built_in

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

_PREFIX: Final = "mrtuner"


def metric(source: str, column: str) -> str:
    """Return the name under which a column of a built-in source is exposed.

    >>> metric("checkpoints", "write_ms")
    'mrtuner_checkpoints_write_seconds_total'
    """
    (declared,) = (one for one in built_in()[source].columns if one.name == column)
    name = f"{_PREFIX}_{_named_in_seconds(f'{source}_{column}', declared.unit)}"
    return f"{name}_total" if declared.kind is Kind.COUNTER else name


def own_metric(name: str) -> str:
    """Return the exposed name of a figure that is not a column, such as the load or the lag."""
    return f"{_PREFIX}_{name}"


def exposition(directory: Path, *, most_rows: int = MOST_ROWS) -> bytes:
    """Return the last sample in Prometheus' text format.

    Raises:
        UsageError: there is no store, or it is damaged.
    """
    from prometheus_client import generate_latest

    return bytes(generate_latest(registry(directory, most_rows=most_rows)))


def registry(directory: Path, *, most_rows: int = MOST_ROWS) -> CollectorRegistry:
    """Return a registry that reads the store at each collection."""
    from prometheus_client.registry import CollectorRegistry

    found = CollectorRegistry()
    found.register(_Collector(directory, most_rows))
    return found


class _Collector:
    """Collects the figures of a store for Prometheus' client."""

    def __init__(self, directory: Path, most_rows: int) -> None:
        self.directory, self.most_rows = directory, most_rows

    def describe(self) -> Iterator[Any]:
        """Describe nothing: the metrics depend on the store."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Yield one metric family for each name."""
        families: dict[str, Any] = {}
        found = latest(self.directory, time.time(), most_rows=self.most_rows)
        for figure in map(_in_seconds, found):
            family = families.setdefault(figure.name, _family(figure))
            family.add_metric(list(figure.labels.values()), figure.value)
        yield from families.values()


def _in_seconds(figure: Figure) -> Figure:
    """Convert ms to seconds, as Prometheus asks. Source: prometheus.io, Metric and label naming."""
    if figure.unit != "ms":
        return figure
    name = _named_in_seconds(figure.name, figure.unit)
    return replace(figure, name=name, unit="s", value=figure.value / 1000)


def _named_in_seconds(name: str, unit: str | None) -> str:
    return f"{name.removesuffix('_ms')}_seconds" if unit == "ms" else name


def _family(figure: Figure) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if figure.cumulative else GaugeMetricFamily
    # Prometheus has a label "instance" of its own: the exporter's address.
    labels = ["server" if name == "instance" else name for name in figure.labels]
    return kind(f"{_PREFIX}_{figure.name}", figure.help, labels=labels)
