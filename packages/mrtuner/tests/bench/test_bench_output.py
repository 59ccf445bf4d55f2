from __future__ import annotations

import pytest

from mrtuner.bench.load.pgbench_output import Log, complaint, read_log, read_summary
from mrtuner.errors import MrTunerError

# As the manual of 13 prints them; the later ones are from real runs of 15.18 and 18.6.
OF_13 = """\
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 10
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 10000/10000
latency average = 15.844 ms
latency stddev = 2.715 ms
tps = 618.764555 (including connections establishing)
tps = 622.977698 (excluding connections establishing)
"""
OF_15 = """\
pgbench (15.18 (Debian 15.18-0+deb12u1), server 18.6)
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: prepared
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 17458
number of failed transactions: 3 (0.017%)
latency average = 0.458 ms (including failures)
initial connection time = 4.688 ms
tps = 8735.140804 (without initial connection time)
"""
OF_14 = OF_15.replace("number of failed transactions: 3 (0.017%)\n", "")
WITHOUT_ANY = """\
duration: 1 s
number of transactions actually processed: 0
number of failed transactions: 0 (NaN%)
"""


def test_13_excludes_connecting_by_its_second_line() -> None:
    summary = read_summary(OF_13)
    assert (summary.transactions, summary.failed, summary.tps) == (10000, 0, 622.977698)


def test_14_has_one_line_and_no_failures() -> None:
    summary = read_summary(OF_14)
    assert (summary.transactions, summary.failed, summary.tps) == (17458, 0, 8735.140804)


def test_15_and_later_count_failed_transactions() -> None:
    assert read_summary(OF_15).failed == 3


def test_times_of_single_commands_are_read_where_they_were_asked_for() -> None:
    """With -r; since 15 each has its number of failures. From the manuals of 13 and 18."""
    of_13 = (
        OF_13 + "statement latencies in milliseconds:\n"
        "        0.002  \\set aid random(1, 100000 * :scale)\n"
        "       15.361  SELECT 0.5;\n"
    )
    assert read_summary(of_13).commands == (0.002, 15.361)
    of_15 = (
        OF_15 + "statement latencies in milliseconds and failures:\n"
        "         0.030           0  BEGIN;\n"
        "         1.300           2  END;\n"
    )
    assert read_summary(of_15).commands == (0.03, 1.3)
    assert read_summary(OF_15).commands == ()


@pytest.mark.parametrize("printed", ["", WITHOUT_ANY])
def test_a_summary_without_figures_is_an_error(printed: str) -> None:
    with pytest.raises(MrTunerError, match="pgbench printed no"):
        read_summary(printed)


def test_the_complaint_is_the_cause_and_not_the_last_line() -> None:
    assert (
        complaint(
            "pgbench: setting random seed to 3\n"
            "pgbench: error: client 0 aborted in command 0: ERROR:  division by zero\n"
            "pgbench: error: Run was aborted; the above results are incomplete.\n"
        )
        == "client 0 aborted in command 0: ERROR:  division by zero"
    )
    assert complaint("pgbench: fatal: out of memory\n") == "out of memory"
    assert complaint("pgbench: invalid option\ntry --help\n") == "try --help"
    assert complaint("") == "no reason given"


def line(time: int | str, second: int, rest: str = "5") -> bytes:
    return f"0 1 {time} 0 {second} {rest}\n".encode()


def test_percentiles_are_by_nearest_rank_and_in_milliseconds() -> None:
    """1, 2, …, 1000 ms: the p-th percentile is the p * 10-th of them; the mean is 500.5, and
    the variance (1000² - 1) / 12 = 83333.25, its root 288.675.
    """
    latency = read_log(line(number * 1000, 100) for number in range(1000, 0, -1)).latency
    assert latency is not None
    assert (latency.p50, latency.p95, latency.p99, latency.p999) == (500, 950, 990, 999)
    assert latency.maximum == 1000
    assert latency.mean == 500.5
    assert latency.stddev == pytest.approx(288.675, abs=0.001)


def test_a_single_transaction_is_every_percentile() -> None:
    latency = read_log([line(700, 100)]).latency
    assert latency is not None
    assert (latency.p50, latency.p999, latency.maximum, latency.stddev) == (0.7, 0.7, 0.7, 0)


def test_a_stalled_second_counts_as_zero_and_broken_ones_are_dropped() -> None:
    lines = [line(1, second) for second in (100, 101, 101, 103, 103, 103, 104)]
    assert read_log(lines).per_second == (2, 0, 3)


def test_sampled_counts_are_scaled_up() -> None:
    assert read_log([line(1, second) for second in (7, 8, 8, 9)], sampling=0.1).per_second == (20,)


def test_skipped_and_failed_transactions_have_no_latency() -> None:
    latency = read_log([line("failed", 100), line("skipped", 100), line(300, 100)]).latency
    assert latency is not None
    assert latency.mean == 0.3


def test_more_columns_at_the_end_change_nothing() -> None:
    """--rate adds the schedule lag, retries add their number."""
    assert read_log([line(300, 100, "5 17 2")]) == read_log([line(300, 100)])


def test_an_empty_log_has_nothing() -> None:
    assert read_log([]) == Log(pause=0.0)


def ended(second: int, microsecond: int, time: int = 100, number: int = 2) -> bytes:
    return f"0 {number} {time} 0 {second} {microsecond}\n".encode()


def test_the_pause_is_the_longest_time_in_which_nobody_was_served() -> None:
    """Ends at 7.0, 7.2, 9.95 and 10.0 s, from several clients and out of order: 2.75 s."""
    lines = [ended(9, 950_000), ended(7, 0), ended(10, 0), ended(7, 200_000)]
    assert read_log(lines).pause == 2.75


def test_a_pause_before_the_first_answer_counts() -> None:
    """The client's first transaction began 3 s before it ended at 10.0."""
    assert read_log([ended(10, 0, 3_000_000, number=1), ended(10, 500_000)]).pause == 3.0


def test_what_was_skipped_does_not_end_a_pause() -> None:
    lines = [ended(7, 0), b"0 2 skipped 0 8 0\n", ended(9, 0)]
    assert read_log(lines).pause == 2.0
