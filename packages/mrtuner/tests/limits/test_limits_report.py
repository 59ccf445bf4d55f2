"""The picture and the page: ceilings drawn through the stacked series."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from mrtuner.limits import Ceiling, CeilingKind, Limits, MetricSeries, Resource, limits
from mrtuner.limits.assess import on_host
from mrtuner.limits.document import limits_document
from mrtuner.limits.examples.week import CLASS, STORAGE, simulated_week
from mrtuner.limits.page import page, picture
from mrtuner.limits.text import lines


@pytest.fixture(scope="module")
def told() -> Limits:
    return limits(simulated_week(), class_name=CLASS, storage=STORAGE)


def test_the_picture_is_well_formed_and_names_every_ceiling_near(told: Limits) -> None:
    svg = picture(told)
    root = ElementTree.fromstring(svg)
    words = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for label in (
        "593.8 MB/s instance burst",
        "287.5 MB/s instance",
        "437.5 MB/s instance before 12/2019",
        "212.5 MB/s instance before 12/2019",
        "18,750 IOPS instance burst",
    ):
        assert label in words
    assert "4,194 MB/s volume" not in words  # its line would flatten the series
    assert len(svg) < 300_000


def test_the_same_answer_gives_the_same_page(told: Limits) -> None:
    assert page(told) == page(told)


def test_the_page_serves_a_screen_reader_and_loads_nothing(told: Limits) -> None:
    html = page(told)
    assert 'role="img"' in html
    assert "Minutes at this ceiling by weekday and hour" in html
    assert not re.findall(r"(?:src|href)=\"https?://", html)


def test_calm_metrics_have_a_page_and_lines_too() -> None:
    calm = simulated_week()
    weekend = {name: values[5 * 1440 + 300 :] for name, values in calm.metrics.items()}
    found = limits(
        MetricSeries(start=calm.at(5 * 1440 + 300), step=60, metrics=weekend),
        class_name="db.r5.4xlarge",
    )
    text = "\n".join(lines(limits_document(found)))
    assert "<svg" in page(found)
    assert text.startswith("db.r5.4xlarge: ")


HOST = Ceiling(
    resource=Resource.READ_IOPS, part="cgroup", kind=CeilingKind.SUSTAINED, value=800,
    source="io.max", note="on sdb",
)  # fmt: skip


def host(points: int, *known: Ceiling) -> Limits:
    """Reads at 800 a second for half of the time, while sessions wait."""
    random = np.random.default_rng(5)
    reads = 200 * random.lognormal(0, 0.2, points)
    waiting = np.full(points, 0.5)
    half = slice(points // 2, points)
    reads[half], waiting[half] = 800 * random.normal(1, 0.002, points - points // 2), 10.0
    metrics = {
        "ReadIOPS": reads, "WriteIOPS": np.full(points, 3.0), "SessionsWaitingForIO": waiting,
    }  # fmt: skip
    series = MetricSeries(
        start=simulated_week().start, step=1, metrics=metrics if points else {}, apart=True
    )
    return on_host(series, known, name="db:5432", storage="sdb")


@pytest.mark.parametrize(
    ("known", "label"), [((HOST,), "800 IOPS reads cgroup"), ((), "IOPS unknown ceiling")]
)
def test_a_host_s_ceiling_is_drawn_declared_or_not(known: tuple[Ceiling, ...], label: str) -> None:
    html = page(host(300, *known))
    assert label in html
    assert "None" not in re.sub(r"<svg.*?</svg>|<style.*?</style>", "", html, flags=re.S)
    assert re.findall(r">\d\d:\d\d:\d\d<", html)  # times of the day, not dates


def test_where_nothing_was_measured_there_is_no_picture() -> None:
    html = page(host(0, HOST))
    assert "Not measured" in html
    assert "<svg" not in html
    assert "cgroup read iops" in html
