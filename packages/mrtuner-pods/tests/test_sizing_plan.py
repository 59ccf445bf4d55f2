"""A plan keeps what it says, by simulations with the test's own seeds and by hand."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, Final

import pytest

from json_schemas import assert_valid
from mrtuner.errors import BadValue, Refused
from mrtuner_pods.planning import Plan, plan
from mrtuner_pods.planning.fewest_pods import first_that_keeps
from mrtuner_pods.planning.model import p95_of
from mrtuner_pods.planning.runs import grows
from mrtuner_pods.planning.storm import storm
from mrtuner_pods.waiting.queues import Layout, quantile, settled, waits
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals
from mrtuner_pods.waiting.stages import RequestStage, Site, Work, simulate

USUAL: Final[dict[str, Any]] = {"rate": "400/s", "service_time": "27ms", "wait_p95": "20ms"}
PUMA: Final[dict[str, Any]] = {
    "server": "puma", "cpu_time": "9ms", "database_time": "12ms", "database_cpus": 8,
    "logins": "20/s", "max_connections": 40, "now": "8x2x3", "master_memory": "200MB",
    "worker_memory": "150MB",
}  # fmt: skip


@cache
def usual() -> Plan:
    return plan(**USUAL, now="4x2")


@cache
def puma() -> Plan:
    return plan(**USUAL, **PUMA)


def waited(layout: Layout, *, rate: float = 400, count: int = 200_000) -> float:
    """p95 wait [s] for the usual times, with another seed than the plan's."""
    chance = Random(2026)
    arriving = arrivals(rate, count, chance)
    times = Times(mean=0.027).draw(chance, count)
    return quantile(settled(waits(arriving, times, layout, Routing.RANDOM, chance)), 0.95)


def test_what_is_planned_keeps_the_target_and_one_pod_less_does_not() -> None:
    """With one pod fewer the wait is too long, or the loss of a pod makes the rest 90 % busy."""
    for one in usual().alternatives:
        layout = one.layout
        assert waited(layout) <= 0.020 * 1.1
        fewer = Layout(pods=layout.pods - 1, workers=layout.workers)
        unsafe = 0.9 * (fewer.pods - 1) * fewer.workers <= 10.8
        assert unsafe or waited(fewer) > 0.020 * 0.9, layout


def test_the_fewest_workers_win() -> None:
    """114 pods of one worker, 19 of two: random routing gives each pod its own queue."""
    in_all = [one.layout.slots for one in usual().alternatives]
    assert in_all == sorted(in_all, reverse=True)
    assert usual().layout.slots == min(in_all)
    assert usual().met


def test_the_waiting_is_that_of_every_stage() -> None:
    """Puma, simulated again with all stages and another seed, within a tenth."""
    found, chance = puma(), Random(77)
    arriving = arrivals(400, 60_000, chance)
    times = Times(mean=0.027).draw(chance, 60_000)
    site = Site(layout=found.layout, database=8)
    again = simulate(arriving, times, site, Work(cpu=9 / 27, database=12 / 27), chance)
    assert quantile(settled(again.total), 0.95) == pytest.approx(found.waiting.p95, rel=0.1)


def test_the_binding_stage_is_the_fullest() -> None:
    """By hand: 8 CPUs / 12 ms = 667/s, 60 % of which is asked for; slots are less busy."""
    stages = {one.stage: one for one in puma().stages}
    assert stages[RequestStage.DATABASE].capacity == pytest.approx(8 / 0.012)
    assert stages[RequestStage.DATABASE].busy == pytest.approx(0.6)
    slots = puma().layout.slots
    assert stages[RequestStage.WORKER].capacity == pytest.approx(slots / 0.027)
    lock = puma().layout.pods * puma().layout.workers / 0.009
    assert stages[RequestStage.LOCK].capacity == pytest.approx(lock)
    assert puma().binding is RequestStage.DATABASE
    assert usual().binding is RequestStage.WORKER


