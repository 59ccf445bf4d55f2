"""Spread against chance, and knees: worked out by hand, and found in simulated machines."""

from __future__ import annotations

from random import Random

import pytest

from mrtuner.errors import BadValue
from mrtuner.stats.consistency import Split, chance, jain, split, spread, variation
from mrtuner.stats.knee import Knee, Point, knees


def siblings(n: int, cores: int, share: float) -> float:
    """Throughput of n workers on cores of two threads, each of which gives `share` when shared."""
    shared = min(max(0, n - cores), cores)
    return min(n, cores) - shared + 2 * share * shared


def noisy(curve: list[Point], noise: float, seed: int, repeats: int = 5) -> list[Point]:
    dealer = Random(seed)
    return [(n, x * (1 + dealer.gauss(0, noise))) for n, x in curve for _ in range(repeats)]


def places(found: tuple[Knee, ...]) -> list[int]:
    return [knee.at for knee in found]


def test_v_is_how_much_longer_the_slowest_takes() -> None:
    """A core shared evenly gives each half the speed: V = 1 / 0.5 - 1 = 100 %."""
    assert spread([40.0, 80.0, 40.0]) == 1.0
    assert spread([2.0]) == 0.0


def test_variation_and_fairness_by_hand() -> None:
    """CV of 1 and 3: 1 / 2. Jain of speeds 1 and 1/2: 1.5² / (2 x 1.25) = 0.9."""
    assert variation([1.0, 3.0]) == 0.5
    assert jain([1.0, 2.0]) == pytest.approx(0.9)
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)


def test_nine_sessions_on_eight_cores_show_two_slow_ones() -> None:
    """The test of 2017: seven sessions of 40 s, two of 60 s; the slow share is 2 (9 - 8) / 9."""
    found = split([40.0, 60.0, 40.0, 40.0, 40.0, 60.0, 40.0, 40.0, 40.0])
    assert found.share == pytest.approx(2 / 9)
    assert found.ratio == pytest.approx(1.5)


@pytest.mark.parametrize("times", [[5.0], [5.0, 5.0], [5.0, 5.1, 5.2, 5.3], [4.0, 5.0, 6.0, 7.0]])
def test_times_without_two_groups_are_not_parted(times: list[float]) -> None:
    assert split(times) == Split(0.0, 1.0)


def test_chance_alone_never_parts_equal_pieces() -> None:
    assert chance([[0.1] * 20, [0.1] * 20], seed=1) == pytest.approx(0.0)


def test_chance_is_what_dealing_the_pieces_anew_gives() -> None:
    """Pieces 1 1 and 3 3: of the six ways to deal them two separate them fully, V = 6 / 2 - 1 = 2;
    that is more than one deal in twenty. Of the 252 ways to deal five 1 and five 3, two separate
    them fully, fewer than one in twenty; 50 more leave one strange piece each, V = 13 / 7 - 1."""
    assert chance([[1.0] * 2, [3.0] * 2], seed=1) == pytest.approx(2.0)
    assert chance([[1.0] * 5, [3.0] * 5], seed=1) == pytest.approx(6 / 7)


def test_equal_workers_pass_their_chance_level_about_once_in_twenty() -> None:
    dealer = Random(11)
    alarms = 0
    for seed in range(200):
        pieces = [[0.1 * (1 + dealer.gauss(0, 0.1)) for _ in range(20)] for _ in range(4)]
        alarms += spread([sum(each) for each in pieces]) > chance(pieces, seed=seed)
    assert 2 <= alarms <= 20  # 10 are expected; the range is binomial, 99.8 %


def test_a_slow_worker_passes_the_chance_level() -> None:
    pieces = [[0.1 + 0.001 * (i % 3) for i in range(20)] for _ in range(3)]
    pieces.append([0.15 + 0.001 * (i % 3) for i in range(20)])
    assert spread([sum(each) for each in pieces]) > 2 * chance(pieces, seed=1)


@pytest.mark.parametrize("times", [[], [0.0, 1.0], [-1.0]])
def test_what_are_no_times_is_refused(times: list[float]) -> None:
    with pytest.raises(BadValue, match="above zero"):
        spread(times)


def test_two_cpus_saturate_at_two_workers() -> None:
    (knee,) = knees([(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)])
    assert knee.at == 2
    assert [knee.before, knee.after] == pytest.approx([1.0, 0.0])
    assert knee.bic_fall > 6


def test_one_cpu_has_its_knee_at_one_worker() -> None:
    """The line starts where no worker does no work, so one level before the knee is enough."""
    (knee,) = knees([(1, 1.0), (1, 1.01), (2, 1.0), (2, 0.99), (2, 1.01)])
    assert knee.at == 1


def test_cores_of_two_threads_have_two_knees() -> None:
    """Eight cores, each thread 0.65: slopes 1, then 2 x 0.65 - 1 = 0.3, then 0."""
    first, second = knees([(n, siblings(n, 8, 0.65)) for n in range(1, 33)])
    assert (first.at, second.at) == (8, 16)
    assert [first.before, first.after] == pytest.approx([1.0, 0.3])
    assert [second.before, second.after] == pytest.approx([0.3, 0.0])


def test_a_line_has_no_knee() -> None:
    assert knees([(n, 0.98 * n) for n in range(1, 17)]) == ()
    assert knees([(1, 1.0), (2, 2.0)]) == ()


def test_a_bend_less_than_the_flatness_is_no_knee() -> None:
    """Slope 1, then 0.85: a certain bend, as there is no noise, but not much flatter."""
    assert knees([(n, min(n, 4) + 0.85 * max(0, n - 4)) for n in range(1, 9)]) == ()


def test_noise_seldom_makes_a_knee() -> None:
    line: list[Point] = [(n, float(n)) for n in range(1, 9)]
    assert sum(knees(noisy(line, 0.03, seed)) != () for seed in range(200)) <= 10


def test_knees_are_found_in_noise() -> None:
    """Cores of two threads at 3 % noise: the first knee within one worker of the truth."""
    curve = [(n, siblings(n, 4, 0.6)) for n in range(1, 17)]
    firsts = [places(knees(noisy(curve, 0.03, seed)))[0] for seed in range(100)]
    assert sum(abs(at - 4) <= 1 for at in firsts) >= 95
    assert sum(at == 4 for at in firsts) >= 80


def test_saturation_of_two_cpus_is_found_in_noise() -> None:
    curve = [(n, float(min(n, 2))) for n in range(1, 5)]
    assert all(places(knees(noisy(curve, 0.04, seed))) == [2] for seed in range(100))


@pytest.mark.parametrize("point", [(0, 1.0), (1, 0.0), (1, float("nan")), (1, float("inf"))])
def test_a_throughput_that_cannot_be_is_refused(point: Point) -> None:
    with pytest.raises(BadValue, match="throughput"):
        knees([point])
