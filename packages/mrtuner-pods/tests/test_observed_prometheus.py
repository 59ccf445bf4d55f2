"""Service times, rate and CPU time from Prometheus: by hand, its client, a real server."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Summary, generate_latest
from prometheus_client import Histogram as ClientHistogram
from prometheus_client.exposition import start_http_server

from command_line import run
from machine import needs
from mrtuner.errors import BadValue, ConnectError, MrTunerError, UsageError
from mrtuner.postgres.cluster import free_port
from mrtuner_pods.observed import Observed, of_texts
from mrtuner_pods.observed.histogram import Histogram
from mrtuner_pods.observed.metrics import selector
from mrtuner_pods.observed.prometheus_server import of_url

BOUNDS = (0.01, 0.1, 1.0)


def a_histogram(counts: Sequence[int], mean: float) -> Histogram:
    """Counts up to 10 ms, 100 ms, 1 s and above, and the mean of all [s]."""
    whole = sum(counts)
    upto = [sum(counts[: place + 1]) for place in range(4)]
    bounds = (*BOUNDS, math.inf)
    return Histogram(
        buckets=dict(zip(bounds, map(float, upto), strict=True)), total=mean * whole, count=whole
    )


@pytest.mark.parametrize("mean", [0.045, 0.0795, 0.12])
def test_times_have_the_counts_of_the_buckets_and_the_mean(mean: float) -> None:
    """Half below 10 ms, four tenths below 100 ms; a mean from 14 ms to 145 ms is possible."""
    times = a_histogram([500, 400, 100, 0], mean).samples()
    shares = [sum(one <= bound for one in times) / len(times) for bound in BOUNDS]
    assert shares == pytest.approx([0.5, 0.9, 1.0], abs=0.001)
    assert fmean(times) == pytest.approx(mean, rel=0.01)


def test_times_above_the_last_bucket_follow_the_exponential_law() -> None:
    """By hand: 90 below 10 ms have 0.45 s of 20.45 s; ten above 1 s have 2 s on average."""
    times = a_histogram([90, 0, 0, 10], 20.45 / 100).samples()
    above = [one for one in times if one > 1]
    assert len(above) / len(times) == pytest.approx(0.1, abs=0.001)
    assert fmean(above) == pytest.approx(2.0, rel=0.02)
    assert sum(one > 2 for one in above) / len(above) == pytest.approx(math.exp(-1), abs=0.02)


@pytest.mark.parametrize("mean", [0.001, 0.5])
def test_a_sum_that_cannot_be_of_these_buckets_is_refused(mean: float) -> None:
    with pytest.raises(BadValue, match="does not fit these buckets"):
        a_histogram([500, 400, 100, 0], mean).samples()


@given(st.lists(st.floats(1e-4, 3.0), min_size=300, max_size=600))
def test_whatever_was_observed_counts_and_mean_come_back(times: list[float]) -> None:
    """Through the real client, its text, and back."""
    registry = CollectorRegistry()
    counted = ClientHistogram(
        "http_request_duration_seconds", "t", buckets=BOUNDS, registry=registry
    )
    for one in times:
        counted.observe(one)
    seen = of_texts([generate_latest(registry).decode()], "metrics")
    assert seen.samples is not None
    drawn = seen.samples.value
    assert fmean(drawn) == pytest.approx(fmean(times), rel=0.02, abs=0.0005)
    for bound in BOUNDS:
        share = sum(one <= bound for one in times) / len(times)
        assert sum(one <= bound for one in drawn) / len(drawn) == pytest.approx(share, abs=0.002)


# Two readings of an application.


class Application:
    """What an application exposes: every time is 4 ms or 40 ms, nine to one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.times = ClientHistogram(
            "http_request_duration_seconds", "Time of a request.", ["handler"],
            buckets=(0.005, 0.05, 0.5), registry=self.registry,
        )  # fmt: skip
        self.sql = Summary("http_request_sql_duration_seconds", "In SQL.", registry=self.registry)
        self.queue = ClientHistogram(
            "http_request_queue_duration_seconds", "Before.", buckets=(0.01, 0.1),
            registry=self.registry,
        )  # fmt: skip
        self.cpu = Counter("process_cpu_seconds", "CPU.", registry=self.registry)

    def serve(self, tens: int, handler: str = "/") -> None:
        """Count `tens` times ten requests, which take 76 ms, 20 ms of SQL and 30 ms of CPU."""
        for _ in range(tens):
            for seconds in [0.004] * 9 + [0.04]:
                self.times.labels(handler).observe(seconds)
                self.sql.observe(0.002)
                self.queue.observe(0.005)
            self.cpu.inc(0.03)

    @property
    def text(self) -> str:
        return generate_latest(self.registry).decode()