def test_a_load_that_is_exactly_the_capacity_is_unstable() -> None:
    """400/s x 20 ms keep 8 workers busy: nine are needed, and no wait is given."""
    with pytest.raises(Refused) as refused:
        plan(rate="400/s", service_time="20ms", pods=2, workers=4)
    assert "unstable" in refused.value.message
    assert refused.value.message.endswith("there are 8: needs 9")
    assert "9 or more" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        ({"database_time": "12ms", "database_cpus": 4}, "there are 4: needs 5"),
        ({"database_time": "12ms", "pooler": 3}, "there are 3: needs 5"),
        ({"pods": 1, "workers": 10}, "there are 10: needs 11"),
    ],
)
def test_a_stage_that_is_too_small_is_named_with_what_it_needs(
    given: dict[str, Any], needs: str
) -> None:
    with pytest.raises(Refused, match="unstable: 400/s") as refused:
        plan(**USUAL, **given)
    assert refused.value.message.endswith(needs)
    assert refused.value.exit_code == 4


def test_what_runs_now_may_be_unstable_and_says_what_it_needs() -> None:
    now = usual().now
    assert now is not None
    assert (now.p95, now.needs) == (None, 11)


def test_no_number_of_pods_helps_where_the_database_waits() -> None:
    with pytest.raises(Refused, match="no number of pods") as refused:
        plan(**USUAL, database_time="12ms", database_cpus=5)
    assert "plenty of workers" in refused.value.message


def test_seconds_are_written_out_in_messages() -> None:
    """1 s on the CPU and 2.5 s in the database, of 2 s."""
    with pytest.raises(BadValue) as refused:
        plan(rate="1/s", service_time="2s", cpu_time="1s", database_time="2.5s")
    assert refused.value.message == (
        "1,000 ms of CPU and 2,500 ms in the database are more than the service time of 2,000 ms"
    )


@pytest.mark.usefixtures("short_simulations")
def test_a_target_that_is_missed_by_given_pods_is_told_not_refused() -> None:
    found = plan(**USUAL, pods=3, workers=4)
    assert not found.met
    assert found.layout == Layout(pods=3, workers=4)
    assert found.waiting.p95 > 0.020


def test_the_request_is_above_the_mean_and_below_what_workers_can_use() -> None:
    """Mean by hand: 10.8 CPUs over the pods; its p95 over seconds is near a normal law's."""
    cpu, layout = usual().cpu, usual().layout
    mean = 10.8 / layout.pods
    assert cpu.mean == pytest.approx(mean)
    assert mean < cpu.request <= layout.workers
    # 400/s of exponential times with 27 ms: seconds have a deviation of about sqrt(2 λ' S²).
    deviation = (2 * 400 / layout.pods * 0.027**2) ** 0.5
    assert cpu.request == pytest.approx(mean + 1.645 * deviation, rel=0.12)


@pytest.mark.usefixtures("short_simulations")
def test_the_request_is_the_mean_where_the_simulation_has_no_whole_second() -> None:
    """30,000/s x 8 ms keep 240 CPUs busy: 7.742 in each of 31 pods, rounded up to 7.75."""
    load: dict[str, Any] = {"service_time": "8ms", "wait_p95": "8ms", "cpu_time": "8ms"}
    found = plan(rate="30000/s", pods=31, workers=8, **load)
    assert found.cpu.mean == pytest.approx(7.742, abs=0.001)
    assert found.cpu.request == 7.75
    (seen,) = (one for one in found.intervals if one.figure == "cpu.request")
    assert (seen.low, seen.high) == (7.75, 7.75)
    assert any("too few seconds for a p95 of the CPU use" in note for note in found.notes)
    assert not any("too few seconds" in note for note in usual().notes)


