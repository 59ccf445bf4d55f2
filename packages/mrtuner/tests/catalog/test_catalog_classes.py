"""The table of instance classes: equal to AWS's published figures, and made by its own command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refresh_classes import from_packages, written

import mrtuner.catalog
from mrtuner.catalog.classes import (
    ENGINES,
    InstanceClass,
    all_classes,
    instance_class,
    instance_classes,
    sources,
)
from mrtuner.catalog.ec2 import ec2_type, network, row
from mrtuner.errors import BadValue
from mrtuner.units import GiB, MiB

FILE = Path(mrtuner.catalog.__file__).with_name("classes.json")


def test_the_committed_file_is_what_the_command_makes_of_the_packages() -> None:
    assert from_packages() == FILE.read_text(encoding="utf-8")


def test_there_are_as_many_classes_as_the_reference_counts() -> None:
    """299 for postgres, 97 for Aurora less db.serverless, 102 in Multi-AZ clusters; 307 in all."""
    counts = {engine: len(instance_classes(engine)) for engine in ENGINES}
    assert counts == {
        "postgres": 299,
        "aurora-postgresql": 96,
        "postgres-multi-az-cluster": 102,
    }
    assert len(all_classes()) == 307


def test_the_limits_of_r5_2xlarge_are_those_of_the_field_notes() -> None:
    """4,750 Mbps = 593.75 MB/s and 18,750 IOPS; baseline 2,300 Mbps = 287.5 MB/s, 12,000 IOPS."""
    known = instance_class("db.r5.2xlarge")
    assert (known.ebs_max_mbps, known.ebs_max_iops) == (4750, 18750)
    assert (known.ebs_baseline_mbps, known.ebs_baseline_iops) == (2300, 12000)
    assert (known.memory, known.vcpus, known.threads_per_core) == (64 * GiB, 8, 2)
    assert known.network == "Up to 10 Gigabit; baseline 2.5 Gbps; peak 10 Gbps"
    assert known.bursts


@pytest.mark.parametrize(
    ("name", "memory", "vcpus", "threads"),
    [
        ("db.t4g.micro", 1 * GiB, 2, 1),
        ("db.m1.large", 7680 * MiB, 2, 1),
        ("db.r6g.xlarge", 32 * GiB, 4, 1),
        ("db.m7i.48xlarge", 768 * GiB, 192, 2),
        ("db.x2g.large", 32 * GiB, 2, 1),
        ("db.x2iedn.32xlarge", 4096 * GiB, 128, 2),
    ],
)
def test_memory_and_processors_are_the_published_ones(
    name: str, memory: int, vcpus: int, threads: int
) -> None:
    """Source: the RDS User Guide's table of instance classes."""
    known = instance_class(name)
    assert (known.memory, known.vcpus, known.threads_per_core) == (memory, vcpus, threads)


def test_125_classes_burst_and_14_old_ones_publish_no_limits() -> None:
    known = all_classes().values()
    assert sum(each.bursts for each in known) == 125
    without = {each.family for each in known if each.ebs_max_mbps is None}
    assert sum(each.ebs_max_mbps is None for each in known) == 14
    assert without == {"m1", "m2", "m3", "r3", "t1", "t2"}


def test_a_name_is_found_without_its_prefix_and_in_capitals() -> None:
    assert instance_class("R6G.XLARGE") is instance_class("db.r6g.xlarge")


def test_an_unknown_class_names_those_like_it_and_the_way_round() -> None:
    with pytest.raises(BadValue) as caught:
        instance_class("db.r6.xlarge")
    assert caught.value.message == "unknown instance class 'db.r6.xlarge'"
    assert "db.r6g.xlarge" in str(caught.value.hint)
    assert "--memory and --vcpus" in str(caught.value.hint)


def test_serverless_is_no_class_with_a_memory_of_its_own() -> None:
    with pytest.raises(BadValue) as caught:
        instance_class("db.serverless")
    assert "follows its capacity" in str(caught.value.hint)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(BadValue, match="unknown engine 'mysql'"):
        instance_classes("mysql")


def test_processors_are_told_apart_by_the_name() -> None:
    graviton = ("db.t4g.micro", "db.r6gd.large", "db.x2g.large", "db.c6gd.large", "db.m9g.large")
    others = ("db.t3.micro", "db.m6id.large", "db.x2iedn.xlarge", "db.m8a.large", "db.m1.large")
    assert all(instance_class(name).graviton for name in graviton)
    assert not any(instance_class(name).graviton for name in others)
    assert instance_class("db.m4.large").xen
    assert not instance_class("db.m5.large").xen


def test_classes_stand_in_order_of_size_within_their_family() -> None:
    names = [name for name in all_classes() if name.startswith("db.t3.")]
    assert names == [
        f"db.t3.{size}" for size in ("micro", "small", "medium", "large", "xlarge", "2xlarge")
    ]


def test_every_part_of_the_table_names_its_source() -> None:
    assert set(sources()) >= {"figures", "engines", "names"}
    assert all("(" in sources()[part] for part in ("figures", "engines"))


def test_x2g_is_what_ec2_calls_x2gd() -> None:
    assert ec2_type("db.x2g.xlarge") == "x2gd.xlarge"
    assert ec2_type("db.m5.large") == "m5.large"


#: As EC2 answers, cut down; two network cards.
DESCRIBED: dict[str, Any] = {
    "MemoryInfo": {"SizeInMiB": 1024},
    "VCpuInfo": {"DefaultVCpus": 4},
    "EbsInfo": {"EbsOptimizedSupport": "unsupported"},
    "NetworkInfo": {
        "NetworkPerformance": "200 Gigabit",
        "NetworkCards": [
            {"BaselineBandwidthInGbps": 100.0, "PeakBandwidthInGbps": 100.0},
            {"BaselineBandwidthInGbps": 100.0, "PeakBandwidthInGbps": 100.0},
        ],
    },
}


def test_several_network_cards_add_up() -> None:
    assert network(DESCRIBED["NetworkInfo"]) == "200 Gigabit; baseline 200 Gbps; peak 200 Gbps"
    assert network({"NetworkPerformance": "Low"}) == "Low"


def test_what_ec2_does_not_publish_stays_unknown() -> None:
    found = row(DESCRIBED, {"postgres"})
    assert found["ebs_max_mbps"] is None
    assert found["threads_per_core"] == 1


def test_a_written_file_reads_back_as_the_same_rows() -> None:
    found = row(DESCRIBED, {"postgres", "aurora-postgresql"})
    document = json.loads(written({"figures": "here"}, {"db.a1.large": found}))
    assert dict(zip(document["columns"], document["classes"]["db.a1.large"], strict=True)) == found
    assert found["engines"] == "aurora-postgresql postgres"


def test_no_class_is_without_memory_processors_or_engine() -> None:
    def complete(known: InstanceClass) -> bool:
        return known.memory > 0 and known.vcpus > 0 and bool(known.engines & set(ENGINES))

    assert all(map(complete, all_classes().values()))
