"""When a trial is stopped and when it wins; what is searched and where: worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search_surface import ADVICE, SERVER, all_binds

from mrtuner.answers.settings_search.own_server import costs
from mrtuner.catalog.load import parameters
from mrtuner.errors import BadValue, UsageError
from mrtuner.search.model import BindingEvidence
from mrtuner.search.optimiser import Optimiser
from mrtuner.search.race import Raced, harm, lost, outcome, stop
from mrtuner.search.schedule import TimedRace, forecast, pair_seconds, room, schedule
from mrtuner.search.space import MOST, Server, choose, dimensions
from mrtuner.tuning import tune


def raced(*ratios: float, **more: object) -> Raced:
    return Raced(pairs=[(100.0, 100.0 * one) for one in ratios], **more)  # type: ignore[arg-type]


def test_a_trial_is_stopped_once_its_upper_bound_is_below_minus_five_percent() -> None:
    """ln 0.90, 0.88, 0.89: mean -0.1166, sd 0.0112, t(0.95, 2) = 2.920: upper -0.0977 = 0.907."""
    assert stop(raced(0.90, 0.88)) is None, "two pairs are too few"
    assert stop(raced(0.90, 0.88, 0.89)) == "it is over 5% slower, by the upper 95 % bound"


def test_a_trial_that_may_be_within_five_percent_goes_on() -> None:
    """ln 0.80, 0.95, 0.90: mean -0.1266, sd 0.0881: upper -0.1266 + 0.1485 = 1.02."""
    assert stop(raced(0.80, 0.95, 0.90)) is None


def test_faster_statements_are_no_win_if_fewer_of_them_ran() -> None:
    """ln 0.90, 0.91, 0.89: mean -0.1054, sd 0.0111, t(0.95, 2) = 2.920: upper -0.087, below 0."""
    fewer = [(10.0, 9.0), (10.0, 9.1), (10.0, 8.9)]
    assert outcome(raced(1.10, 1.11, 1.12), 3)[0] == "better"
    said = outcome(raced(1.10, 1.11, 1.12, throughputs=fewer), 3)
    assert said == ("not better", "its throughput was surely lower, at 90%")
    about = [(10.0, 9.0), (10.0, 9.9), (10.0, 10.5)]
    assert outcome(raced(1.10, 1.11, 1.12, throughputs=about), 3)[0] == "better"


def test_one_pair_at_less_than_a_fifth_stops_a_trial_and_two_at_less_than_half() -> None:
    assert stop(raced(0.19)) == "it fell to 19% of what it raced"
    assert stop(raced(0.21)) is None, "a pair may be disturbed"
    assert stop(raced(0.48, 1.0)) is None
    assert stop(raced(0.48, 1.0, 0.49)) == "it fell to 48% of what it raced"


def test_a_trial_that_loses_its_first_pairs_is_given_up_without_harm() -> None:
    assert lost(raced(0.99)) is None
    assert outcome(raced(0.99, 0.98), 4) == ("not better", "it was slower in each of 2 pairs")
    assert lost(raced(0.99, 1.01)) is None


def test_a_confirmation_that_does_harm_confirms_nothing() -> None:
    """Three times the p99: sqrt(3 * 3) = 3; twice and once: sqrt(2) = 1.41."""
    thrice = [(1000.0, 3000.0), (1000.0, 3000.0)]
    assert harm(raced(1.15, 1.15, slowest=thrice)) == (
        "its p99 latency was 3 times that of what it raced",
    )
    assert harm(raced(1.15, 1.15, slowest=[(1000.0, 2000.0), (1000.0, 1000.0)])) == ()
    assert len(harm(raced(1.15, 1.15, slowest=[(1000.0, 3000.0)]))) == 1, "all runs together"
    assert harm(raced(1.15, 1.15, failed=(0.0, 0.05))) == ("5.0% of its transactions failed",)


def test_failed_transactions_stop_a_trial() -> None:
    assert stop(raced(1.0, failed=(0.0, 0.002))) == "0.2% of its transactions failed"
    assert stop(raced(1.0, failed=(0.002, 0.002))) is None, "the best so far has as many"


def test_a_slow_tail_stops_a_trial_the_second_time() -> None:
    once = [(1000.0, 1600.0), (1000.0, 1400.0)]
    assert stop(raced(1.0, 1.0, slowest=once)) is None
    twice = [(1000.0, 1600.0), (1000.0, 1501.0)]
    assert "p99 latency was over 1.5 times" in str(stop(raced(1.0, 1.0, slowest=twice)))


def test_a_trial_wins_by_its_lower_bound_and_not_by_its_mean() -> None:
    """ln 1.10, 1.08, 1.09, 1.11: mean 0.0907, sd 0.0119, t(0.90, 3) = 1.638: lower 0.081.

    ln 1.20, 0.95, 1.05, 1.02: mean 0.0500, sd 0.0981: lower -0.030.
    """
    assert outcome(raced(1.10, 1.08, 1.09, 1.11), 4)[0] == "better"
    assert outcome(raced(1.20, 0.95, 1.05, 1.02), 4)[0] == "not better"
    assert outcome(raced(1.5, 1.5), 4) == ("not better", "2 of 4 pairs could be compared")


def test_what_is_not_seen_is_not_searched_and_the_reason_is_its_number() -> None:
    seen = [
        BindingEvidence(mechanism="WAL flushes", meaning="", value=0.4, least=0.1),
        BindingEvidence(mechanism="data reads", meaning="", value=0.01, least=0.05),
        BindingEvidence(mechanism="temporary files", meaning="", value=None, least=1.0),
    ]
    searched, left_out = choose(seen, SERVER, ADVICE, ())
    assert [one.name for one in searched] == ["commit_delay"]
    why = {one.name: one.why for one in left_out}
    assert why["shared_buffers"] == "data reads: 0.01, below 0.05"
    assert why["work_mem"] == (
        "temporary files: could not be seen; long transactions: could not be seen"
    )
    assert why["fsync"] == "it risks data"
    assert why["autovacuum"].startswith("the harm comes later")


def test_a_setting_with_two_mechanisms_is_searched_for_the_one_that_binds() -> None:
    """Hash tables beyond the CPU's caches cost time without a temporary file."""
    seen = [
        BindingEvidence(mechanism="temporary files", meaning="", value=0.0, least=1.0),
        BindingEvidence(mechanism="long transactions", meaning="", value=1860.0, least=20.0),
    ]
    searched, _ = choose(seen, SERVER, ADVICE, ())
    assert {one.name: one.mechanism for one in searched}["work_mem"] == "long transactions"
    assert "hash_mem_multiplier" not in {one.name for one in searched}


