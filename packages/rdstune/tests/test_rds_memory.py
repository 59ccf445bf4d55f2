"""DBInstanceClassMemory against everything that people read on live instances."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from mrtuner.catalog.classes import AURORA, POSTGRES, all_classes, instance_class
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import (
    XEN,
    Estimate,
    Fit,
    calibrated,
    class_memory,
    given,
    implied,
    of_instance,
)
from mrtuner.formula.rds_formula import parse
from mrtuner.units import Bytes, GiB, KiB, MiB

if TYPE_CHECKING:
    from conftest import NewCluster

#: The divisors of max_connections' defaults: RDS for PostgreSQL and Aurora; RDS for MySQL.
POSTGRES_EACH = 9531392
MYSQL_EACH = 12582880

DEFAULTS = {
    "shared_buffers": "{DBInstanceClassMemory/32768}",
    "effective_cache_size": "{DBInstanceClassMemory/16384}",
    "max_connections": "LEAST({DBInstanceClassMemory/9531392},5000)",
}


def middle(value: int, each: int) -> float:
    """The middle of the memories that give `value` when divided by `each`."""
    return (value + 0.5) * each


def off(estimate: int, value: int, each: int) -> float:
    return estimate / middle(value, each) - 1


@pytest.mark.parametrize(
    ("name", "connections"),
    [
        ("db.m7g.large", 832),
        ("db.t4g.small", 181),
        ("db.m5.large", 823),
        ("db.m6g.xlarge", 1705),
        ("db.r6g.large", 1697),
        ("db.m5.2xlarge", 3429),
        ("db.m6gd.2xlarge", 3449),
    ],
)
def test_the_line_is_within_its_tolerance_of_every_modern_class(
    name: str, connections: int
) -> None:
    """The reference: at most 1.1 % off from 2 GiB up, 1.12 % with m5.large's two decimals."""
    found = class_memory(instance_class(name))
    assert abs(off(found.value, connections, POSTGRES_EACH)) < 0.0115
    assert found.low <= middle(connections, POSTGRES_EACH) <= found.high
    assert not found.measured
    assert not found.extrapolated


def test_the_line_falls_8_9_percent_short_at_1_gib_so_that_the_reading_is_used() -> None:
    """79 connections bound it to 718.1 to 727.2 MiB; the line would give 661."""
    found = class_memory(instance_class("db.t4g.micro"))
    assert found.value == 722 * MiB
    assert found.value // POSTGRES_EACH == 79


@pytest.mark.parametrize(
    ("name", "connections"), [("db.t2.micro", 87), ("db.m3.medium", 392), ("db.m3.large", 801)]
)
def test_old_classes_lie_within_their_bounds_too(name: str, connections: int) -> None:
    """At 8 GiB and less the modern line is 3 to 17 % short of them; the older one 3 % at most."""
    found = class_memory(instance_class(name))
    assert abs(off(found.value, connections, POSTGRES_EACH)) < 0.03
    assert found.low <= middle(connections, POSTGRES_EACH) <= found.high


@pytest.mark.parametrize(
    ("name", "connections"),
    [
        ("db.t4g.medium", 405),
        ("db.t3.medium", 420),
        ("db.t3.large", 844),
        ("db.t4g.large", 844),
        ("db.r6g.large", 1722),
        ("db.r6g.xlarge", 3479),
        ("db.x2g.large", 3479),
    ],
)
def test_aurora_comes_out_exactly_as_awss_own_table(name: str, connections: int) -> None:
    found = class_memory(instance_class(name), AURORA)
    assert found.value // POSTGRES_EACH == connections


@pytest.mark.parametrize(
    ("gib", "connections", "tolerance"),
    [
        (1, 66, 0.033),
        (2, 150, 0.0155),
        (3.75, 296, 0.011),
        (4, 312, 0.011),
        (7.5, 609, 0.01),
        (8, 648, 0.01),
        (15, 1237, 0.01),
        (15.25, 1258, 0.01),
        (16, 1320, 0.01),
        (17.1, 1412, 0.01),
        (30, 2492, 0.01),
        (30.5, 2540, 0.01),
    ],
)
def test_the_older_line_is_within_its_tolerance_of_mysql_in_2015(
    gib: float, connections: int, tolerance: float
) -> None:
    """The reference: 1 % above 2 GiB, 1.3 % at 2, 3 % at 1, to the nearer edge of the interval."""
    found = XEN.memory(Bytes(int(gib * GiB)))
    assert abs(off(found, connections, MYSQL_EACH)) < tolerance