def test_what_happened_between_two_readings_counts() -> None:
    app = Application()
    app.serve(1000)
    app.cpu.inc(500)  # of starting up, before the first reading
    before = app.text
    app.serve(60)
    seen = of_texts([before, app.text], "app", apart=30.0)
    assert seen.rate is not None
    assert seen.rate.value == pytest.approx(600 / 30)
    assert seen.samples is not None
    assert fmean(seen.samples.value) == pytest.approx(0.0076, rel=0.01)
    assert sum(one <= 0.005 for one in seen.samples.value) == 1800
    assert "600 requests" in seen.samples.source
    assert seen.cpu_time is not None
    assert seen.cpu_time.value == pytest.approx(0.003)
    assert seen.database_time is not None
    assert seen.database_time.value == pytest.approx(0.002)
    assert seen.waited is not None
    assert seen.waited.count == 600
    assert seen.waited.mean == pytest.approx(0.005)
    assert seen.waited.p95 is not None
    assert seen.waited.p95 <= 0.01


def test_one_reading_tells_the_times_and_no_rate() -> None:
    app = Application()
    app.serve(60)
    seen = of_texts([app.text], "app.txt")
    assert seen.samples is not None
    assert (seen.rate, seen.cpu_time) == (None, None)
    assert "counts since the application started" in seen.warnings[0]


def test_labels_select() -> None:
    app = Application()
    app.serve(60, "/a")
    app.serve(90, "/health")
    seen = of_texts([app.text], "app", metric='http_request_duration_seconds{handler!="/health"}')
    assert seen.samples is not None
    assert "600 requests" in seen.samples.source


def test_a_counter_that_fell_is_a_restart_or_another_process() -> None:
    """Two workers that each answer for themselves look the same as a restart."""
    one, other = Application(), Application()
    one.serve(100)
    other.serve(60)
    with pytest.raises(BadValue, match="was reset between the readings") as refused:
        of_texts([one.text, other.text], "app", apart=10)
    assert "multiprocess" in (refused.value.hint or "")


def test_a_process_that_started_meanwhile_is_another() -> None:
    """Its counters may even be higher."""
    text = "\n".join(
        ["# TYPE http_request_duration_seconds histogram",
         'http_request_duration_seconds_bucket{le="+Inf"} COUNT',
         "http_request_duration_seconds_sum 4",
         "http_request_duration_seconds_count COUNT",
         "process_start_time_seconds START", ""]
    )  # fmt: skip
    first = text.replace("COUNT", "300").replace("START", "1795392000")
    second = text.replace("COUNT", "900").replace("START", "1795392060")
    with pytest.raises(BadValue, match="process_start_time_seconds of app was reset"):
        of_texts([first, second], "app", apart=10)


def test_a_summary_has_a_mean_and_its_quantiles_are_not_used() -> None:
    registry = CollectorRegistry()
    counted = Summary("http_server_requests_seconds", "t", registry=registry)
    for _ in range(300):
        counted.observe(0.02)
    seen = of_texts([generate_latest(registry).decode()], "app")
    assert seen.samples is None
    assert seen.service_time is not None
    assert seen.service_time.value == pytest.approx(0.02)
    assert any("is a summary" in text for text in seen.warnings)


