"""The ceilings of classes and volumes, checked against the figures that AWS published."""

from __future__ import annotations

import pytest

from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.volumes import before_december_2019, cpu_baseline, volume
from mrtuner.errors import BadValue
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource, binding, ceilings, peak

MIB = 1024**2


def of(class_name: str, storage: str | None = None) -> tuple[Ceiling, ...]:
    return ceilings(instance_class(class_name), volume(storage) if storage else None)


def values(known: tuple[Ceiling, ...], resource: Resource, kind: CeilingKind) -> list[float]:
    return sorted(one.value for one in known if one.resource is resource and one.kind is kind)


def test_an_r5_2xlarge_has_the_limits_of_today_and_those_before_december_2019() -> None:
    """4,750 and 2,300 Mbps are 593.75 and 287.5 MB/s; 3,500 and 1,700 were 437.5 and 212.5."""
    known = of("db.r5.2xlarge")
    assert values(known, Resource.THROUGHPUT, CeilingKind.BURST) == [593.75e6]
    assert values(known, Resource.THROUGHPUT, CeilingKind.SUSTAINED) == [287.5e6]
    assert values(known, Resource.THROUGHPUT, CeilingKind.FORMER) == [212.5e6, 437.5e6]
    assert values(known, Resource.IOPS, CeilingKind.BURST) == [18_750]
    assert values(known, Resource.IOPS, CeilingKind.SUSTAINED) == [12_000]


@pytest.mark.parametrize(
    ("name", "then"),
    [
        ("db.m5.large", (480, 3500)),
        ("db.r5.xlarge", (850, 3500)),
        ("db.r5.4xlarge", (3500, 3500)),
        ("db.m5.24xlarge", (14000, 14000)),
        ("db.r6g.2xlarge", (None, None)),
    ],
)
def test_only_m5_and_r5_had_others_before(name: str, then: tuple[int | None, int | None]) -> None:
    assert before_december_2019(name) == then


@pytest.mark.parametrize(
    ("text", "iops", "mib", "burst"),
    [
        ("gp2:20GB", 100, 128, 3000),
        ("gp2:100GB", 300, 128, 3000),
        ("gp2:200GB", 600, 250, 3000),
        ("gp2:500GB", 1500, 512, 12000),
        ("gp2:2000GB", 6000, 1000, 12000),
        ("gp2:5000GB", 15000, 1000, None),
        ("gp2:30000GB", 64000, 1000, None),
        ("gp3:100GB", 3000, 125, None),
        ("gp3:400GB", 12000, 500, None),
        ("gp3:500GB,16000iops,1000MiB/s", 16000, 1000, None),
        ("io1:200GB,5000iops", 5000, 500, None),
        ("io1:1000GB,30000iops", 30000, 4000, None),
    ],
)
def test_volumes_have_the_limits_of_the_user_guide(
    text: str, iops: int, mib: int, burst: int | None
) -> None:
    found = volume(text)
    assert (found.iops, found.throughput, found.burst_iops) == (iops, mib * MIB, burst)


def test_a_bucket_of_gp2_lasts_as_long_as_ec2_says() -> None:
    """5,400,000 credits at 3,000 - 300 a second are 2,000 s; four stripes of 250 GiB 2,400 s."""
    assert volume("gp2:100GB").burst_seconds == 2000
    assert volume("gp2:1000GB").burst_seconds == 2400


def test_what_is_not_known_of_io2_is_not_drawn() -> None:
    assert volume("io2:100GB,100000iops").throughput is None
    known = of("db.r6g.xlarge", "io2:100GB,100000iops")
    assert [one.part for one in known if one.resource is Resource.THROUGHPUT] == ["instance"] * 2


@pytest.mark.parametrize(
    "text",
    [
        "gp3", "gp4:100GB", "gp3:100", "gp3:100GB,16000iops", "gp3:400GB,12000iops,4000MiB/s",
        "gp2:100GB,3000iops", "io1:100GB", "io1:100GB,6000iops", "io1:400GB,20000iops,500MiB/s",
        "gp3:400GB,fast", "standard:100GB,500iops",
    ],
)  # fmt: skip
def test_a_volume_that_rds_does_not_have_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        volume(text)
    assert caught.value.hint


def test_a_volume_is_written_as_it_is_read() -> None:
    for text in ("gp3:500GB,12000iops,500MiB/s", "gp2:100GB", "io1:1000GB,30000iops"):
        assert str(volume(text)) == text


def test_the_smaller_of_instance_and_volume_binds() -> None:
    """125 MiB/s are 131.072 MB/s, below the 287.5 MB/s of the instance."""
    small = of("db.r5.2xlarge", "gp3:100GB")
    large = of("db.r5.2xlarge", "io1:1000GB,30000iops")
    first, second = (binding(known, Resource.THROUGHPUT) for known in (small, large))
    assert first is not None
    assert second is not None
    assert (first.part, first.value) == ("volume", 131_072_000)
    assert (second.part, second.value) == ("instance", 287.5e6)
    most = peak(large, Resource.IOPS)
    assert most is not None
    assert (most.part, most.value) == ("instance", 18_750)


def test_network_is_both_ways_with_its_peak() -> None:
    known = of("db.r5.2xlarge")
    for way in (Resource.NETWORK_IN, Resource.NETWORK_OUT):
        assert values(known, way, CeilingKind.SUSTAINED) == [312.5e6]  # 2.5 Gbps
        assert values(known, way, CeilingKind.BURST) == [1250e6]  # 10 Gbps


def test_a_t2_falls_to_its_baseline_and_a_t3_costs_extra_instead() -> None:
    assert cpu_baseline("db.t2.medium") == 20
    assert values(of("db.t2.medium"), Resource.CPU, CeilingKind.SUSTAINED) == [20]
    assert values(of("db.t3.medium"), Resource.CPU, CeilingKind.SUSTAINED) == [100]


def test_a_class_without_published_figures_has_no_disk_ceiling() -> None:
    assert values(of("db.t2.medium"), Resource.THROUGHPUT, CeilingKind.SUSTAINED) == []


def test_every_ceiling_names_its_source() -> None:
    assert all(one.source for one in of("db.t3.medium", "gp2:100GB"))
