"""The finding of the field notes comes out of the metrics alone."""

from __future__ import annotations

import pytest

from mrtuner.limits import CeilingKind, Limits, Resource, limits
from mrtuner.limits.examples.week import CLASS, STORAGE, as_csv, example, simulated_week


@pytest.fixture(scope="module")
def told() -> Limits:
    return limits(simulated_week(), class_name=CLASS, storage=STORAGE, what_if=["db.r5.4xlarge"])


def test_nothing_on_the_usual_dashboard_is_above_70_per_cent(told: Limits) -> None:
    assert told.needs[Resource.CPU].seen < 70


def test_the_days_are_at_213_and_the_nights_at_443(told: Limits) -> None:
    days, nights = told.pegged
    assert (days.resource, nights.resource) == (Resource.THROUGHPUT, Resource.THROUGHPUT)
    assert days.plateau.level == pytest.approx(213e6, rel=0.005)
    assert nights.plateau.level == pytest.approx(443e6, rel=0.005)


def test_both_are_limits_of_before_december_2019_and_confirmed(told: Limits) -> None:
    for one, nominal in zip(told.pegged, (212.5e6, 437.5e6), strict=True):
        assert one.ceiling is not None
        assert (one.ceiling.kind, one.ceiling.value) == (CeilingKind.FORMER, nominal)
        assert one.confirmed


def test_the_calendar_shows_when(told: Limits) -> None:
    """Working hours on weekdays; jobs at 0:30, 2:30 and 4:30 every night."""
    days, nights = (one["calendar"] for one in told.to_dict()["pegged"])
    assert all(row[12] == 60 for row in days[:5])
    assert sum(map(sum, days[5:])) == 0
    assert all(row[hour] > 10 for row in nights for hour in (0, 2, 4))
    assert all(row[hour] == 0 for row in nights for hour in (1, 3, 20))


def test_the_advice_is_to_stop_and_start_and_not_to_buy_iops(told: Limits) -> None:
    text = " ".join(told.advice)
    assert "started before December 2019" in text
    assert "now has 593.8 MB/s and 287.5 MB/s" in text
    assert "Stop and start the instance" in text
    assert (
        "Raising provisioned IOPS will not help: the instance sustains no more than 12,000 "
        "IOPS, and throughput is the tighter limit." in told.advice
    )


def test_an_r5_4xlarge_is_enough_as_it_was(told: Limits) -> None:
    """4,750 Mbps sustained are 593.75 MB/s, more than 443 x 1.25 = 553.75."""
    assert told.what_if is not None
    assert told.what_if.sufficient
    family = [one.instance.name for one in told.candidates if one.instance.family == "r5"]
    assert family == ["db.r5.4xlarge"]


def test_iops_are_not_accused(told: Limits) -> None:
    assert all(one.resource is Resource.THROUGHPUT for one in told.pegged)


def test_hidden_demand_lies_between_what_was_served_and_what_the_queue_allows(
    told: Limits,
) -> None:
    """The notes saw 325 MB/s by day once the ceiling was gone."""
    need = told.needs[Resource.THROUGHPUT]
    assert need.hidden
    assert need.at_most is not None
    assert need.at_most > 325e6
    assert need.need == pytest.approx(443e6 * 1.25, rel=0.01)


def test_without_the_metrics_of_the_queue_the_known_limits_are_still_found() -> None:
    whole = simulated_week()
    few = {name: whole.metrics[name] for name in ("ReadThroughput", "WriteThroughput")}
    bare = limits(
        type(whole)(start=whole.start, step=whole.step, metrics=few),
        class_name=CLASS,
        storage=STORAGE,
    )
    assert len(bare.pegged) == 2
    assert not any(one.confirmed for one in bare.pegged)


def test_on_a_class_that_never_had_them_the_levels_are_unknown_ceilings() -> None:
    found = limits(simulated_week(), class_name="db.r6g.4xlarge", storage=STORAGE)
    assert [one.ceiling for one in found.pegged] == [None, None]
    assert "another guest on the same host" in " ".join(found.advice)


def test_the_shipped_example_is_the_story() -> None:
    assert example() == as_csv(simulated_week())
