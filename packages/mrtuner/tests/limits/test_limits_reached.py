"""What is a ceiling and what is not, in cases made by hand, and the remedies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from jsonschema import ValidationError  # type: ignore[import-untyped]
from numpy.typing import NDArray

from json_schemas import assert_valid
from mrtuner.limits import CeilingKind, Limits, MetricSeries, Resource, limits
from mrtuner.limits.examples.week import CLASS, STORAGE, simulated_week

START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = 1440
BUSY = slice(600, 900)


def metrics(
    level: float, *, waits: float = 1.0, size: float = 16_384.0, spread: float = 0.003
) -> dict[str, NDArray[np.float64]]:
    """A day with 300 minutes at `level` bytes per second, operations taking `waits` times 1 ms."""
    random = np.random.default_rng(11)
    total = 0.2 * level * random.lognormal(0, 0.15, DAY)
    total[BUSY] = level * random.normal(1, spread, 300)
    operations = total / (size * random.lognormal(0, 0.1, DAY))
    took = np.full(DAY, 1e-3) * random.lognormal(0, 0.1, DAY)
    took[BUSY] *= waits
    return {
        "ReadThroughput": total * 0.7, "WriteThroughput": total * 0.3,
        "ReadIOPS": operations * 0.7, "WriteIOPS": operations * 0.3,
        "DiskQueueDepth": operations * took,
    }  # fmt: skip


def judged(columns: dict[str, Any], name: str = "db.r6g.2xlarge", **options: Any) -> Limits:
    return limits(MetricSeries(start=START, step=60, metrics=columns), class_name=name, **options)


def test_a_level_at_a_ceiling_where_operations_wait_is_pegged() -> None:
    """2,375 Mbps of a db.r6g.2xlarge are 296.875 MB/s."""
    (found,) = judged(metrics(296.875e6, waits=8)).pegged
    assert found.ceiling is not None
    assert (found.ceiling.name, found.ceiling.value) == ("instance throughput", 296.875e6)
    assert found.confirmed
    assert found.plateau.spans == ((600, 900),)


def test_the_same_level_where_nothing_waits_is_a_steady_job() -> None:
    found = judged(metrics(296.875e6))
    assert found.pegged == ()
    (steady,) = found.findings.steady
    assert "ms per operation here" in steady.because


def test_a_full_balance_says_nothing_where_no_burst_exists() -> None:
    """4,750 Mbps, of a db.r6g.4xlarge always, are 593.75 MB/s."""
    columns = metrics(593.75e6, waits=4) | {"EBSByteBalance%": np.full(DAY, 100.0)}
    (found,) = judged(columns, "db.r6g.4xlarge").pegged
    assert found.ceiling is not None
    assert (found.ceiling.name, found.ceiling.kind) == (
        "instance throughput", CeilingKind.SUSTAINED,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("off", "matches"), [(0.97, True), (1.02, True), (0.94, False), (1.05, False)]
)
def test_a_level_is_a_ceilings_within_a_few_per_cent(off: float, matches: bool) -> None:
    (found,) = judged(metrics(296.875e6 * off, waits=8)).pegged
    assert (found.ceiling is not None) is matches


def test_an_unknown_level_needs_the_queue_to_speak() -> None:
    waiting = judged(metrics(180e6, waits=6))
    assert [one.ceiling for one in waiting.pegged] == [None]
    assert waiting.advice[0].startswith("Unknown ceiling at 180 MB/s. ")
    silent = metrics(180e6, waits=6)
    del silent["DiskQueueDepth"]
    assert judged(silent).pegged == ()


def test_the_volume_is_named_where_the_volume_binds() -> None:
    """125 MiB/s are 131.07 MB/s."""
    found = judged(metrics(131.07e6, waits=8), storage="gp3:200GB")
    (one,) = found.pegged
    assert one.ceiling is not None
    assert one.ceiling.name == "volume throughput"


def test_provisioned_iops_that_bind_may_be_raised() -> None:
    """By hand: 7,800 operations of 8 kB are 63.9 MB/s, far below every throughput."""
    columns = metrics(7800 * 8192.0, waits=8, size=8192.0)
    random = np.random.default_rng(12)
    for name, share in (("ReadIOPS", 0.7), ("WriteIOPS", 0.3)):
        columns[name][BUSY] = 7800 * share * random.normal(1, 0.003, 300)
    size = random.lognormal(0, 0.1, 300)
    for name in ("ReadThroughput", "WriteThroughput"):
        columns[name][BUSY] *= size
    found = judged(columns, storage="io1:400GB,7800iops")
    (one,) = found.pegged
    assert (one.resource, one.ceiling and one.ceiling.part) == (Resource.IOPS, "volume")
    assert not any("will not help" in text for text in found.advice)
    assert any("The class is enough: change the volume to io1:400GB,10000iops" in text
               for text in found.advice)  # fmt: skip


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ("gp3:500GB", False),
        ("gp3:500GB,16000iops", True),
    ],
)
def test_iops_at_two_equal_ceilings_may_be_the_volume_s(storage: str, says: bool) -> None:
    """A db.r6g.2xlarge sustains 12,000 IOPS, as many as a gp3 of 400 GiB has without extra."""
    columns = metrics(12_000 * 8192.0, waits=8, size=8192.0)
    random = np.random.default_rng(12)
    for name, share in (("ReadIOPS", 0.7), ("WriteIOPS", 0.3)):
        columns[name][BUSY] = 12_000 * share * random.normal(1, 0.003, 300)
    size = random.lognormal(0, 0.1, 300)
    for name in ("ReadThroughput", "WriteThroughput"):
        columns[name][BUSY] *= size
    found = judged(columns, storage=storage)
    (one,) = found.pegged
    assert one.ceiling is not None
    assert one.ceiling.name == "instance iops"
    told = "Raising provisioned IOPS will not help: the instance sustains no more than 12,000 IOPS."
    assert (told in found.advice) is says
    assert any("will not help" in text for text in found.advice) is says


def test_a_burst_with_credits_left_is_named_a_burst() -> None:
    columns = metrics(593.75e6, waits=4) | {"EBSByteBalance%": np.full(DAY, 60.0)}
    (found,) = judged(columns).pegged
    assert found.ceiling is not None
    assert found.ceiling.kind is CeilingKind.BURST


def test_a_cpu_at_100_per_cent_is_at_its_ceiling() -> None:
    random = np.random.default_rng(13)
    cpu = random.normal(30, 6, DAY).clip(5)
    cpu[BUSY] = random.normal(99.5, 0.2, 300).clip(max=100)
    (found,) = judged({"CPUUtilization": cpu}).pegged
    assert found.resource is Resource.CPU


def test_connections_at_their_limit_ask_for_a_pool_and_not_for_a_class() -> None:
    random = np.random.default_rng(15)
    open_ = random.normal(120, 9, DAY).round()
    open_[BUSY] = 400
    found = judged({"DatabaseConnections": open_}, connections=(400, "as given"))
    assert [one.resource for one in found.pegged] == [Resource.CONNECTIONS]
    assert found.advice == (
        "Connections have reached max_connections: use a pool, or raise it if memory allows.",
    )


def test_today_s_limits_are_enough_for_what_the_old_ones_cut_off() -> None:
    """212.5 x 1.25 is 265.6 MB/s, below the 287.5 that a db.r5.2xlarge has today."""
    found = judged(metrics(213e6, waits=8, size=65_536.0), name="db.r5.2xlarge")
    assert "The class is enough, with its published limits." in found.advice


def test_an_even_network_that_is_at_no_limit_is_not_accused() -> None:
    random = np.random.default_rng(14)
    sent = random.lognormal(0, 0.3, DAY) * 1e6
    sent[BUSY] = 40e6 * random.normal(1, 0.002, 300)
    assert judged({"NetworkTransmitThroughput": sent}).pegged == ()


def test_candidates_have_the_room_and_come_smallest_first() -> None:
    """296.9 x 1.25 is 371.1 MB/s sustained; no less memory and no fewer vCPUs than now."""
    found = judged(metrics(296.875e6, waits=8), storage="io1:1000GB,30000iops")
    assert found.candidates
    for one in found.candidates:
        assert one.ceilings[Resource.THROUGHPUT].value >= 371e6
        assert one.instance.memory >= 64 * 1024**3
    sizes = [one.instance.vcpus for one in found.candidates]
    assert sizes == sorted(sizes)
    assert len({one.instance.family for one in found.candidates}) == len(sizes)


@pytest.mark.parametrize("storage", ["gp3:200GB", "gp2:1000GB"])
def test_a_volume_that_would_bind_next_grows_along(storage: str) -> None:
    """371.1 MB/s are 353.9 MiB/s; a gp3 of 400 GiB has 500 of them, and more IOPS are needed.

    gp2 of 1,000 GiB has the throughput, but 3,000 IOPS without credits.
    """
    found = judged(metrics(296.875e6, waits=8), storage=storage)
    assert found.candidates
    for one in found.candidates:
        assert one.volume is not None
        assert (one.volume.kind, one.volume.gib >= 400) == ("gp3", True)
        assert (one.volume.iops or 0) >= 18_000


def test_what_if_says_what_a_class_and_volume_would_lack() -> None:
    found = judged(metrics(296.875e6, waits=8), what_if=["db.r6g.4xlarge", "gp3:200GB"])
    assert found.what_if is not None
    assert found.what_if.instance.name == "db.r6g.4xlarge"
    assert found.what_if.lacks == (Resource.THROUGHPUT, Resource.IOPS)
    assert not found.what_if.sufficient


def test_little_free_memory_is_told() -> None:
    columns = metrics(100e6) | {"FreeableMemory": np.full(DAY, 1e9)}
    assert any("memory: only 1.5%" in text for text in judged(columns).notices)


def test_the_document_satisfies_its_schema() -> None:
    """With something at a ceiling, candidates, and another class."""
    found = limits(
        simulated_week(), class_name=CLASS, storage=STORAGE, what_if=["db.r5.4xlarge"]
    ).to_dict()
    assert found["pegged"]
    assert found["candidates"]
    assert_valid(found, "mrtuner.limits/1")
    with pytest.raises(ValidationError, match="many"):
        assert_valid(found | {"step": "many"}, "mrtuner.limits/1")


def test_the_smallest_ceiling_without_credits_is_marked_as_binding() -> None:
    """A db.r6g.2xlarge sustains 2,375 Mbps, a gp3 of 200 GB 125 MiB/s and 3,000 IOPS."""
    found = judged(metrics(100e6), storage="gp3:200GB").to_dict()
    binds = {one["name"] for one in found["ceilings"] if one["binding"]}
    assert {"volume throughput", "volume iops", "instance cpu", "instance memory"} <= binds
    assert binds.isdisjoint({"instance throughput", "instance iops", "instance iops, burst"})


def test_credits_that_ran_out_are_told_with_how_long() -> None:
    """Every fifth minute has a balance; a quarter of them are empty: six hours of the day."""
    balance = np.full(DAY, np.nan)
    balance[::5] = 80.0
    balance[: DAY // 4 : 5] = 0.0
    found = judged(metrics(100e6) | {"EBSByteBalance%": balance})
    assert any(
        text == "EBSByteBalance% was at 5 % or below for 6 h: burst credits ran out"
        for text in found.notices
    )


def t2_without_credits() -> Limits:
    """300 minutes without credits, just below the baseline of 20 %."""
    random = np.random.default_rng(13)
    cpu, credits = random.normal(9, 2, DAY).clip(2), np.full(DAY, 120.0)
    cpu[BUSY], credits[BUSY] = random.normal(19.8, 0.05, 300), 0.0
    return judged({"CPUUtilization": cpu, "CPUCreditBalance": credits}, name="db.t2.medium")


def test_a_class_with_the_same_cpu_baseline_does_not_carry_what_was_cut_off_there() -> None:
    """2 x 19.8 % and a quarter are 49.5; a db.t3.medium has 2 x 20 %, a db.t3.large 2 x 30 %."""
    found = t2_without_credits().candidates
    assert [one.instance.name for one in found if one.instance.family == "t3"] == ["db.t3.large"]


def test_an_unlimited_class_without_credits_had_no_baseline_even_if_its_cpu_is_unknown() -> None:
    """A db.t3.medium without credits goes on, at a price; without CPUUtilization it is unknown."""
    balance = np.full(DAY, 120.0)
    balance[BUSY] = 0.0
    found = judged(metrics(100e6) | {"CPUCreditBalance": balance}, name="db.t3.medium")
    assert found.verdict == (
        "no hard limit was reached for long; network in, network out, cpu and connections could "
        "not be judged"
    )
    assert (
        "CPUCreditBalance was at 1 credits or below for 5 h; the class is Unlimited, so no "
        "baseline applied"
    ) in found.notices


def test_a_t2_without_credits_is_confirmed_by_their_balance() -> None:
    """A db.t2.medium has two vCPUs with 20 % each: 20 % of CPUUtilization's scale."""
    (one,) = t2_without_credits().pegged
    assert one.ceiling is not None
    assert (one.ceiling.value, one.confirmed) == (20, True)
    assert "CPUCreditBalance: 0 credits left" in one.evidence[-1].because