def test_a_limit_adds_little_waiting_and_less_would_add_more() -> None:
    found = usual()
    assert found.cpu.limit is not None
    chance = Random(5)
    arriving = arrivals(400, 60_000, chance)
    times = Times(mean=0.027).draw(chance, 60_000)

    def limited(quota: float | None) -> float:
        site = Site(layout=found.layout, quota=quota)
        return quantile(settled(simulate(arriving, times, site, Work(), Random(1)).total), 0.95)

    assert limited(found.cpu.limit) <= limited(None) + 0.1 * 0.020 + 0.002
    assert limited(found.cpu.limit - 0.75) > limited(found.cpu.limit) + 0.002


@pytest.mark.usefixtures("short_simulations")
def test_no_limit_where_any_would_stop_the_pod_too_often() -> None:
    """Twelve workers, 10.8 needed: with less than all CPUs they can use they are unstable."""
    found = plan(**USUAL, pods=3, workers=4)
    assert found.cpu.limit is None
    assert "at most 4 CPUs" in found.cpu.because


def test_memory_is_the_master_and_its_workers() -> None:
    assert puma().memory == (200 + puma().layout.workers * 150) * 2**20
    assert usual().memory is None


def test_connections_are_one_for_each_thread_twice_while_rolled_out() -> None:
    found = puma().connections
    assert found.pool == puma().layout.threads == 3
    assert found.reached == puma().layout.slots
    assert found.rollout == 2 * puma().layout.slots
    # Held from the first statement to the end: all but the first half of 9 ms on the CPU.
    assert found.expected == pytest.approx(400 * (0.027 - 0.0045))
    # 4.8 statements at once: more servers than that, far fewer than connections.
    assert 5 < (found.server_connections or 0) < 24
    assert any("transaction pooler" in text for text in puma().advice)


def test_the_other_routing_is_advised_where_it_is_worth_more() -> None:
    """The research, for 4 x 2: two choices wait a third of random's, density alone a sixth."""
    found = plan(rate="207.4/s", service_time="27ms", wait_p95="20ms", now="4x2")
    assert found.now is not None
    assert found.now.p95 == pytest.approx(4.11 * 0.027, rel=0.06)
    one_pod = p95_of(found.curve, Routing.RANDOM, 8)
    assert one_pod == pytest.approx(0.69 * 0.027, rel=0.1)
    least = p95_of(found.curve, Routing.LEAST_CONNECTIONS, 2)
    assert least == pytest.approx(1.03 * 0.027, rel=0.1)
    assert "Density matters more than routing" in found.advice[0]
    usual_advice = plan(**USUAL, now="8x2").advice[0]
    assert usual_advice.startswith("Change the routing before the density: least connections")


def test_a_storm_by_hand() -> None:
    """100 connections at 10 a second: back after 10 s. Half load has caught up then; 80 % later.

    At 80 %: after 8 s the capacity is the load, with 80 x 8 / 2 = 320 waiting. After 10 s
    80 x 10 - 100 x 10 / 2 = 300 wait, and go at 20/s: 15 s more.
    """
    half = storm(connections=100, logins=10, rate=50, capacity=100)
    assert (half.back, half.backlog, half.caught_up) == (10, 125, 10)
    busy = storm(connections=100, logins=10, rate=80, capacity=100)
    assert [busy.back, busy.backlog, busy.caught_up] == pytest.approx([10, 320, 25])


@pytest.mark.usefixtures("short_simulations")
def test_a_storm_reconnects_what_the_database_sees() -> None:
    found = plan(**USUAL, logins="20/s")
    assert found.storm is not None
    assert found.storm.connections == found.layout.slots
    pooled = plan(**USUAL, database_time="12ms", pooler=12, logins="20/s").storm
    assert pooled is not None
    assert pooled.connections == 12
    assert pooled.back == pytest.approx(0.6)


@pytest.mark.usefixtures("short_simulations")
def test_the_same_question_has_the_same_answer_and_another_seed_a_like_one() -> None:
    one, again, other = (plan(**USUAL, now="4x2", seed=seed) for seed in (1, 1, 2))
    assert again.to_dict() == one.to_dict()
    assert other.layout.slots == pytest.approx(one.layout.slots, rel=0.4)
    assert other.curve != one.curve


