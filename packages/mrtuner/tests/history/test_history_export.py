"""What monitoring systems are given: the last sample, in their own formats."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, QUEUE, SECOND, batch, queue, row, sample
from history_story import INSTANCE, MB, of_source, story
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from prometheus_client import start_http_server
from prometheus_client.parser import text_string_to_metric_families

from command_line import run
from machine import needs
from mrtuner import __version__
from mrtuner.facts import Missing
from mrtuner.history.export.alerts import ALERTS, alerts
from mrtuner.history.export.grafana import ROWS, dashboard
from mrtuner.history.export.latest import Figure, latest
from mrtuner.history.export.otlp import message, sender
from mrtuner.history.export.outbox import Outbox, Undelivered
from mrtuner.history.export.prometheus import exposition, metric, registry
from mrtuner.history.export.push import push
from mrtuner.history.recording.recorder import Instance, record
from mrtuner.history.recording.sampler import Identity, Row, SourceSample
from mrtuner.history.recording.source import Column, Source, Type, built_in, in_directory, parse
from mrtuner.history.store.status import status
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner.postgres.sql import OLDEST
from servers import sql

PANELS = [panel for panels in ROWS.values() for panel in panels]
#: A second after the last sample of the story.
NOW = (MIDNIGHT / SECOND) + 3 * 3600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history")
    story(directory)
    return directory


def named(figures: Iterable[Figure], name: str) -> list[Figure]:
    return [figure for figure in figures if figure.name == name]


def test_counters_are_the_servers_own_and_not_their_growth(store: Path) -> None:
    (wal,) = named(latest(store, NOW), "wal_bytes")
    assert wal.value == 59 * 60 * MB + 600 * 15 * MB
    assert (wal.cumulative, wal.unit, wal.labels) == (True, "bytes", {"instance": INSTANCE})
    assert wal.at == MIDNIGHT / SECOND + 2 * 3600 + 59 * 60


def test_the_load_of_the_last_minute_is_given_by_what_is_waited_for(store: Path) -> None:
    (load,) = named(latest(store, NOW), "load_sessions")
    assert (load.labels["wait_type"], load.value) == ("CPU", 2.0)


def test_processes_that_sleep_on_purpose_are_no_load(tmp_path: Path) -> None:
    """One client at work the whole minute, beside a checkpointer that paces itself: 1, as in
    `history show`."""
    source = built_in()["sessions"]
    client = of_source("sessions", pid=7, state="active", backend_type="client backend")
    sleeper = of_source("sessions", pid=8, backend_type="checkpointer", wait_type="Timeout",
                        wait_event="CheckpointWriteDelay")  # fmt: skip
    with Writer(tmp_path, [source]) as writer:
        for second in range(60):
            writer.commit([batch(sample(source, second, client, sleeper))])
    (load,) = named(latest(tmp_path, MIDNIGHT / SECOND + 60), "load_sessions")
    assert (load.labels["wait_type"], load.value) == ("CPU", 1.0)


@pytest.mark.parametrize("event", ["WalSenderWaitForWAL", "WalSenderWaitForWal"])
def test_a_walsender_that_has_sent_all_is_no_load(tmp_path: Path, event: str) -> None:
    source = built_in()["sessions"]
    client = of_source("sessions", pid=7, state="active", backend_type="client backend")
    sender = of_source("sessions", pid=8, state="active", backend_type="walsender",
                       wait_type="Client", wait_event=event)  # fmt: skip
    with Writer(tmp_path, [source]) as writer:
        for second in range(60):
            writer.commit([batch(sample(source, second, client, sender))])
    (load,) = named(latest(tmp_path, MIDNIGHT / SECOND + 60), "load_sessions")
    assert (load.labels["wait_type"], load.value) == ("CPU", 1.0)


def test_a_server_that_nobody_records_any_more_is_not_down(tmp_path: Path) -> None:
    source = built_in()["connections"]
    identity = Identity(version_num=180000, started="2026-11-22", system=None, standby=False)
    with Writer(tmp_path, [source]) as writer:
        for name in ("shop", "billing"):
            read = sample(source, 0, of_source("connections", clients=1))
            writer.commit([batch(read, instance=name, identity=identity)])
    with Writer(tmp_path, [source]) as writer:
        writer.forget_all_but(["shop"])
        read = sample(source, 1000, of_source("connections", clients=1))
        writer.commit([batch(read, instance="shop", identity=identity)])
    now = MIDNIGHT / SECOND + 1000
    found = list(latest(tmp_path, now))
    assert {one.labels["instance"] for one in found} == {"shop"}
    assert [one.value for one in named(found, "up")] == [1]
    assert not [one for one in status(tmp_path, now).sources if one.late]


def test_how_far_behind_the_recorder_is_can_be_watched(store: Path) -> None:
    lags = {
        one.labels["source"]: one.value for one in named(latest(store, NOW), "record_lag_seconds")
    }
    assert (lags["sessions"], lags["wal"]) == (1.0, 60.0)


def test_identifiers_of_statements_are_no_labels(store: Path) -> None:
    assert not [one for one in latest(store, NOW) if "query_id" in one.labels]


def test_rows_beyond_a_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        rows = [row(f"queue {n:02}", n, 0.0, n) for n in range(30)]
        writer.commit([batch(sample(source, 0, *rows))])
    figures = list(latest(tmp_path, MIDNIGHT / SECOND, most_rows=10))
    assert len([one for one in figures if one.name == "queue_done"]) == 10
    (left,) = [one for one in figures if one.name == "export_rows_left_out"]
    assert left.value == 20


def test_the_database_that_an_alert_is_about_is_among_the_exported_ones(tmp_path: Path) -> None:
    """Of 300 databases; the one near wraparound, and that with broken pages, come last by name."""
    ages, databases = (built_in()[name] for name in ("ages", "databases"))
    names = [f"db{number:03}" for number in range(300)]
    with Writer(tmp_path, [ages, databases]) as writer:
        old = (of_source("ages", database=one, age=10**9 if one == "db299" else 1) for one in names)
        bad = (of_source("databases", database=one, checksum_failures=int(one == "db299"))
               for one in names)  # fmt: skip
        writer.commit([batch(sample(ages, 0, *old), sample(databases, 0, *bad))])
    figures = list(latest(tmp_path, MIDNIGHT / SECOND))
    for name in ("ages_age", "databases_checksum_failures"):
        assert "db299" in {one.labels["database"] for one in named(figures, name)}


def test_a_key_called_server_does_not_hide_whose_it_is(tmp_path: Path) -> None:
    source = parse("queue", {OLDEST: QUEUE.replace("queue = {", "server = {")})
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 0, row("far", 1, 0.0, 1)))])
    [(labels, _), *_] = exposed(tmp_path, MIDNIGHT / SECOND)["mrtuner_queue_waiting"]
    assert (labels["server"], labels["key_server"]) == ("db:5432", "far")


def test_a_source_declares_how_many_of_its_rows_are_exported(tmp_path: Path) -> None:
    """The limit comes from the source's declaration, which the store keeps."""
    limited = QUEUE.replace("[keys]", "export_rows = 2\n[keys]", 1)
    source = parse("queue", {OLDEST: limited})
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 0, *(row(f"{n}", n, 0.0, n) for n in range(5))))])
    figures = list(latest(tmp_path, MIDNIGHT / SECOND))
    assert len([one for one in figures if one.name == "queue_done"]) == 2
    (left,) = [one for one in figures if one.name == "export_rows_left_out"]
    assert left.value == 3


