"""What was gained, and where nothing: the answer on a terminal and on the first screen."""

from __future__ import annotations

import json

import pytest
import report_data as data

from mrtuner.bench.report.gains import answer, screen
from mrtuner.bench.series import LeftOut, Series, from_dict
from mrtuner.cli.common.document import load_result
from mrtuner.documents import as_builtins
from mrtuner.errors import BadValue
from mrtuner.present.text import Look
from mrtuner.stats.histogram import Histogram
from mrtuner.tuning.report.page import page
from series_data import STALLED, a_load, a_series

QUICK = Histogram(((1000, 1000), (4000, 100)))
LEFT_OUT = LeftOut(title="small volume", why="limits need root", remedy="As root: sudo mrtuner")


def both() -> Series:
    return a_series(a_load("cached reads", 2.3), a_load("fast disk", 1.001), left_out=(LEFT_OUT,))


def text(series: Series) -> str:
    return "\n".join(screen(series, Look(width=120)))


def test_the_headline_is_the_verdict_in_words() -> None:
    assert answer(both()).headline == (
        "Cached reads 2.3 times as fast. No gain shown in 1 of 2 loads."
    )


def test_a_loss_is_said_as_plainly_as_a_gain() -> None:
    said = answer(a_series(a_load("reads", 2.0), a_load("groups", 0.9)))
    assert said.headline == "Reads 2.0 times as fast; slower: groups 0.90 times as fast."
    assert "Worse with the advice: groups." in said.sentences


def test_nothing_decided_shouts_no_ratio() -> None:
    noisy = a_load("reads", 1.05, blocks=3, wobble=12)
    said = answer(a_series(noisy))
    assert said.headline == "Undecided: no load shows a difference"


def test_the_longest_time_in_which_nobody_was_served_is_in_the_headline() -> None:
    said = answer(a_series(a_load("volume", 1.4, pauses=(8.4, 0.18))))
    assert said.headline == ("Volume 1.4 times as fast, longest pause 0.2 s instead of 8.4 s.")
    assert said.rows[0].pause == "8.4 s → 0.2 s"


def test_a_load_judged_by_its_longest_pause_shows_its_throughput_without_a_verdict() -> None:
    series = a_series(a_load("volume", 1.4, pauses=(8.4, 0.18), judged_by="longest pause"))
    said = answer(series)
    assert said.headline == "Volume: longest pause 0.2 s instead of 8.4 s."
    assert (said.rows[0].gain, said.rows[0].verdict) == ("pause × 0.021", "better")
    assert (said.rows[0].speed or "").startswith("throughput × 1.40 (")
    assert "volume throughput × 1.40" in text(series)
    html = page(data.tuning(), series)
    assert "Volume: throughput × 1.40" in html
    assert load_result(series.findings[0]).measure == "longest pause"


def test_two_pairs_have_no_interval() -> None:
    said = answer(a_series(a_load("reads", 1.05, blocks=2, wobble=3)))
    assert said.rows[0].interval == "no interval"


@pytest.mark.parametrize("blocks", [3, 12])
def test_pauses_of_an_undecided_load_are_in_its_row_and_not_in_the_headline(blocks: int) -> None:
    noisy = a_load("volume", 1.0, blocks=blocks, wobble=12, pauses=(8.4, 0.18))
    said = answer(a_series(noisy, a_load("reads", 2.0)))
    assert said.headline == "Reads 2.0 times as fast. No gain shown in 1 of 2 loads."
    assert "No difference shown: volume." in said.sentences
    assert said.rows[0].pause == "8.4 s → 0.2 s"


def test_at_a_fixed_rate_latency_is_judged() -> None:
    said = answer(a_series(a_load("volume", 1.0, rate="500", times=(STALLED, QUICK))))
    assert said.rows[0].p99 == "0.4 s → 4 ms"
    assert said.headline == "Volume p99 latency 4 ms instead of 0.4 s."


