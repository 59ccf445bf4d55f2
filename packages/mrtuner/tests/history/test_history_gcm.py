"""Google Cloud Monitoring gets the last sample: against a gRPC server that decodes what comes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api import metric_pb2
from google.cloud import monitoring_v3
from google.protobuf import empty_pb2
from history_data import MIDNIGHT, SECOND
from history_story import story

from command_line import run
from mrtuner.history.export.gcm import MOST_SERIES, message, sender
from mrtuner.history.export.latest import Figure, latest
from mrtuner.history.export.outbox import Rejected, Undelivered

NOW = MIDNIGHT / SECOND + 3 * 3600
METHOD = "/google.monitoring.v3.MetricService/CreateTimeSeries"
KINDS = metric_pb2.MetricDescriptor


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """The method that creates time series; it answers as it is told."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.answers: list[grpc.StatusCode] = []

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of the only method that there is."""
        if details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(
            self.create,
            request_deserializer=monitoring_v3.CreateTimeSeriesRequest.deserialize,
            response_serializer=empty_pb2.Empty.SerializeToString,
        )

    def create(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take the series, or refuse them."""
        answer = self.answers.pop(0) if self.answers else grpc.StatusCode.OK
        if answer is not grpc.StatusCode.OK:
            context.abort(answer, "as told")
        self.got.append(request)
        return empty_pb2.Empty()


@pytest.fixture
def service() -> Iterator[tuple[Service, str]]:
    found = Service()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[found])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hour of `history_story`."""
    directory = tmp_path_factory.mktemp("history")
    story(directory)
    return directory


def test_a_figure_goes_out_once_for_each_sample(store: Path) -> None:
    made = message("shop")
    first, second = (
        monitoring_v3.CreateTimeSeriesRequest.deserialize(made(latest(store, at)))
        for at in (NOW, NOW + 60)
    )
    names = [
        {one.metric.type.rpartition("/")[2] for one in request.time_series}
        for request in (first, second)
    ]
    assert {"up", "checkpoints_requested"} <= names[0]
    assert "up" in names[1]
    assert "checkpoints_requested" not in names[1]


def figures(count: int) -> list[Figure]:
    return [
        Figure(name=f"queue_{n}", help="jobs", unit=None, cumulative=False,
               labels={"instance": "db"}, value=n, at=NOW)
        for n in range(count)
    ]  # fmt: skip


def test_the_last_sample_arrives_as_it_is(service: tuple[Service, str], store: Path) -> None:
    sender(service[1])(message("shop-prod")(latest(store, NOW)))
    series = {one.metric.type: one for request in service[0].got for one in request.time_series}
    found = series["custom.googleapis.com/postgresql/checkpoints_requested"]
    assert found.points[0].value.int64_value == 10
    assert (found.resource.type, found.resource.labels["node_id"]) == ("generic_node", "db:5432")
    assert found.resource.labels["project_id"] == "shop-prod"
    size = series["custom.googleapis.com/postgresql/host_memory_available"]
    assert (size.metric_kind, size.value_type, size.unit) == (KINDS.GAUGE, KINDS.INT64, "By")
    assert service[0].got[0].name == "projects/shop-prod"


def test_a_counter_says_since_when_it_counts(service: tuple[Service, str]) -> None:
    one = Figure(name="wal_bytes", help="WAL", unit="bytes", cumulative=True,
                 labels={"instance": "db", "kind": "x" * 5000}, value=1.5, at=NOW,
                 since=NOW - 60)  # fmt: skip
    sender(service[1])(message("p")([one]))
    (series,) = service[0].got[0].time_series
    assert series.metric_kind == KINDS.CUMULATIVE
    interval = series.points[0].interval
    assert (interval.end_time - interval.start_time).total_seconds() == 60
    assert series.points[0].value.double_value == 1.5
    assert len(series.metric.labels["kind"]) == 1024


def test_a_request_has_no_more_series_than_the_service_takes(service: tuple[Service, str]) -> None:
    sender(service[1])(message("p")(figures(MOST_SERIES + 1)))
    assert [len(one.time_series) for one in service[0].got] == [MOST_SERIES, 1]


def test_a_service_that_is_down_gets_it_later(service: tuple[Service, str]) -> None:
    service[0].answers = [grpc.StatusCode.UNAVAILABLE]
    send, contents = sender(service[1]), message("p")(figures(1))
    with pytest.raises(Undelivered, match="UNAVAILABLE"):
        send(contents)
    send(contents)
    assert len(service[0].got) == 1


def test_points_that_are_refused_do_not_keep_the_others_back(service: tuple[Service, str]) -> None:
    service[0].answers = [grpc.StatusCode.INVALID_ARGUMENT]
    with pytest.raises(Rejected, match="as told"):
        sender(service[1])(message("p")(figures(MOST_SERIES + 1)))
    assert [len(one.time_series) for one in service[0].got] == [1]


def test_the_command_sends_once(service: tuple[Service, str], store: Path) -> None:
    arguments = ["export", "gcm", "--project", "p", "--endpoint", service[1], "--once"]
    done = run(*arguments, "--dir", store)
    assert done.exit_code == 0, done.output
    assert service[0].got


def test_a_service_that_is_not_there_is_an_error_and_no_loss(store: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    arguments = ["export", "gcm", "--project", "p", "--endpoint", endpoint, "--once"]
    done = run(*arguments, "--dir", store)
    assert done.exit_code == 1
    assert "the message was not delivered" in done.stderr
    assert list((store / "outbox" / "gcm").glob("*.message"))