def test_never_more_settings_than_a_search_can_tell_apart() -> None:
    searched, left_out = choose(list(all_binds()), SERVER, ADVICE, ["max_wal_size"])
    assert len(searched) == MOST == 8
    assert "max_wal_size" not in {one.name for one in searched}
    assert {one.why for one in left_out if one.name == "max_wal_size"} == {"it was to be kept"}


def test_a_setting_to_keep_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadValue, match="--keep names wrok_mem"):
        SERVER.require(["work_mem", "wrok_mem"])


def test_the_box_is_a_quarter_to_four_times_the_advice() -> None:
    searched, _ = choose(list(all_binds()), SERVER, ADVICE, ())
    box = {one.name: one for one in dimensions(searched, SERVER)}
    wal, delay, reads = (
        box[name] for name in ("max_wal_size", "commit_delay", "effective_io_concurrency")
    )
    assert (wal.text(0.0), wal.text(0.5), wal.text(1.0)) == ("256MB", "1GB", "4GB")
    # commit_delay is 0 in the advice: a fifth of the range stands for it, the rest is around 300.
    assert (delay.text(0.1), delay.text(0.2), delay.text(0.6), delay.text(1.0)) == (
        "0", "75", "300", "1200",
    )  # fmt: skip
    assert (reads.text(0.0), reads.text(0.6), reads.text(1.0)) == ("0", "32", "128")
    assert box["shared_buffers"].setting.values == ("256MB", "512MB", "1GB", "2GB", "4GB")
    assert box["wal_buffers"].setting.values == ("-1", "4MB", "8MB", "16MB", "32MB", "64MB")
    assert box["wal_compression"].setting.values == ("off", "pglz"), "on is pglz"


