"""The picture and the page: ceilings drawn through the stacked series."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from mrtuner.limits import Limits, Series, limits
from mrtuner.limits.story import CLASS, STORAGE, story
from mrtuner.report.limits import lines, page, picture


@pytest.fixture(scope="module")
def told() -> Limits:
    return limits(story(), class_name=CLASS, storage=STORAGE)


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
    assert "4,194 MB/s volume" not in words  # it would press the series down
    assert len(svg) < 300_000


def test_the_same_answer_gives_the_same_page(told: Limits) -> None:
    assert page(told) == page(told)


def test_the_page_serves_a_screen_reader_and_loads_nothing(told: Limits) -> None:
    html = page(told)
    assert 'role="img"' in html
    assert "Minutes at this ceiling by weekday and hour" in html
    assert not re.findall(r"(?:src|href)=\"https?://", html)


def test_calm_metrics_have_a_page_and_lines_too() -> None:
    calm = story()
    weekend = {name: values[5 * 1440 + 300 :] for name, values in calm.metrics.items()}
    found = limits(
        Series(start=calm.at(5 * 1440 + 300), step=60, metrics=weekend), class_name="db.r5.4xlarge"
    )
    document: dict[str, Any] = found.to_dict()
    text = "\n".join(lines(document))
    assert "<svg" in page(found)
    assert text.startswith("db.r5.4xlarge: ")