def test_an_average_of_waiting_is_never_a_p95() -> None:
    """A summary of the waiting has only a mean, so no percentile is reported."""
    registry = CollectorRegistry()
    times = ClientHistogram("http_request_duration_seconds", "t", buckets=(0.1,), registry=registry)
    queue = Summary("http_request_queue_duration_seconds", "q", registry=registry)
    for _ in range(300):
        times.observe(0.02)
        queue.observe(0.005)
    waited = of_texts([generate_latest(registry).decode()], "app").waited
    assert waited is not None
    assert waited.mean == pytest.approx(0.005)
    assert (waited.p50, waited.p95, waited.p99) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "unit", "factor"),
    [
        ("http_server_duration_milliseconds", None, 1000),
        ("istio_request_duration_milliseconds", None, 1000),
        ("upstream_time", "us", 1_000_000),
        ("latency_ns", None, 1_000_000_000),
    ],
)
def test_times_are_in_the_unit_of_their_name_or_as_said(
    name: str, unit: str | None, factor: int
) -> None:
    registry = CollectorRegistry()
    counted = ClientHistogram(
        name, "t", buckets=[factor * bound for bound in BOUNDS], registry=registry
    )
    for _ in range(300):
        counted.observe(0.02 * factor)
    seen = of_texts([generate_latest(registry).decode()], "app", metric=name, unit=unit)
    assert seen.samples is not None
    assert fmean(seen.samples.value) == pytest.approx(0.02, rel=0.01)


def test_buckets_that_end_too_early_are_told() -> None:
    app = Application()
    app.serve(60)
    for _ in range(100):
        app.times.labels("/").observe(3.0)
    seen = of_texts([app.text], "app")
    assert any(
        text.startswith("14% of the times of http_request_duration_seconds")
        for text in seen.warnings
    )


def test_cpu_time_of_other_work_is_not_taken() -> None:
    app = Application()
    before = app.text
    app.serve(60)
    app.cpu.inc(100)
    seen = of_texts([before, app.text], "app", apart=10)
    assert seen.cpu_time is None
    assert any("something else uses the CPU" in text for text in seen.warnings)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("<html>login</html>", "is not in Prometheus's text format", "/metrics"),
        ("", "has no metrics", "/metrics"),
        ("up 1\n", "none of the known metrics", "NAME_sum and NAME_count"),
        ("shop_request_time_sum 4\nshop_request_time_count 300\n", "none of the known metrics",
         "there are: shop_request_time."),
        ("http_request_duration_seconds_sum 4\nhttp_request_duration_seconds_count 199\n",
         "199 requests of http_request_duration_seconds are too few", "--over"),
    ],
)  # fmt: skip
def test_a_text_that_tells_nothing_says_what_it_needs(text: str, said: str, hint: str) -> None:
    with pytest.raises(BadValue) as refused:
        of_texts([text], "app.txt")
    assert said in refused.value.message
    assert hint in (refused.value.hint or "")


def test_a_metric_without_a_unit_asks_for_it() -> None:
    text = "shop_request_time_sum 4\nshop_request_time_count 300\n"
    with pytest.raises(BadValue, match="the unit of shop_request_time is not in its name"):
        of_texts([text], "app.txt", metric="shop_request_time")
    seen = of_texts([text], "app.txt", metric="shop_request_time_count", unit="s")
    assert seen.service_time is not None
    assert seen.service_time.value == pytest.approx(4 / 300)


