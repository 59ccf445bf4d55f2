"""The last sample as custom metrics of Google Cloud Monitoring.

Each figure is a time series of the metric custom.googleapis.com/postgresql/NAME on a generic_node,
whose node is the instance. Source: the Cloud Monitoring API v3, projects.timeSeries.create (at most
200 series a request, each with one point), and its page on user-defined metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.history.export.latest import Figure
from mrtuner.history.export.outbox import Rejected, Undelivered

#: Series of one request.
MOST_SERIES: Final = 200
_TIMEOUT: Final = 10.0
_PREFIX: Final = "custom.googleapis.com/postgresql/"
_UNITS: Final = {
    "bytes": "By", "bytes/s": "By/s", "ms": "ms", "s": "s", "blocks": "{blocks}", "%": "%",
}  # fmt: skip
_LONGEST_LABEL: Final = 1024
#: Errors that no retry can mend. Source: google.rpc.Code.
_NEVER: Final = frozenset({"INVALID_ARGUMENT", "OUT_OF_RANGE", "ALREADY_EXISTS"})


def message(project: str) -> Callable[[Iterable[Figure]], bytes]:
    """Return a function that serializes figures, any number, as one CreateTimeSeriesRequest.

    A figure that was not sampled since the request before is left out: a point's end must be later
    than that of the one before. Source: Cloud Monitoring API, TimeInterval.
    """
    from google.cloud import monitoring_v3

    sent: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}

    def advances(figure: Figure) -> bool:
        key = (figure.name, frozenset(figure.labels.items()))
        before, sent[key] = sent.get(key), int(figure.at)
        return before is None or before < int(figure.at)

    def made(figures: Iterable[Figure]) -> bytes:
        request = monitoring_v3.CreateTimeSeriesRequest(
            name=f"projects/{project}",
            time_series=[_series(project, figure) for figure in figures if advances(figure)],
        )
        return bytes(monitoring_v3.CreateTimeSeriesRequest.serialize(request))

    return made


def _series(project: str, figure: Figure) -> Any:
    from google.api import metric_pb2
    from google.cloud import monitoring_v3

    kinds = metric_pb2.MetricDescriptor
    # A cumulative value needs its start time; without one it is sent as a gauge.
    cumulative = figure.cumulative and figure.since is not None and figure.since < figure.at
    whole = isinstance(figure.value, int)
    interval: dict[str, Any] = {"end_time": {"seconds": int(figure.at)}}
    if cumulative:
        interval["start_time"] = {"seconds": int(figure.since or 0)}
    labels = {
        name: value[:_LONGEST_LABEL] for name, value in figure.labels.items() if name != "instance"
    }
    return monitoring_v3.TimeSeries(
        metric={"type": f"{_PREFIX}{figure.name}", "labels": labels},
        resource={
            "type": "generic_node",
            "labels": {
                "project_id": project, "location": "global", "namespace": "mrtuner",
                "node_id": figure.labels.get("instance", ""),
            },
        },
        metric_kind=kinds.CUMULATIVE if cumulative else kinds.GAUGE,
        value_type=kinds.INT64 if whole else kinds.DOUBLE,
        unit=_UNITS.get(figure.unit or "", "1"),
        points=[{
            "interval": interval,
            "value": {"int64_value" if whole else "double_value": figure.value},
        }],
    )  # fmt: skip


def sender(endpoint: str | None = None) -> Callable[[bytes], None]:
    """Return a function that sends a message, with the application's default credentials.

    `endpoint` is ``http://HOST:PORT`` of a stand-in, without TLS and credentials.

    Raises:
        UsageError: there are no credentials, or the endpoint is not such an address.
    """
    client = _client(endpoint)

    def send(contents: bytes) -> None:
        from google.api_core import exceptions
        from google.cloud import monitoring_v3

        whole = monitoring_v3.CreateTimeSeriesRequest.deserialize(contents)
        refused: exceptions.GoogleAPICallError | None = None
        for first in range(0, len(whole.time_series), MOST_SERIES):
            part = whole.time_series[first : first + MOST_SERIES]
            try:
                client.create_time_series(
                    name=whole.name, time_series=part, timeout=_TIMEOUT, retry=None
                )
            except exceptions.GoogleAPICallError as error:
                code = error.grpc_status_code.name if error.grpc_status_code else ""
                if code not in _NEVER:
                    raise Undelivered(
                        f"Cloud Monitoring answered {code or type(error).__name__}",
                        "Check the project and the role monitoring.metricWriter.",
                    ) from None
                refused = error
        if refused is not None:
            raise Rejected(f"Cloud Monitoring refused points: {refused.message}", None)

    return send


def _client(endpoint: str | None) -> Any:
    from google.auth.exceptions import DefaultCredentialsError
    from google.cloud import monitoring_v3

    if endpoint is None:
        try:
            return monitoring_v3.MetricServiceClient()
        except DefaultCredentialsError:
            raise UsageError(
                "no credentials for Google Cloud",
                "Run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS.",
            ) from None
    import grpc
    from google.cloud.monitoring_v3.services.metric_service.transports import (
        MetricServiceGrpcTransport,
    )

    if not endpoint.startswith("http://"):
        raise UsageError(f"{endpoint} is not an address", "Write http://HOST:PORT.")
    channel = grpc.insecure_channel(endpoint.removeprefix("http://"))
    return monitoring_v3.MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel))