@pytest.mark.usefixtures("short_simulations")
def test_measured_times_take_the_place_of_a_mean() -> None:
    """Half 10 ms, half 44 ms: the mean is 27 ms, c = 0.63; they wait less than exponential ones."""
    samples = [0.010, 0.044] * 500
    found = plan(samples, rate="400/s", wait_p95="20ms")
    assert found.question.service.variation == pytest.approx(17 / 27)
    assert found.layout.slots <= plan(**USUAL).layout.slots
    assert not any("exponential" in note for note in found.notes)


@pytest.mark.usefixtures("short_simulations")
def test_threads_are_those_that_keep_the_lock_busy() -> None:
    """A third of the time on the CPU: three threads. Little: five, no more. All of it: one."""
    for cpu_time, threads in (("9ms", 3), ("2ms", 5), (None, 1)):
        assert plan(**USUAL, server="puma", cpu_time=cpu_time).layout.threads == threads


@pytest.mark.usefixtures("short_simulations")
def test_gthread_is_planned_as_it_is_configured_and_compared_with_its_default() -> None:
    """With worker_connections = threads no request waits beside an idle worker of its pod."""
    asked = USUAL | {"cpu_time": "1ms", "now": "2x4x2", "pods": 2, "workers": 4}
    busy = plan(**asked, threads=2, server="gthread")
    assert busy.now
    assert (busy.now.p95 or 0) > 2 * busy.waiting.p95 > 0
    (advice,) = (text for text in busy.advice if "worker_connections" in text)
    assert f"wait {(busy.now.p95 or 0) * 1000:.3g} ms at p95, if the load is even" in advice
    assert any("race to accept" in note for note in busy.notes)


@pytest.mark.usefixtures("short_simulations")
def test_puma_is_planned_as_its_version_accepts() -> None:
    """Puma 6: one queue per pod, compared with its default; Puma 7: one per worker."""
    asked = USUAL | {"cpu_time": "1ms", "now": "2x4x2", "pods": 2, "workers": 4, "threads": 2}
    before, since = (plan(**asked, server=server) for server in ("puma-6", "puma"))
    assert before.now
    assert since.now
    assert (before.now.p95 or 0) > before.waiting.p95 + 0.002
    (advice,) = (text for text in before.advice if "wait_for_less_busy_worker" in text)
    assert "up to 5 ms late" in advice
    assert since.waiting.p95 > 1.2 * before.waiting.p95
    assert since.now.p95 == pytest.approx(since.waiting.p95, rel=0.2)
    assert any("puma-6" in note for note in since.notes)
    assert not any("puma-6" in note for note in before.notes)
    assert any("another one of the pod" in doubt for doubt in since.screen.doubts)


@pytest.mark.usefixtures("short_simulations")
def test_one_process_has_its_density_in_threads() -> None:
    found = plan(**USUAL, server="jvm", cpu_time="5ms", database_time="20ms")
    assert {one.layout.workers for one in found.alternatives} == {1}
    assert found.layout.threads > 1
    assert {point.layout.slots for point in found.curve} == {found.layout.slots}


@pytest.mark.usefixtures("short_simulations")
@pytest.mark.parametrize(("bursts", "servers"), [(1, 9), (2, 10)])
def test_bursts_need_a_larger_pooler(bursts: float, servers: int) -> None:
    """Erlang C of 9 servers and 4.8 statements of 12 ms: 6.5 % wait, p95 0.75 ms for c = 1.

    Allen and Cunneen: (4 + 1) / 2 times that for c = 2, 1.88 ms. Of 10, 2.8 % wait: p95 is 0.
    A twentieth of the target, 27 ms, is allowed.
    """
    found = plan(rate="400/s", service_time="27ms", database_time="12ms", bursts=bursts,
                 wait_p95="27ms", pods=6, workers=8)  # fmt: skip
    assert found.connections.server_connections == servers