@pytest.mark.parametrize(
    ("gib", "connections"),
    [(1.7, 125), (7.5, 623), (15, 1263), (17.1, 1441), (34.2, 2900), (68.4, 5816)],
)
def test_a_line_of_another_era_fits_mysql_in_2012(gib: float, connections: int) -> None:
    """The reference: 204 MiB and 0.05 %, within 3 %. The coefficients change, the shape stays."""
    era = Fit(Bytes(204 * MiB), Fraction(5, 10_000), "RDS for MySQL 2012")
    found = era.memory(Bytes(int(gib * GiB)))
    assert abs(off(found, connections, MYSQL_EACH)) < 0.03


def test_the_figures_of_2013_come_out_as_they_were_noted() -> None:
    """604 on m1.large; 924 MB, about 74 MB and a little over 10 GB on m1.xlarge."""
    large = {"DBInstanceClassMemory": int(class_memory(instance_class("db.m1.large")).value)}
    xlarge = {"DBInstanceClassMemory": int(class_memory(instance_class("db.m1.xlarge")).value)}
    assert parse("{DBInstanceClassMemory/12582880}").evaluate(large) == 604
    assert parse("{DBInstanceClassMemory/16384}").evaluate(xlarge) == 924 * KiB
    assert 73.5 < parse("{DBInstanceClassMemory/204800}").evaluate(xlarge) / KiB < 74.5
    pages = parse("{DBInstanceClassMemory*75/819200}").evaluate(xlarge)
    assert 10 * GiB < pages * 8192 < 11 * GiB


def test_by_hand_8_gib_less_326_mib_and_its_share() -> None:
    """8192 - 326 - 0.0362 x 8192 = 7569.45 MiB, and 2 % of that either way is 151.4 MiB."""
    found = class_memory(instance_class("db.m7g.large"))
    assert found.value / MiB == pytest.approx(7569.45, abs=0.01)
    assert found.low / MiB == pytest.approx(7418.06, abs=0.01)
    assert found.high / MiB == pytest.approx(7720.84, abs=0.01)


def test_above_32_gib_the_line_is_an_extrapolation_and_says_so() -> None:
    assert not class_memory(instance_class("db.r6g.xlarge")).extrapolated
    found = class_memory(instance_class("db.r6g.2xlarge"))
    assert found.extrapolated
    assert "extrapolated above 32 GiB" in found.source


def test_an_estimate_is_never_above_the_machines_memory() -> None:
    for known in all_classes().values():
        for engine in (POSTGRES, AURORA):
            found = class_memory(known, engine)
            assert 0 < found.low < found.value < found.high <= known.memory


def test_an_estimate_reads_as_a_sentence_with_its_uncertainty() -> None:
    assert str(class_memory(instance_class("db.t4g.micro"))) == (
        "722 MB, estimated (708 MB to 736 MB)"
    )
    assert str(given(Bytes(15 * GiB))) == "15 GB, as given"


# Calibration. A memory of 8,000,000,000 bytes gives, by hand:
#   effective_cache_size 8e9 / 16384 = 488281.25, shared_buffers 244140.6, connections 839.3
LIVE = {"effective_cache_size": 488281, "shared_buffers": 244140, "max_connections": 839}


def alone(name: str, value: int | None = None) -> Estimate:
    return calibrated({name: LIVE[name] if value is None else value}, DEFAULTS)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("effective_cache_size", 16 * KiB),
        ("shared_buffers", 32 * KiB),
        ("max_connections", 9531392),
    ],
)
def test_each_default_bounds_the_memory_to_its_divisor(name: str, width: int) -> None:
    found = alone(name)
    assert found.measured
    assert found.high - found.low + 1 == width
    assert found.low == LIVE[name] * width
    assert found.low <= 8_000_000_000 <= found.high