def test_the_advice_is_among_the_values_that_need_a_restart_however_odd_it_is() -> None:
    """6026MB: a quarter is 1506.5MB, in quarters of a power of two 1536MB, and so on."""
    searched, _ = choose(list(all_binds()), SERVER, ADVICE | {"shared_buffers": "6026MB"}, ())
    (buffers,) = (one for one in searched if one.name == "shared_buffers")
    assert buffers.values == ("1536MB", "3GB", "6026MB", "12GB", "24104MB")


def test_a_place_and_its_value_lead_to_each_other() -> None:
    searched, _ = choose(list(all_binds()), SERVER, ADVICE, ())
    for one in dimensions(searched, SERVER):
        at = one.place(one.setting.advice)
        assert at is not None, one.name
        assert one.text(at) == one.setting.advice, one.name


def test_a_box_ends_at_the_bounds_of_the_parameter() -> None:
    advice = {"io_workers": "20"}  # at most 32 in 18
    searched, _ = choose(list(all_binds()), SERVER, advice, ())
    (workers,) = (one for one in searched if one.name == "io_workers")
    assert (workers.low, workers.high) == ("5", "32")


def test_the_optimiser_proposes_only_valid_values_of_the_box() -> None:
    searched, _ = choose(list(all_binds()), SERVER, ADVICE, ())
    box = {one.name: one for one in dimensions(searched, SERVER)}
    optimiser = Optimiser(list(box.values()), 1, ADVICE)
    for number in range(20):
        proposal = optimiser.ask()
        assert proposal.settings.keys() == {one.name for one in searched}
        for name, text in proposal.settings.items():
            SERVER.parameters[name].parse(text)
        optimiser.tell(proposal, None if number % 5 == 0 else number / 100)
    held = optimiser.ask({"shared_buffers": "2GB", "wal_buffers": "5MB"}).settings
    assert held["shared_buffers"] == "2GB"
    assert held["wal_buffers"] in box["wal_buffers"].setting.values, "5MB is not in the box"


def test_a_restart_is_needed_only_between_sides_that_differ_in_what_needs_one() -> None:
    assert not SERVER.restarts(ADVICE, ADVICE | {"commit_delay": "100"})
    assert SERVER.restarts(ADVICE, ADVICE | {"wal_buffers": "4MB"})
    assert not SERVER.restarts({}, {"shared_buffers": "128MB"}), "it is the default"


def test_a_value_that_the_build_lacks_or_that_risks_data_is_refused() -> None:
    assert SERVER.refuses({"wal_compression": "lz4", "work_mem": "8MB", "fsync": "off"}) == [
        "wal_compression", "fsync",
    ]  # fmt: skip


def test_a_budget_becomes_lengths_and_shares() -> None:
    """30 min: half for 12 trials of 4 pairs, 9.4 s a run: 1 s besides, 2 s warm-up, 6 s of load.

    A pair takes 18 s: 900 s less 54 s of noise and 216 s of baselines are 8 trials of 72 s.
    """
    planned = schedule(1800)
    assert (planned.window, planned.warmup, planned.pairs) == (6, 2, 4)
    assert planned.search + planned.confirmation + planned.ablation + planned.reduced == 1
    assert forecast(planned)[0] == (
        "30 min in all, after filling and 54 s of load or more; a run measures 6 s, after 2 s of "
        "warm-up"
    )  # fmt: skip
    assert "the noise, the baselines and about 8 trials, each of 4 pairs" in forecast(planned)[1]
    assert schedule(1200).window == 4, "20 min, the default: 6.25 s a run, less 1 s and 1 s"


def test_a_run_is_long_enough_for_a_p99_or_the_rate_is_refused() -> None:
    """1,000 transactions and four times their root, 126, at 60 a second take 19 s.

    They arrive at random. Nine pairs of 40 s are 360 s.
    """
    assert schedule(1200, rate=60).window == 19
    assert schedule(1200, rate=5000).window == 4
    with pytest.raises(UsageError, match="20 s has no room for runs of 19 s") as refused:
        schedule(20, rate=60)
    assert refused.value.hint == "Raise the rate, or give at least --budget 6min."
    with pytest.raises(UsageError, match="a run of 20 s at 20 transactions a second is too short"):
        schedule(1200, rate=20)


@pytest.mark.parametrize("seconds", [5.0, 100_000.0])
def test_a_budget_without_sense_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="is not between"):
        schedule(seconds)