@pytest.mark.usefixtures("short_simulations")
@pytest.mark.parametrize(("pods", "threads"), [(3, 8), (2, 70)])
def test_the_plan_of_one_process_is_on_its_curve(pods: int, threads: int) -> None:
    found = plan(**USUAL, server="jvm", cpu_time="5ms", pods=pods, threads=threads)
    assert (pods, threads) in {(one.layout.pods, one.layout.threads) for one in found.curve}


@pytest.mark.usefixtures("short_simulations")
def test_a_load_of_one_request_an_hour_is_planned() -> None:
    found = plan(rate="1/h", service_time="200ms")
    assert found.layout.pods == 2
    assert found.cpu.request == 0.05


def test_the_document_is_as_its_schema_says() -> None:
    for found in (usual(), puma()):
        assert_valid(found.to_dict(), "mrtuner.pods.plan/1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": "400"}, "no unit in rate"),
        ({"rate": "0/s"}, "not above zero"),
        ({"rate": "-4/s"}, "cannot read"),
        ({"rate": "1e3/s"}, "cannot read"),
        ({"rate": "2000000/s"}, "too high"),
        ({"rate": None}, "no rate is given"),
        ({"service_time": "27"}, "no unit in service_time"),
        ({"service_time": "0ms"}, "not above zero"),
        ({"service_time": "-27ms"}, "cannot read"),
        ({"service_time": "3h"}, "too long"),
        ({"service_time": None}, "no service time is given"),
        ({"wait_p95": "20"}, "no unit in wait_p95"),
        ({"variation": -1}, "not a number from 0 to 20"),
        ({"variation": float("nan")}, "not a number"),
        ({"bursts": 50}, "not a number from 0 to 20"),
        ({"routing": "sticky"}, "routing cannot be 'sticky'"),
        ({"server": "apache"}, "server cannot be 'apache'"),
        ({"server": "uvicorn"}, "uvicorn takes any number of requests at once"),
        ({"cpu_time": "20ms", "database_time": "12ms"}, "more than the service time"),
        ({"threads": 5}, "one thread in a worker"),
        ({"server": "jvm", "workers": 4}, "one process per pod"),
        ({"now": "4"}, "cannot read now"),
        ({"now": "0x2"}, "out of range"),
        ({"pods": 0}, "out of range"),
        ({"workers": 1000}, "out of range"),
        ({"database_cpus": 4}, "no time in it"),
        ({"pooler": 4}, "no time in the database"),
        ({"master_memory": "100MB"}, "needs that of its workers"),
        ({"pod_memory": "1GB"}, "not what a worker takes of it"),
        ({"worker_memory": "100m", "master_memory": "1"}, "no unit in size"),
        ({"rate": "900000/s"}, "more than the 1,000 that can be simulated"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_hint(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadValue) as refused:
        plan(**(USUAL | changes))
    assert message in refused.value.message
    assert (refused.value.hint or "").endswith(".")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([0.01] * 100, "100 measured times are too few"),
        ([0.01] * 300 + [0.0], "not above zero"),
        ([0.01] * 300 + [float("nan")], "not above zero"),
    ],
)
def test_measured_times_that_tell_nothing_are_refused(samples: list[float], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        plan(samples, rate="400/s")
    with pytest.raises(BadValue, match="both given"):
        plan([0.01] * 300, rate="400/s", service_time="27ms")


@pytest.mark.parametrize("first", [3, 4, 7, 50, 64])
def test_the_first_number_that_keeps_is_found(first: int) -> None:
    asked: list[int] = []

    def keeps(number: int) -> bool:
        asked.append(number)
        return number >= first

    assert first_that_keeps(keeps, 3, 64) == first
    assert len(asked) == len(set(asked)) <= 14


def test_none_is_found_where_none_keeps() -> None:
    assert first_that_keeps(lambda _: False, 3, 64) is None


def test_a_queue_that_grows_is_told_from_a_long_one() -> None:
    assert grows([number / 100 for number in range(1000)], 0.1)
    assert not grows([5.0 + number % 7 for number in range(1000)], 0.1)