def test_604_under_mysqls_default_is_7248_to_7260_mib() -> None:
    """604 x 12582880 = 7,600,059,520 bytes, which is 7,248 MiB less a little."""
    found = calibrated(
        {"max_connections": 604}, {"max_connections": "{DBInstanceClassMemory/12582880}"}
    )
    assert round(found.low / MiB) == 7248
    assert round(found.high / MiB) == 7260


def test_all_together_the_narrowest_interval_wins() -> None:
    found = calibrated(LIVE, DEFAULTS)
    assert found.low == 488281 * 16384
    assert found.high - found.low + 1 == 16 * KiB
    assert found.notes == ()


def test_a_setting_that_somebody_changed_is_outvoted_and_named() -> None:
    found = calibrated(LIVE | {"shared_buffers": 131072}, DEFAULTS)
    assert found.low == 488281 * 16384
    assert found.notes == (
        "shared_buffers = 131072 by {DBInstanceClassMemory/32768} contradicts that",
    )


def test_the_cap_on_connections_tells_nothing() -> None:
    found = calibrated(LIVE | {"max_connections": 5000}, DEFAULTS)
    assert found.low == 488281 * 16384
    assert found.notes[0].startswith("max_connections = 5000 reveals nothing")
    with pytest.raises(BadValue, match="no setting reveals"):
        alone("max_connections", 5000)


def test_two_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(BadValue) as caught:
        calibrated({"shared_buffers": 131072, "max_connections": 839}, DEFAULTS)
    assert "contradict one another" in caught.value.message
    assert "shared_buffers = 131072 by {DBInstanceClassMemory/32768} means 4 GB" in (
        caught.value.message
    )


def test_the_class_decides_between_two_that_contradict_each_other() -> None:
    """8e9 bytes are 7,629 MiB: within 2 % of the 7,569 MiB of an 8 GiB class."""
    within = class_memory(instance_class("db.m7g.large"))
    found = calibrated({"shared_buffers": 131072, "max_connections": 839}, DEFAULTS, within=within)
    assert found.low == 839 * POSTGRES_EACH
    assert "outside 7.24 GB to 7.54 GB of the class: it was set explicitly" in found.notes[0]


def test_settings_that_all_lie_outside_the_class_are_refused() -> None:
    within = class_memory(instance_class("db.r6g.16xlarge"))
    with pytest.raises(BadValue) as caught:
        calibrated(LIVE, DEFAULTS, within=within)
    assert "it was set explicitly" in str(caught.value.hint)


def test_auroras_defaults_with_a_subtraction_are_turned_round_too() -> None:
    """8e9 / 12038 = 664562.2, less 50003 is 614559; so 664562 x 12038, or up to 12037 more."""
    formula = parse("SUM({DBInstanceClassMemory/12038},-50003)")
    assert implied(formula, 614559, {}) == (664562 * 12038, 664562 * 12038 + 12037)


def test_a_floor_bounds_the_memory_from_above_and_a_value_that_never_comes_tells_nothing() -> None:
    assert implied(parse("GREATEST({DBInstanceClassMemory/64371566592},3)"), 3, {}) == (
        0,
        4 * 64371566592 - 1,
    )
    assert implied(parse("{DBInstanceClassMemory*10}"), 15, {}) is None


def test_nothing_to_go_by_is_said() -> None:
    with pytest.raises(BadValue) as caught:
        calibrated({}, DEFAULTS)
    assert "was given" in str(caught.value.hint)


def test_a_running_server_with_the_defaults_of_1_gib_tells_1_gib(new_cluster: NewCluster) -> None:
    """2^30 / 32768 = 32768 pages, / 16384 = 65536 pages, / 9531392 = 112 connections."""
    settings = {"shared_buffers": 32768, "effective_cache_size": 65536, "max_connections": 112}
    cluster = new_cluster(17, settings)
    found = of_instance(cluster.dsn())
    assert (found.low, found.high) == (1 * GiB, 1 * GiB + 16 * KiB - 1)
    assert found.notes == (
        "the server shows no rds.* settings: on other servers these formulas do not apply",
    )


def test_a_running_server_with_postgresqls_own_defaults_is_refused(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(17, {"shared_buffers": "128MB", "effective_cache_size": "4GB"})
    with pytest.raises(BadValue, match="contradict one another"):
        of_instance(cluster.dsn())
