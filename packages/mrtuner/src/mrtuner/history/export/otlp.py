"""The last sample as OpenTelemetry metrics, over OTLP/HTTP in protobuf.

Names are those of the collector's PostgreSQL receiver where it has one, so that dashboards made for
it work. Source: opentelemetry-collector-contrib, receiver/postgresqlreceiver/documentation.md.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mrtuner import __version__
from mrtuner.errors import UsageError
from mrtuner.history.export.latest import Figure
from mrtuner.history.export.outbox import Rejected, Undelivered

#: By our name, the receiver's name, and the attributes that distinguish figures with that name.
NAMES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "connections_clients": ("postgresql.backends", {}),
    "connections_maximum": ("postgresql.connection.max", {}),
    "databases_commits": ("postgresql.commits", {}),
    "databases_rollbacks": ("postgresql.rollbacks", {}),
    "databases_deadlocks": ("postgresql.deadlocks", {}),
    "databases_temp_files": ("postgresql.temp_files", {}),
    "databases_temp_bytes": ("postgresql.temp.io", {}),
    "databases_blocks_hit": ("postgresql.blks_hit", {}),
    "databases_blocks_read": ("postgresql.blks_read", {}),
    "databases_rows_returned": ("postgresql.tup_returned", {}),
    "databases_rows_fetched": ("postgresql.tup_fetched", {}),
    "databases_rows_inserted": ("postgresql.tup_inserted", {}),
    "databases_rows_updated": ("postgresql.tup_updated", {}),
    "databases_rows_deleted": ("postgresql.tup_deleted", {}),
    "sizes_bytes": ("postgresql.db_size", {}),
    "checkpoints_timed": ("postgresql.bgwriter.checkpoint.count", {"type": "scheduled"}),
    "checkpoints_requested": ("postgresql.bgwriter.checkpoint.count", {"type": "requested"}),
    "checkpoints_write_ms": ("postgresql.bgwriter.duration", {"type": "write"}),
    "checkpoints_sync_ms": ("postgresql.bgwriter.duration", {"type": "sync"}),
    "checkpoints_buffers_allocated": ("postgresql.bgwriter.buffers.allocated", {}),
    "checkpoints_clean_stops": ("postgresql.bgwriter.maxwritten", {}),
}
#: Our labels by the receiver's attributes, and our units by those of UCUM.
_ATTRIBUTES: Final = {
    "database": "postgresql.database.name",
    "schema": "postgresql.schema.name",
}
#: Of what the label `name` is a table's; a slot's or an index's is none.
_OF_TABLES: Final = "tables_"
_UNITS: Final = {
    "bytes": "By", "bytes/s": "By/s", "ms": "ms", "s": "s", "blocks": "{blocks}", "timestamp": "s",
    None: "1",
}  # fmt: skip
_TIMEOUT: Final = 10.0
_NANO: Final = 1_000_000_000
#: Responses after which to try again. Source: OTLP specification, "Failures".
_AGAIN: Final = frozenset({429, 502, 503, 504})


def message(figures: Iterable[Figure]) -> bytes:
    """Return an ExportMetricsServiceRequest: one resource for each instance."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

    request = service.ExportMetricsServiceRequest()
    scopes: dict[str, Any] = {}
    metrics: dict[tuple[str, str], Any] = {}
    for figure in figures:
        instance = figure.labels.get("instance", "")
        if instance not in scopes:
            scopes[instance] = _scope(request, instance)
        name, more = NAMES.get(figure.name, (f"mrtuner.{figure.name}", {}))
        if (instance, name) not in metrics:
            metrics[instance, name] = _metric(scopes[instance], name, figure)
        _point(metrics[instance, name], figure, more)
    return bytes(request.SerializeToString())


def _scope(request: Any, instance: str) -> Any:
    of_instance = request.resource_metrics.add()
    _attribute(of_instance.resource, "service.name", "postgresql")
    _attribute(of_instance.resource, "service.instance.id", instance)
    found = of_instance.scope_metrics.add()
    found.scope.name, found.scope.version = "mrtuner", __version__
    return found


def _metric(scope: Any, name: str, figure: Figure) -> Any:
    from opentelemetry.proto.metrics.v1 import metrics_pb2 as proto

    found = scope.metrics.add(
        name=name, description=figure.help, unit=_UNITS.get(figure.unit, figure.unit or "1")
    )
    if figure.cumulative:
        found.sum.aggregation_temporality = proto.AGGREGATION_TEMPORALITY_CUMULATIVE
        found.sum.is_monotonic = True
    return found


def _point(metric: Any, figure: Figure, more: Mapping[str, str]) -> None:
    """Add one value; a cumulative one has its start time, which makes a reset visible."""
    data = metric.sum if figure.cumulative else metric.gauge
    point = data.data_points.add(time_unix_nano=round(figure.at * _NANO))
    if figure.cumulative and figure.since is not None:
        point.start_time_unix_nano = round(figure.since * _NANO)
    if isinstance(figure.value, int):
        point.as_int = figure.value
    else:
        point.as_double = figure.value
    known = _ATTRIBUTES
    if figure.name.startswith(_OF_TABLES):
        known = {**known, "name": "postgresql.table.name"}
    for name, value in {**figure.labels, **more}.items():
        if name != "instance":
            _attribute(point, known.get(name, name), value)


def _attribute(of: Any, name: str, value: str) -> None:
    of.attributes.add(key=name).value.string_value = value


def sender(endpoint: str, headers: Mapping[str, str]) -> Any:
    """Return a function that posts a message to a receiver: ENDPOINT/v1/metrics.

    Raises:
        UsageError: the endpoint is not an HTTP address.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"{endpoint} is not an HTTP address", "Write http://collector:4318.")
    address = endpoint.rstrip("/")
    if not address.endswith("/v1/metrics"):
        address += "/v1/metrics"

    def send(contents: bytes) -> None:
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            address, data=contents,
            headers={"Content-Type": "application/x-protobuf", **headers},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            kind = Undelivered if error.code in _AGAIN else Rejected
            raise kind(f"{address} answered {error.code}", "Check the endpoint.") from None
        except http.client.InvalidURL as error:
            raise UsageError(f"{address}: {error}", "Write http://collector:4318.") from None
        except (OSError, http.client.HTTPException) as error:
            raise Undelivered(
                f"{address} cannot be reached: {error!r}",
                "Check the address: OTLP over HTTP is port 4318, over gRPC 4317.",
            ) from None

    return send