def exposed(directory: Path, at: float) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and value of each sample in Prometheus' format, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    text = exposition(directory, clock=lambda: at).decode()
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, []).append((dict(one.labels), one.value))
    return found


def test_the_largest_tables_are_exported_by_name_without_their_oid(tmp_path: Path) -> None:
    """Three tables, two to export: b has the most pages, c with its TOAST more than a."""
    source = built_in()["tables"]
    pages = {"a": (10, 0), "b": (90, 0), "c": (1, 50)}
    rows = [
        of_source("tables", database="app", schema="public", name=name, relation=16384 + number,
                  pages=main, toast_pages=toast, live=7)
        for number, (name, (main, toast)) in enumerate(pages.items())
    ]  # fmt: skip
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 0, *rows))])
    figures = list(latest(tmp_path, MIDNIGHT / SECOND, most_rows=2))
    live = [one.labels for one in figures if one.name == "tables_live"]
    assert live == [
        {"instance": "db:5432", "database": "app", "schema": "public", "name": name}
        for name in ("b", "c")
    ]


def test_names_end_with_their_unit() -> None:
    """Of a counter, before _total. Source: prometheus.io, Metric and label naming."""
    assert metric("checkpoints", "write_ms") == "mrtuner_checkpoints_write_seconds_total"
    assert metric("host", "cpu_user") == "mrtuner_host_cpu_user_seconds_total"
    assert metric("connections", "oldest_transaction").endswith("_oldest_transaction_seconds")
    assert metric("slots", "retained") == "mrtuner_slots_retained_bytes"
    assert metric("slots", "used") == "mrtuner_slots_used_ratio"
    assert metric("wal", "bytes") == "mrtuner_wal_bytes_total"
    assert metric("wal_directory", "bytes") == "mrtuner_wal_directory_bytes"