def test_shared_buffers_is_searched_within_memory() -> None:
    """A quarter to four times 1 GB; 2 GB of memory leaves the server less than 2 GB."""
    for memory, values in (
        (None, ("256MB", "512MB", "1GB", "2GB", "4GB")),
        (2 << 30, ("256MB", "512MB", "1GB")),
    ):
        server = replace(SERVER, memory=memory)
        searched, _ = choose(list(all_binds()), server, ADVICE, ())
        ladder = next(one.values for one in searched if one.name == "shared_buffers")
        assert ladder == values


def test_a_live_server_has_longer_windows_three_in_a_pair() -> None:
    """Half of an hour for 4 trials of 4 pairs of 3 windows: 37.5 s, less 1 s and 2 s."""
    planned = schedule(3600, live=True)
    assert (planned.window, planned.warmup, planned.runs) == (34, 2, 3)
    assert schedule(300, live=True).window == 5
    with pytest.raises(UsageError, match="not between 5 min and 24 h"):
        schedule(299, live=True)


def test_a_setting_that_is_fixed_is_left_out_with_the_reason() -> None:
    server = replace(SERVER, fixed={"work_mem": "ALTER ROLE overrides it"})
    searched, left_out = choose(list(all_binds()), server, ADVICE, ())
    assert "work_mem" not in [one.name for one in searched]
    assert {one.name: one.why for one in left_out}["work_mem"] == "ALTER ROLE overrides it"


def test_recovery_takes_what_the_volume_allows() -> None:
    """4 GB at 3,000 IOPS: pages of 8 kB one by one are 23.4 MB/s, so 175 s; at best 200 MB/s."""
    tuning = tune(memory="4GB", cpus=2, iops=3000)
    seen = costs(tuning, SERVER, {"max_wal_size": "4GB"}).replay
    assert seen == "20.5 s to 2.91 min for 4 GB of WAL (max_wal_size), on a volume of 3000 IOPS"
    default = costs(tuning, SERVER, {}).replay
    assert default is not None
    assert "for 1 GB of WAL" in default, "what initdb gives"


@pytest.mark.parametrize(("major", "name"), [(18, "io_workers"), (19, "io_max_workers")])
def test_workers_are_searched_only_where_they_do_the_reading(major: int, name: str) -> None:
    server = Server(parameters=parameters(major), accepted={})
    searched, _ = choose(list(all_binds()), server, {}, ())
    assert name in {one.name for one in searched}
    _, left_out = choose(list(all_binds()), server, {"io_method": "sync"}, ())
    why = {one.name: one.why for one in left_out}[name]
    assert why == "it acts only with io_method = worker"


def test_two_names_of_one_method_of_compression_are_one_value() -> None:
    server = Server(parameters=parameters(15), accepted={})
    assert server.shown("wal_compression", "on") == "pglz"
    assert server.shown("wal_compression", "off") == "off"
    assert Server(parameters=parameters(14), accepted={}).shown("wal_compression", "on") == "on"


def test_before_anything_is_measured_a_pair_takes_its_windows_and_what_is_beside_them() -> None:
    """Budget 1 h: a window of (3600 / 2 / 48 - 1) - 2 = 34 s; a pair of three, 3 x 37 = 111 s."""
    assert pair_seconds(schedule(3600, live=True), [], restarts=False) == 111


def test_what_a_pair_takes_is_that_of_races_that_restarted_as_often() -> None:
    """Budget 20 min: runs of 4 s. Three pairs took 66 s; two that restarted, 100 s."""
    planned = schedule(1200)
    plain, restarted = TimedRace(3, 66.0, restarts=False), TimedRace(2, 100.0, restarts=True)
    assert pair_seconds(planned, [plain, restarted], restarts=False) == 22
    assert pair_seconds(planned, [plain, restarted], restarts=True) == 50
    assert pair_seconds(planned, [plain], restarts=True) == 44, "twice as long, so far as is known"
    assert pair_seconds(planned, [TimedRace(3, 12.0, restarts=False)], restarts=False) == 8


def test_slow_pairs_leave_room_for_fewer() -> None:
    """20 min, pairs of 22 s: 600 - 66 s for trials of 88 s, less two baselines of three pairs, each
    twice as long: 534 - 264 s; 300 s for fresh pairs.
    """
    assert room(schedule(1200), 22) == (3, 13)
