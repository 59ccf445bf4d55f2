"""The lines, the page and the picture of a test, made of documents written by hand."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import jsonschema  # type: ignore[import-untyped]
import pytest
from cpu_records import of_cpus, on_siblings, record, trial, worker

from mrtuner.cpu.document import CpuDocument, cpu_document
from mrtuner.cpu.model import CpuPair, Record
from mrtuner.cpu.report import lines, page, picture, verdict
from mrtuner.documents import as_builtins, read
from mrtuner.errors import BadValue
from servers import ROOT


def document(seen: Record) -> CpuDocument:
    return read(json.dumps(as_builtins(cpu_document(seen)), allow_nan=False), CpuDocument)


@pytest.fixture(scope="module")
def told() -> CpuDocument:
    """Two cores of two threads at 0.6, through JSON as a user keeps it."""
    trials = [on_siblings(n, 2, 0.6) for n in range(1, 9) for _ in range(2)]
    pairs = (
        CpuPair(first=0, second=1, inflation=1.62, siblings=True),
        CpuPair(first=0, second=2, inflation=1.01, siblings=False),
    )
    seen = record(
        trials, usable=of_cpus(4), cores=((0, 1), (2, 3)), threads=2, pairs=pairs
    )  # fmt: skip
    return document(seen)


def test_the_verdict_names_both_knees_and_their_causes(told: CpuDocument) -> None:
    assert verdict(told) == (
        "Equal work takes equal time with up to 2 workers; beyond 2, two share one core; "
        "beyond 4, they wait for a free CPU."
    )


def test_the_first_screen_has_what_the_reference_asks_for(told: CpuDocument) -> None:
    """By hand: 2 + 2 x 0.2 = 2.4 effective cores; N = 3: V = 1 / 0.6 - 1 = 67 %, 2 of 3 slow."""
    text = "\n".join(lines(told))
    assert "usable CPUs       4 (by hand)" in text
    assert "threads per core  2 (pairs of CPUs slow each other)" in text
    assert "effective cores   2.40 times one worker alone; reached with 4 workers" in text
    assert "V at 2            0.0 %, by chance up to 0.0 %: no more than chance" in text
    assert "V at 3            67 %" in text
    assert "67 % of the workers take 1.67 times" in text
    assert "after 2           two workers share one core; each extra worker adds 0.20" in text
    assert "cpu +0.44 s, run delay +0.00 s" in text.replace("\n" + 18 * " ", " ")
    assert "what to do" in text


def test_every_level_has_a_line_in_the_table(told: CpuDocument) -> None:
    shown = list(lines(told))
    head = next(place for place, line in enumerate(shown) if line.startswith("workers "))
    rows = [line.split() for line in shown[head + 1 : head + 9]]
    assert [row[0] for row in rows] == [str(n) for n in range(1, 9)]
    assert rows[1][1:4] == ["1.00", "1.00", "1.00"]


def test_no_line_is_wider_than_a_hundred_columns(told: CpuDocument) -> None:
    assert max(map(len, list(lines(told))[1:])) <= 100


class Page(HTMLParser):
    """The page's words and how often each tag stands in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.tags = "", {"circle": 0, "table": 0, "svg": 0}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_has_picture_levels_pairs_advice_and_every_trial(told: CpuDocument) -> None:
    seen = Page(page(told))
    assert seen.tags["svg"] == 2  # for wide and for narrow screens
    assert seen.tags["table"] == 3
    assert seen.tags["tr"] == 3 + 8 + 2 + 16
    assert "1.62" in seen.words
    assert "smt/control" in seen.words


def test_the_same_document_gives_the_same_page(told: CpuDocument) -> None:
    assert page(told) == page(told)


def test_the_picture_marks_the_knees_and_names_their_causes(told: CpuDocument) -> None:
    drawn = picture(told, key="k")
    assert "sibling threads" in drawn
    assert "saturation" in drawn
    assert 'role="img"' in drawn


def test_a_test_without_a_trial_that_counts_is_undecided() -> None:
    spoilt = trial(worker(1.0), rejected="other work took 40% of our CPUs' time")
    told = document(record([spoilt], usable=of_cpus(1)))
    assert verdict(told).startswith("Undecided")
    assert any("not measured" in line for line in lines(told))
    assert "Undecided" in page(told)


def test_no_knee_is_claimed_where_numbers_of_workers_are_missing() -> None:
    spoilt = trial(worker(1.0), worker(1.0), rejected="other work took 40% of our CPUs' time")
    told = document(record([trial(worker(1.0)), spoilt], usable=of_cpus(2)))
    assert verdict(told) == "Undecided: other work disturbed every trial of 2 workers."


def test_even_cores_are_said_to_have_no_knee() -> None:
    trials = [trial(*[worker(1.0)] * n) for n in (1, 2, 3, 4) for _ in range(2)]
    told = document(record(trials, usable=of_cpus(4)))
    assert verdict(told).startswith("Equal work takes equal time with up to 4 workers")


def test_uneven_times_are_not_called_equal_without_a_knee() -> None:
    """Of eight CPUs the last has 0.85 of the speed: it takes 1 / 0.85 - 1 = 18 % longer."""
    trials = [trial(*[worker(1.0)] * n) for n in range(1, 8)]
    trials += [trial(*[worker(1.0)] * 7, worker(1 / 0.85))]
    told = document(record([*trials, *trials], usable=of_cpus(8)))
    assert told.diagnosis.bends == ()
    assert verdict(told) == (
        "Equal work takes equal time with up to 7 workers; beyond 7, throughput grows, but times "
        "are uneven."
    )
    assert any(line.startswith("V at 8            18 %") for line in lines(told))


def test_another_document_is_refused() -> None:
    with pytest.raises(BadValue, match=r"the document is mrtuner\.series/1"):
        read({"schema": "mrtuner.series/1"}, CpuDocument)


def test_a_test_satisfies_its_schema(told: CpuDocument) -> None:
    path = ROOT / "docs" / "reference" / "schemas" / "mrtuner.cpu-1.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    plain = as_builtins(told)
    jsonschema.validate(plain, schema)
    with pytest.raises(jsonschema.ValidationError, match="sunny"):
        jsonschema.validate(plain | {"trials": ["sunny"]}, schema)