@pytest.mark.parametrize("text", ["a b", '{job="web"}', "up{job=web}", 'up{job=~"("}', "1up"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not a metric with labels"):
        selector(text)


def test_an_openmetrics_text_is_read_too() -> None:
    text = (
        "# TYPE http_request_duration_seconds histogram\n"
        'http_request_duration_seconds_bucket{le="0.01"} 100 # {trace_id="ab"} 0.007\n'
        'http_request_duration_seconds_bucket{le="+Inf"} 300\n'
        "http_request_duration_seconds_count 300\nhttp_request_duration_seconds_sum 6.5\n# EOF\n"
    )
    seen = of_texts([text], "app")
    assert seen.samples is not None
    assert fmean(seen.samples.value) == pytest.approx(6.5 / 300, rel=0.01)


# Addresses.


def test_an_application_is_read_twice_at_its_address() -> None:
    app = Application()
    app.serve(100)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=app.registry)
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        seen = of_url(url, over=5.0, sleep=lambda _: app.serve(30))
        assert seen.samples is not None
        assert "300 requests" in seen.samples.source
        assert any("give --rate if other pods serve" in text for text in seen.warnings)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("url", ["ftp://prometheus", "http://", "prometheus:9090"])
def test_what_is_no_address_of_http_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not an HTTP address"):
        of_url(url)


def test_nobody_at_the_address_and_no_password_in_the_message() -> None:
    with pytest.raises(ConnectError, match="does not respond") as refused:
        of_url(f"http://user:secret@127.0.0.1:{free_port()}")
    assert "secret" not in refused.value.message


# A real server, with two hours that are known.

BEGIN = 1_795_392_000  # 2026-11-23 00:00 UTC
#: Ten requests a second; in the ten minutes from 01:00 on a hundred, and slower ones.
BUSY = range(3600, 4200)
END = BEGIN + 7200
real = needs("prometheus", "promtool")


def two_hours(begin: int) -> str:
    """OpenMetrics text: requests of 4 ms; in the busy minutes half of them take 40 ms."""
    rows: dict[str, list[str]] = {}

    def add(name: str, labels: str, value: float, at: int) -> None:
        rows.setdefault(name, []).append(f"{name}{{{labels}}} {value:.9g} {at}")

    for passed in range(0, 7201, 15):
        busy = min(max(0, passed - BUSY.start), len(BUSY))
        quick, slow = 10 * (passed - busy) + 50 * busy, 50 * busy
        at = begin + passed
        for job, times in (("web", 1), ("other", 1000)):
            labels = f'job="{job}"'
            name = "http_request_duration_seconds"
            bounds = (("0.005", quick), ("0.05", quick + slow), ("+Inf", quick + slow))
            for bound, number in bounds:
                add(f"{name}_bucket", f'{labels},le="{bound}"', times * number, at)
            add(f"{name}_count", labels, times * (quick + slow), at)
            add(f"{name}_sum", labels, times * (0.004 * quick + 0.04 * slow), at)
            sql = "http_request_sql_duration_seconds"
            add(f"{sql}_count", labels, times * (quick + slow), at)
            add(f"{sql}_sum", labels, times * (0.001 * quick + 0.005 * slow), at)
            add("process_cpu_seconds_total", labels, times * 0.002 * (quick + slow), at)
    kinds = {
        "http_request_duration_seconds": "histogram",
        "http_request_sql_duration_seconds": "summary",
        "process_cpu_seconds": "counter",
    }
    lines = []
    for family, kind in kinds.items():
        lines.append(f"# TYPE {family} {kind}")
        for name, samples in rows.items():
            if name.startswith(family):
                lines += samples
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with these two hours, and with the same data ending now."""
    place = tmp_path_factory.mktemp("prometheus")
    for number, begin in enumerate((BEGIN, int(time.time()) - 7200)):
        text = place / f"{number}.om"
        text.write_text(two_hours(begin))
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, place / "data"],
            check=True, capture_output=True,
        )  # fmt: skip
    (place / "prometheus.yml").write_text("scrape_configs: []\n")
    port = free_port()
    process = subprocess.Popen(
        ["prometheus", f"--config.file={place}/prometheus.yml",
         f"--storage.tsdb.path={place}/data", "--storage.tsdb.retention.time=100y",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _await_ready(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _await_ready(port: int) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                return
        except OSError:
            assert time.monotonic() < end, "Prometheus did not start"
            time.sleep(0.2)


WEB = 'http_request_duration_seconds{job="web"}'


def asked(url: str, metric: str | None = WEB, over: float = 7200.0, now: float = END) -> Observed:
    return of_url(url, metric=metric, over=over, now=lambda: now)


@real
def test_the_busiest_five_minutes_are_asked_for(prometheus: str) -> None:
    """By hand: 100/s, half of 4 ms and half of 40 ms; 3 ms of SQL and 2 ms of CPU each."""
    seen = asked(prometheus)
    assert seen.rate is not None
    assert seen.rate.value == pytest.approx(100, rel=0.001)
    assert "01:05:00 UTC" in seen.rate.source or "01:10:00 UTC" in seen.rate.source
    assert seen.samples is not None
    assert fmean(seen.samples.value) == pytest.approx(0.022, rel=0.01)
    assert sum(one <= 0.005 for one in seen.samples.value) == pytest.approx(1000, abs=2)
    assert seen.cpu_time is not None
    assert seen.cpu_time.value == pytest.approx(0.002, rel=0.001)
    assert seen.database_time is not None
    assert seen.database_time.value == pytest.approx(0.003, rel=0.001)


@real
def test_of_a_quiet_hour_the_times_are_those_of_the_hour(prometheus: str) -> None:
    seen = asked(prometheus, over=3300.0, now=BEGIN + 3500)
    assert seen.rate is not None
    assert seen.rate.value == pytest.approx(10, rel=0.001)
    assert seen.samples is not None
    assert fmean(seen.samples.value) == pytest.approx(0.004, rel=0.01)


@real
def test_of_several_jobs_nobodys_cpu_time_is_taken(prometheus: str) -> None:
    seen = asked(prometheus, metric=None)
    assert seen.rate is not None
    assert seen.rate.value == pytest.approx(100 * 1001, rel=0.001)
    assert seen.cpu_time is None


@real
@pytest.mark.parametrize(
    ("metric", "error", "said"),
    [
        ("shop_seconds", BadValue, "has no histogram or summary shop_seconds"),
        ('http_request_duration_seconds{job="none"}', BadValue, "has no histogram or summary"),
        ('http_request_duration_seconds{job=~"[a"}', BadValue, "is not a metric with labels"),
        # Python's and Prometheus's regular expressions differ.
        ('http_request_duration_seconds{job=~"(?=w)web"}', MrTunerError, "rejected a query: 400"),
    ],
)
def test_a_server_without_such_a_metric_is_told(
    prometheus: str, metric: str, error: type[MrTunerError], said: str
) -> None:
    with pytest.raises(error) as refused:
        asked(prometheus, metric)
    assert said in refused.value.message
    assert refused.value.hint


@real
def test_hours_without_requests_are_told(prometheus: str) -> None:
    with pytest.raises(BadValue, match="has no") as refused:
        asked(prometheus, now=BEGIN - 90_000)
    assert refused.value.hint


@real
@pytest.mark.usefixtures("short_simulations")
def test_the_command_plans_from_a_server(prometheus: str) -> None:
    """From the last two hours and a bit: rate and times need not be given."""
    done = run(
        "pods", "plan", "--prometheus", prometheus, "--metric", WEB, "--over", "130min", "--json"
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["load"]["rate"] == pytest.approx(100, rel=0.05)
    assert told["load"]["samples"] == 2000
    named = {one["name"]: one["used"] for one in told["observed"]}
    assert named == {"rate": True, "samples": True, "cpu_time": True, "database_time": True}


# Options.


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["--metric", "up"], "--metric requires --prometheus", "Give both"),
        (["--application", "web"], "--application requires --activity or --history", "Give both"),
        (["--prometheus", "a.txt", "--prometheus", "b.txt"], "the time between the two readings",
         "--over 60s"),
        (["--prometheus", "http://a:1", "--prometheus", "b.txt"], "several addresses", "Give one"),
        (["--prometheus", *"a b c".replace(" ", " --prometheus ").split()], "3 readings",
         "Give one file, or two"),
        (["--prometheus", "/nowhere/metrics.txt"], "cannot read /nowhere/metrics.txt", "file"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_named(
    arguments: list[str], said: str, hint: str
) -> None:
    done = run("pods", "plan", "--rate", "100/s", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert f"HINT: {hint}" in done.stderr or hint in done.stderr


@pytest.mark.usefixtures("short_simulations")
def test_files_are_two_readings_and_what_is_given_wins(tmp_path: Path) -> None:
    app = Application()
    app.serve(60)
    (tmp_path / "1").write_text(app.text)
    app.serve(60)
    (tmp_path / "2").write_text(app.text)
    done = run("pods", "plan", "--rate", "80/s", "--prometheus", tmp_path / "1",
               "--prometheus", tmp_path / "2", "--over", "10s")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "rate 60/s (http_request_duration_seconds_count" in done.stdout
    assert "over 10 s); not used" in " ".join(done.stdout.split())
    assert "80/s x 7.6 ms (2000 measured times" in " ".join(done.stdout.split())