def test_a_server_that_no_longer_answers_is_down_and_its_old_figures_are_gone(
    tmp_path: Path,
) -> None:
    """Up for five minutes after the last sample; at once down when the connection is lost."""
    source = queue()
    identity = Identity(version_num=160004, started="10:00", system="1", standby=True)
    with Writer(tmp_path, [source]) as writer:
        one = sample(source, 0, row("mail", 5, 0.0, 3))
        writer.commit([batch(one, identity=identity)])
        began = MIDNIGHT / SECOND
        now = exposed(tmp_path, began + 299)
        assert now["mrtuner_up"] == [({"server": "db:5432"}, 1.0)]
        assert now["mrtuner_server_info"] == [
            ({"server": "db:5432", "version": "16.4", "role": "standby"}, 1.0)
        ]
        assert [labels["version"] for labels, _ in now["mrtuner_recorder_info"]] == [__version__]
        assert now["mrtuner_queue_waiting"] == [({"server": "db:5432", "queue": "mail"}, 3.0)]
        late = exposed(tmp_path, began + 301)
        assert late["mrtuner_up"] == [({"server": "db:5432"}, 0.0)]
        assert "mrtuner_queue_waiting" not in late
        assert late["mrtuner_record_lag_seconds"][0][1] == 301.0
        writer.commit([batch(missing=(Missing("connection", "nothing is listening there"),))])
        lost = exposed(tmp_path, began + 1)
        assert lost["mrtuner_up"] == [({"server": "db:5432"}, 0.0)]
        assert "mrtuner_queue_waiting" not in lost


def test_a_source_that_can_no_longer_be_read_gives_no_old_figures(tmp_path: Path) -> None:
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 0, row("mail", 5, 0.0, 3)))])
        writer.commit([batch(missing=(Missing("queue", "permission denied"),))])
    found = exposed(tmp_path, MIDNIGHT / SECOND)
    assert found["mrtuner_up"][0][1] == 1.0
    assert "mrtuner_queue_waiting" not in found


def test_metrics_of_ones_own_are_exported(new_cluster: NewCluster, tmp_path: Path) -> None:
    queries, directory = tmp_path / "queries", tmp_path / "history"
    queries.mkdir()
    (queries / "jobs.sql").write_text(
        """/*
        help = "Jobs"
        interval = "1s"
        [keys]
        kind = { help = "kind" }
        [counters]
        busy_ms = { type = "float", unit = "ms", help = "time at work" }
        [gauges]
        waiting = { help = "jobs that wait" }
        */
        SELECT 'mail' AS kind, 1500.0::float8 AS busy_ms, 7 AS waiting"""
    )
    sources = {**built_in(), **in_directory(queries)}
    recorded(new_cluster(18), directory, sources)
    text = exposition(directory).decode()
    samples = {one.name: one for family in text_string_to_metric_families(text)
               for one in family.samples if one.name.startswith("mrtuner_jobs")}  # fmt: skip
    assert samples["mrtuner_jobs_waiting"].value == 7
    assert samples["mrtuner_jobs_busy_seconds_total"].value == 1.5
    assert samples["mrtuner_jobs_waiting"].labels == {"server": "db", "kind": "mail"}


# OpenTelemetry.


def decoded(contents: bytes) -> dict[str, Any]:
    """Metrics by name, of the only instance."""
    request = service.ExportMetricsServiceRequest()
    request.ParseFromString(contents)
    (resource,) = request.resource_metrics
    names = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert names == {"service.name": "postgresql", "service.instance.id": INSTANCE}
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_metrics_have_the_names_of_the_collectors_receiver(store: Path) -> None:
    metrics = decoded(message(latest(store, NOW)))
    points = metrics["postgresql.bgwriter.checkpoint.count"].sum.data_points
    assert {point.attributes[0].value.string_value: point.as_int for point in points} == {
        "scheduled": 11, "requested": 10,
    }  # fmt: skip
    assert metrics["postgresql.bgwriter.checkpoint.count"].sum.is_monotonic
    assert metrics["postgresql.backends"].gauge.data_points[0].as_int == 20
    assert metrics["mrtuner.wal_bytes"].unit == "By"