def test_p99_is_shown_also_where_it_got_worse() -> None:
    said = answer(a_series(a_load("volume", 1.5, times=(QUICK, STALLED))))
    assert said.rows[0].verdict == "better"
    assert said.rows[0].p99 == "4 ms → 0.4 s"


def test_without_latencies_the_page_shows_none() -> None:
    series = a_series(a_load("volume", 1.5, times=(Histogram(()), QUICK)))
    assert answer(series).rows[0].p99 is None
    assert "99th percentile" not in text(series)
    assert '<td data-label="p99" class="nothing">–</td>' in page(data.tuning(), series)


def test_parts_are_shown_with_what_they_lost_and_without_a_verdict() -> None:
    series = a_series(a_load("reports", 1.2, parts={"sorts": (90.0, 100.0), "joins": (80.0, 40.0)}))
    assert "reports, part by part: medians, no verdicts" in text(series).lower()
    assert "sorts × 0.90, joins × 2.00" in text(series)
    assert "(medians, no verdicts): sorts × 0.90, joins × 2.00." in page(data.tuning(), series)
    [load] = series.findings
    assert load_result(load).parts == {"sorts": 0.9, "joins": 2.0}
    [plain] = a_series(a_load("reads", 1.2)).findings
    assert load_result(plain).parts == {}


def test_p_values_are_adjusted_for_all_loads() -> None:
    """By Holm the smallest of three is tripled, whatever the others are."""
    loads = [a_load(f"load {number}", 1.2) for number in range(3)]
    alone, among = a_series(loads[0]).findings[0], a_series(*loads).findings[0]
    assert among.verdict.p_holm == pytest.approx(3 * alone.verdict.p_holm)
    assert "p is adjusted for 3 comparisons (Holm)" in text(a_series(*loads))


def test_what_bound_stands_beside_every_verdict() -> None:
    """Nine of ten active sessions ran."""
    assert answer(both()).rows[1].bound == "CPU: 90% of active sessions ran"


def test_a_busy_machine_is_warned_of_in_the_report() -> None:
    busy = a_series(a_load("reads", 1.2, foreign=0.7), busy="70% of the CPU (cc1 1.4 CPUs)")
    said = answer(busy)
    assert len(said.warnings) == 2
    assert "other programs used 70% of the CPU" in said.warnings[1]
    assert "warning: other programs used 70%" in text(busy)
    assert "other programs used 70% of the CPU" in page(data.tuning(), busy)


def test_what_could_not_be_measured_is_named_with_the_command_that_would() -> None:
    for shown in (text(both()), page(data.tuning(), both())):
        assert "limits need root" in shown
        assert "As root: sudo mrtuner" in shown


def test_the_page_answers_before_it_explains() -> None:
    html = page(data.tuning(), both())
    headline, table, advice = (
        html.index(piece) for piece in ("<h1>Cached reads", "load by load", 'id="advice"')
    )
    assert headline < table < advice


def test_the_page_can_be_built_again_from_json_alone() -> None:
    again = json.loads(json.dumps(both().to_dict()))
    assert page(data.tuning(), from_dict(again)) == page(data.tuning(), both())


def test_a_damaged_series_is_refused() -> None:
    with pytest.raises(BadValue, match="missing required field `why`"):
        from_dict(both().to_dict() | {"loads": [{"title": "x"}]})
    with pytest.raises(BadValue, match=r"the document is mrtuner\.tune/1"):
        from_dict({"schema": "mrtuner.tune/1"})


def test_the_document_has_every_load_with_both_sides() -> None:
    series = a_series(a_load("volume", 1.4, pauses=(8.4, 0.18)))
    (load,) = (as_builtins(load_result(one)) for one in series.findings)
    assert (series.verdict, load["verdict"], load["pairs"]) == ("better", "better", 6)
    assert [side["longest_pause_s"] for side in load["sides"]] == [8.4, 0.18]
