"""The load is divided by the ceiling that applied at that moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_story import BEGIN, INSTANCE, of_source, sample

from mrtuner.answers.ceilings import judged
from mrtuner.answers.shares import ceiling_range
from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.volumes import volume
from mrtuner.history.analysis.period import period
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.limits.ceilings import Resource, ceilings

MB = 1e6
KNOWN = ceilings(instance_class("db.r5.2xlarge"), volume("io1:1000GB,10000iops"))


@pytest.mark.parametrize(
    ("level", "former", "ceiling"),
    [
        # 2,300 and 4,750 Mbps; before December 2019 1,700 and 3,500.
        (100, False, 287.5), (287.5, False, 287.5), (290, False, 287.5), (300, False, 593.75),
        (100, True, 212.5), (213, True, 212.5), (250, True, 437.5), (443, True, 437.5),
    ],
)  # fmt: skip
def test_beyond_the_baseline_it_is_the_burst(level: float, former: bool, ceiling: float) -> None:
    found = ceiling_range(KNOWN, Resource.THROUGHPUT, former=former)
    assert found is not None
    assert found.at(level * MB).value == ceiling * MB


def test_of_class_and_volume_the_lower_one_holds() -> None:
    """The class has 12,000 operations a second, and 18,750 in a burst; the volume has 10,000."""
    found = ceiling_range(KNOWN, Resource.IOPS, former=False)
    assert found is not None
    assert {found.at(level).label for level in (5000, 15_000)} == {"volume iops 10,000 IOPS"}


def test_what_nobody_limits_has_no_ceiling() -> None:
    assert ceiling_range(KNOWN, Resource.WRITE_IOPS, former=False) is None


def test_of_connections_it_is_what_ordinary_roles_may_open(tmp_path: Path) -> None:
    row = of_source("connections", clients=20, maximum=100, ordinary=92)
    samples = (sample("connections", BEGIN, row),)
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=samples)])
    until = datetime(2026, 11, 23, tzinfo=UTC) + timedelta(seconds=BEGIN + 60)
    with open_history(tmp_path) as store:
        found = judged(store, period(store, INSTANCE, since=3600, until=until)).limits
    assert found is not None
    assert [(one.resource, one.value, one.source) for one in found.ceilings] == [
        (Resource.CONNECTIONS, 92, "max_connections less the reserved, recorded")
    ]