def test_a_counter_says_since_when_it_counts(tmp_path: Path) -> None:
    """By hand: 2026-11-22 12:00 is half a day before midnight."""
    source = queue()
    identity = Identity(
        version_num=180000, started="2026-11-22 12:00:00+00", system=None, standby=False
    )
    with Writer(tmp_path, [source]) as writer:
        one = sample(source, 0, row("mail", 5, 0.0, 0))
        writer.commit([batch(one, instance=INSTANCE, identity=identity)])
    figures = latest(tmp_path, MIDNIGHT / SECOND)
    (point,) = decoded(message(figures))["mrtuner.queue_done"].sum.data_points
    assert point.start_time_unix_nano == (MIDNIGHT - 43_200 * SECOND) * 1000
    assert point.time_unix_nano == MIDNIGHT * 1000


class Receiver(HTTPServer):
    """An OTLP receiver that answers as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.got: list[bytes] = []
        self.headers: list[str | None] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        contents = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.server.answers.pop(0) if self.server.answers else 200
        if code == 200:
            assert self.path == "/v1/metrics"
            self.server.got.append(contents)
            self.server.headers.append(self.headers["Authorization"])
        self.send_response(code)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


def test_a_receiver_gets_the_last_sample(receiver: Receiver, tmp_path: Path) -> None:
    everything(tmp_path / "store")
    stop = threading.Event()
    stop.set()
    send = sender(receiver.endpoint, {"Authorization": "Bearer x"})
    push(tmp_path / "store", Outbox(tmp_path), message, send, stop, every=1, tell=print)
    (contents,) = receiver.got
    assert "postgresql.backends" in decoded(contents)
    assert receiver.headers == ["Bearer x"]


def test_what_a_receiver_missed_comes_in_order_when_it_is_back(
    receiver: Receiver, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path)
    send = sender(receiver.endpoint, {})
    receiver.answers = [503, 503]
    for text in (b"first", b"second"):
        outbox.put(text)
        with pytest.raises(Undelivered, match="503"):
            outbox.deliver(send)
    outbox.put(b"third")
    assert Outbox(tmp_path).deliver(send) == 3  # also after a restart
    assert receiver.got == [b"first", b"second", b"third"]
    assert len(outbox) == 0


def test_a_receiver_that_is_not_there_is_no_loss(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.put(b"first")
    with pytest.raises(Undelivered):
        outbox.deliver(sender("http://127.0.0.1:9", {}))
    assert len(outbox) == 1


def test_what_answers_and_speaks_no_http_is_no_loss(tmp_path: Path) -> None:
    """The port of gRPC answers with a frame of HTTP/2."""
    outbox = Outbox(tmp_path)
    outbox.put(b"first")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            conn, _ = server.accept()
            with conn:
                conn.recv(65_536)
                conn.sendall(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Undelivered):
            outbox.deliver(sender(f"http://127.0.0.1:{server.getsockname()[1]}", {}))
        thread.join()
    assert len(outbox) == 1


def test_headers_of_the_environment_are_percent_encoded_and_those_of_options_are_not(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20dXNlcjpw")
    command = ("export", "otlp", "--dir", str(tmp_path), "--endpoint", receiver.endpoint, "--once")
    assert run(*command).exit_code == 0
    assert run(*command, "--header", "Authorization=a%20b").exit_code == 0
    assert receiver.headers == ["Basic dXNlcjpw", "a%20b"]


def test_only_tables_have_the_attribute_of_a_tables_name() -> None:
    figures = [
        Figure(name=name, help="", unit=None, cumulative=False, value=1, at=0.0,
               labels={"instance": INSTANCE, "name": "spare"})
        for name in ("slots_retained", "tables_dead")
    ]  # fmt: skip
    found = decoded(message(figures))
    named_by = {
        name: [one.key for one in found[f"mrtuner.{name}"].gauge.data_points[0].attributes]
        for name in ("slots_retained", "tables_dead")
    }
    assert named_by == {"slots_retained": ["name"], "tables_dead": ["postgresql.table.name"]}


def test_standbys_of_one_name_are_lines_of_their_own() -> None:
    found = [panel for panel in PANELS if panel.title in {"Replay lag", "WAL not yet replayed"}]
    for panel in found:
        (one,) = panel.series
        assert one.expression.startswith("max by (server, application, client) (")
    assert len(found) == 2


def test_a_receiver_that_never_answers_holds_up_no_sample(tmp_path: Path) -> None:
    """It accepts the connection and does nothing more."""
    source = queue()
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent, Writer(tmp_path, [source]) as writer:
        writer.commit([batch(sample(source, 0, row("mail", 0, 0.0, 0)))])
        send = sender(f"http://127.0.0.1:{silent.getsockname()[1]}", {})
        waiting = threading.Event()

        def sending(contents: bytes) -> None:
            waiting.set()
            send(contents)

        exporter = threading.Thread(
            target=push, args=(tmp_path, Outbox(tmp_path / "outbox"), message, sending, stop),
            kwargs={"every": 1, "tell": lambda _: None},
        )  # fmt: skip
        exporter.start()
        assert waiting.wait(60)
        for second in range(1, 6):
            writer.commit([batch(sample(source, second, row("mail", second, 0.0, second)))])
        assert exporter.is_alive()
        assert not stop.is_set()
        stop.set()
    exporter.join(60)
    (done,) = named(latest(tmp_path, MIDNIGHT / SECOND), "queue_done")
    assert done.value == 5
    assert len(Outbox(tmp_path / "outbox")) >= 1


def test_what_a_receiver_will_never_take_does_not_block_the_rest(
    receiver: Receiver, tmp_path: Path
) -> None:
    outbox = Outbox(tmp_path)
    receiver.answers = [400]
    outbox.put(b"bad")
    outbox.put(b"good")
    assert outbox.deliver(sender(receiver.endpoint, {})) == 1
    assert (receiver.got, outbox.rejected) == ([b"good"], 1)


def test_an_outbox_has_an_end(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, most=3)
    for number in range(5):
        outbox.put(b"%d" % number)
    sent: list[bytes] = []
    outbox.deliver(sent.append)
    assert (sent, outbox.left_out) == ([b"2", b"3", b"4"], 2)


# Alerts and the dashboard.


def recorded(cluster: Cluster, directory: Path, sources: Mapping[str, Source]) -> None:
    """Record a real server until each source was sampled, or said why it cannot be."""
    stop, complete = threading.Event(), threading.Event()

    def wait() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end and not complete.is_set():
            if _sampled(directory, sources):
                complete.set()
            time.sleep(0.1)
        stop.set()

    waiting = threading.Thread(target=wait)
    with Writer(directory, sources.values()) as writer:
        waiting.start()
        # SQLite's connection belongs to this thread.
        record(writer, [Instance(name="db", dsn=cluster.dsn())], stop)
    waiting.join()
    assert complete.is_set(), "not everything was sampled within two minutes"


def _sampled(directory: Path, sources: Mapping[str, Source]) -> bool:
    lags = status(directory, time.time()).sources
    return {one.source for one in lags if one.last or one.why} == set(sources)


def exported(cluster: Cluster, directory: Path) -> set[str]:
    """Names of the metrics of a real server."""
    recorded(cluster, directory, built_in())
    text = exposition(directory).decode()
    return {name for family in text_string_to_metric_families(text) for name in _names(family)}


def _names(family: Any) -> Iterator[str]:
    yield from (one.name for one in family.samples)


def used(expressions: Iterable[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\bmrtuner_\w+", text)}


def test_alerts_and_panels_ask_for_metrics_that_there_are(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('spare', true)",
        "CREATE TABLE t (id int)")  # fmt: skip
    have = exported(cluster, tmp_path)
    # No standby is attached, no transaction is open or prepared, no limit is set for slots; nobody
    # was at work, and the server neither receives WAL nor subscribes to anything.
    absent = {
        "mrtuner_replication_replay_lag_seconds", "mrtuner_replication_replay_behind_bytes",
        "mrtuner_connections_oldest_transaction_seconds", "mrtuner_slots_used_ratio",
        "mrtuner_load_sessions", "mrtuner_sessions_by_role_sessions", "mrtuner_locks_waiting",
        "mrtuner_prepared_oldest_seconds", "mrtuner_receiver_streaming",
        "mrtuner_receiver_not_replayed_bytes", "mrtuner_subscriptions_workers",
        "mrtuner_indexes_scans_total", "mrtuner_indexes_invalid",
    }  # fmt: skip
    shown = [series for panel in PANELS for series in panel.series]
    wanted = used([one.expression for one in ALERTS] + [one.expression for one in shown])
    assert len(wanted) > len(PANELS)
    assert wanted - have <= absent
    columns = {
        metric(source.name, column.name)
        for source in built_in().values()
        for column in source.columns
    }
    assert absent - columns == {"mrtuner_load_sessions"}


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    """Source: grafana.com, JSON model of a dashboard; a grid of 24 columns."""
    found = json.loads(dashboard())
    assert (found["title"], found["schemaVersion"]) == ("PostgreSQL by MrTuner", 39)
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells), "panels lie over each other"
    assert max(x for x, _ in cells) < 24
    charts = [panel for panel in panels if panel["type"] == "timeseries"]
    assert [panel["title"] for panel in charts] == [panel.title for panel in PANELS]
    assert {panel["type"] for panel in panels} == {"timeseries", "row"}
    variables = {one["name"] for one in found["templating"]["list"]}
    for panel in charts:
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"} <= variables


def test_the_load_has_the_line_of_the_cpus() -> None:
    load = next(panel for panel in json.loads(dashboard())["panels"] if "targets" in panel)
    (override,) = load["fieldConfig"]["overrides"]
    assert override["matcher"]["options"] in [one["legendFormat"] for one in load["targets"]]
    assert {"id": "custom.stacking", "value": {"mode": "none"}} in override["properties"]


@needs("promtool")
def test_promtool_accepts_the_alerts_and_the_metrics(store: Path, tmp_path: Path) -> None:
    rules = tmp_path / "mrtuner.rules.yml"
    rules.write_text(alerts())
    checked = subprocess.run(["promtool", "check", "rules", rules],
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert f"{len(ALERTS)} rules found" in checked.stdout
    linted = subprocess.run(
        ["promtool", "check", "metrics"], input=exposition(store, clock=lambda: NOW),
        capture_output=True, check=False,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout + linted.stderr


@needs("prometheus")
def test_a_real_prometheus_scrapes_it(store: Path, tmp_path: Path) -> None:
    with prometheus(store, tmp_path, clock=lambda: NOW) as port:
        (found,) = answers(port, "mrtuner_wal_bytes_total")
    assert float(found["value"][1]) == 59 * 60 * MB + 600 * 15 * MB
    assert found["metric"]["server"] == INSTANCE


@needs("prometheus")
def test_every_panel_of_the_dashboard_has_data(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    everything(directory)
    empty = []
    with prometheus(directory, tmp_path) as port:
        for panel in json.loads(dashboard())["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"].replace("$server", INSTANCE)
                if not answers(port, query.replace("$__rate_interval", "1m")):
                    empty.append(query)
    assert empty == []


def everything(directory: Path) -> None:
    """A store with a row of every built-in source, each column with a value, sampled just now."""
    now = round(time.time() * SECOND)
    with Writer(directory, built_in().values()) as writer:
        samples = [
            SourceSample(source=source, at=now, monotonic=0.0, cost=0.001,
                   rows=(Row(values=tuple(map(_value, source.columns)), reset=None),))
            for source in built_in().values()
        ]  # fmt: skip
        writer.commit([batch(*samples, instance=INSTANCE)])


def _value(column: Column) -> object:
    if column.name == "state":
        return "active"
    values = {Type.INTEGER: 7, Type.FLOAT: 7.0, Type.BOOLEAN: True}
    return values.get(column.type, "x")


@contextmanager
def prometheus(
    store: Path, tmp_path: Path, clock: Callable[[], float] = time.time
) -> Iterator[int]:
    """A real Prometheus that scrapes a store each second; yields its port."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry(store, clock=clock))
    (tmp_path / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: mrtuner
    static_configs: [{{targets: ["127.0.0.1:{server.server_port}"]}}]
""")
    port = free_port()
    process = subprocess.Popen(
        ["prometheus", f"--config.file={tmp_path}/prometheus.yml",
         f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # A rate needs two scrapes.
        found = answers(port, "count_over_time(mrtuner_wal_bytes_total[1m]) >= 2")
        assert found, "it was not scraped twice within a minute"
        yield port
    finally:
        process.terminate()
        process.wait(30)
        server.shutdown()
        server.server_close()
        thread.join()


def answers(port: int, query: str) -> list[dict[str, Any]]:
    """Return a query's result once it has data, or nothing after a minute; fail on an error."""
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:  # it is starting
                raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            pass
        else:
            assert told["status"] == "success"
            if found := told["data"]["result"]:
                result: list[dict[str, Any]] = found
                return result
        time.sleep(0.2)
    return []
