"""The page: what it says, that it stands alone, and that nothing in its data can break it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
import report_data as data
from msgspec import structs
from msgspec.structs import replace as replaced

from mrtuner.bench.record.model import Record
from mrtuner.bench.series import from_dict
from mrtuner.change.document import PlannedSetting, SettingNotWritten
from mrtuner.documents import as_builtins, read
from mrtuner.present.html import count, percent, ratio, text_without_secrets
from mrtuner.stats.histogram import Histogram
from mrtuner.tuning.advice import Input, Level, ManualStep, Notice
from mrtuner.tuning.document import AppliedSide, TuneDocument
from mrtuner.tuning.report.page import page

VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """A page as its tags and words; fails where tags do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)
            if "td" in self.open or "th" in self.open:
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        """All words, single spaces."""
        return " ".join("".join(self.words).split())

    def row(self, *starts: str) -> list[str]:
        """The first row whose first cells are `starts`; fails where there is none."""
        for row in self.rows:
            cells = [" ".join(cell.split()) for cell in row]
            if tuple(cells[: len(starts)]) == starts:
                return cells
        raise AssertionError(f"no row {starts}")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def judged(record: Record, **rest: Any) -> Reader:
    return Reader(page(data.tuning(), data.proof(record), **rest))


@pytest.fixture(scope="module")
def tuning() -> TuneDocument:
    return data.tuning()


@pytest.fixture(scope="module")
def html(tuning: TuneDocument) -> str:
    return page(
        tuning,
        data.proof(),
        commands=[
            ("apply it", "mrtuner apply postgresql://app:hunter2@db/shop --restart ask"),
            ("undo it", "mrtuner undo postgresql://app:hunter2@db/shop"),
        ],
        applied=AppliedSide(
            steps=[
                PlannedSetting(name="work_mem", value="19MB", before="4MB", restart=False, notes=[])
            ],
            left_alone=[
                SettingNotWritten(
                    name="wal_buffers", value="16MB", why="it is set on the command line"
                )
            ],
            refused=[], pending=[], elsewhere=None, method="ALTER SYSTEM", restarted=True,
            put_back=True,
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def seen(html: str) -> Reader:
    return Reader(html)


# The verdict


def test_a_gain_stands_at_the_top_in_words(seen: Reader) -> None:
    """By hand: ln 1.42 +- 2.3646 x 0.08 x sqrt(8/7) / sqrt(8) = 0.3507 +- 0.0715."""
    assert "TPC-B 1.4 times as fast." in seen.text
    row = seen.row("TPC-B", "Better")
    assert row[2:4] == ["× 1.42", "1.32 to 1.53"]
    assert seen.text.index("TPC-B 1.4 times as fast.") < seen.text.index("Facts")


def test_a_gain_that_was_only_put_off_is_undecided() -> None:
    """By hand: 1.1 x (60 + 3) / (60 + 17) = 0.9."""
    put_off = judged(data.record(data.compared(1000, [1.101, 1.099] * 4, debt=17.0)))
    assert "Undecided: no load shows a difference" in put_off.text
    assert "including the checkpoint left behind it is worse (0.90×)" in put_off.text


def test_one_server_is_told_from_two_and_this_machine_from_another() -> None:
    better = data.better()
    here = judged(better)
    assert "one, switched between both sides before every run" in here.text
    assert "Server and load generator shared one machine" in here.text
    two = {name: {**known, "data_directory": name} for name, known in better.settings.items()}
    apart = judged(replace(better, settings=two, local=False))
    assert "one for each side, on copies of the same data" in apart.text
    assert "the load generator on another machine than the server" in apart.text
    assert "shared one machine" not in apart.text


def test_a_series_without_a_finished_block_still_makes_a_page() -> None:
    lost = judged(data.record([data.sample("current", 1, 1, 900, rejected="ended by the user")]))
    assert "Nothing was measured" in lost.text


# The numbers


def test_every_advice_is_in_a_row_as_it_was_given(seen: Reader, tuning: TuneDocument) -> None:
    for item in tuning.advice:
        row = seen.row(item.name)
        nothing = "not known" if item.origin == "hidden" else "empty"
        assert row[1].startswith(item.now or nothing)
        if item.verdict == "change":
            assert row[2] == item.value
            assert row[3].startswith(item.reason)
            assert f"Source: {item.source}" in row[3]
            assert row[4:6] == [item.basis, item.risk]
            if not item.suggestion:
                assert row[6] == ("restart" if item.restart else "reload")
        else:
            assert row[2:] == [item.reason, item.source]


def test_suggestions_stand_apart_from_what_would_be_applied(seen: Reader) -> None:
    text = seen.text
    assert text.index("Suggestions: for a person to decide") < text.index("statement_timeout")


def test_facts_stand_with_their_sources(seen: Reader) -> None:
    assert seen.row("memory", "16 GB")[2] == "--memory"
    assert seen.row("storage", "ssd")[2] == "--storage"


def test_the_budget_table_has_every_part(seen: Reader, tuning: TuneDocument) -> None:
    assert tuning.budget
    for part in tuning.budget.parts:
        if part.name != "autovacuum":  # a parameter has that name too
            assert seen.row(part.name)[3] == part.how
    assert seen.row("Memory", "16 GB")[2] == "100 %"
    assert seen.row("Ceiling", "14.4 GB")[2] == "90 %"


def test_every_block_is_in_the_table_beside_the_picture(seen: Reader) -> None:
    """By hand: B = 1000 x 1.42 x e^-0.08 = 1310.8; x 60/63 and x 60/66 with it."""
    assert seen.row("1", "A") == ["1", "A", "1,000", "1,311", "1.31", "952", "1,192"]
    assert seen.row("2", "B")[2:4] == ["1,000", "1,538"]


def test_latencies_and_the_checkpoint_are_judged_too(seen: Reader) -> None:
    assert seen.row("latency, p99") == [
        "latency, p99", "20", "9", "ms", "0.450", "0.450 to 0.450",
    ]  # fmt: skip
    assert seen.row("CHECKPOINT after the run")[1:5] == ["3", "6", "s", "2.00"]
    assert seen.row("worst second")[1] == "750"


def test_calibration_is_told_in_words_and_numbers(seen: Reader) -> None:
    """By hand: mean of ln(1.01, .99, 1.02, .98) = -0.000125, sd 0.0183, t(3) 3.182: 0.0291."""
    told = "Calibration, the same settings twice in 4 blocks: 1.00 times, 0.97 to 1.03"
    assert told in seen.text


def test_the_price_of_a_crash_is_shown(seen: Reader, tuning: TuneDocument) -> None:
    assert "4 GB of WAL are replayed" in seen.text
    assert tuning.recovery
    assert f"about {tuning.recovery.seconds_fast} s on a fast machine" in seen.text


def test_how_it_was_measured_can_be_repeated(seen: Reader) -> None:
    for words in ("seed 20260701", "Linux 6.12.1", "pgbench 18.6", "8 sessions",
                  "2026-07-01 12:00 UTC"):  # fmt: skip
        assert words in seen.text


def test_what_was_written_and_what_was_left_alone_is_told(seen: Reader) -> None:
    assert "1 setting written (ALTER SYSTEM); the server was restarted" in seen.text
    assert seen.row("wal_buffers", "16MB")[2] == "it is set on the command line"


def test_a_load_without_a_log_has_no_latencies() -> None:
    silent = [
        structs.replace(one, times=Histogram(), run=replace(one.run, latency=None, per_second=()))
        for one in data.compared(1000, [1.4] * 6)
    ]
    bare = judged(data.record(silent))
    with pytest.raises(AssertionError, match="no row"):
        bare.row("latency, p99")


def test_a_percentile_needs_ten_transactions_beyond_it() -> None:
    """Of 60, 30 lie beyond the median, 3 beyond p95 and none beyond p99."""
    few = [
        structs.replace(one, times=Histogram(((3500, 55), (20000, 5))))
        for one in data.compared(1000, [1.4] * 6)
    ]
    told = judged(data.record(few))
    assert told.row("latency, median (p50)")[1:4] == ["3.5", "3.5", "ms"]
    assert told.row("latency, maximum")
    for percentile in ("p95", "p99"):
        with pytest.raises(AssertionError, match="no row"):
            told.row(f"latency, {percentile}")


def test_a_stalled_second_has_a_median_but_no_ratio() -> None:
    stalled = [
        structs.replace(one, run=replace(one.run, per_second=(0, 5)))
        if one.variant == "current"
        else one
        for one in data.compared(1000, [1.4] * 6)
    ]
    row = judged(data.record(stalled)).row("worst second")
    assert (row[1], row[4]) == ("0", "–")


def test_unknown_memory_leaves_the_budget_out(tuning: TuneDocument) -> None:
    unknown = Reader(page(replaced(tuning, budget=None, recovery=None), data.proof()))
    assert "The memory size is unknown" in unknown.text


# The frame


def test_the_same_data_give_the_same_page_also_after_json(tuning: TuneDocument) -> None:
    record = data.proof()
    told, measured = json.loads(json.dumps([as_builtins(tuning), record.to_dict()]))
    assert page(tuning, record) == page(read(told, TuneDocument), from_dict(measured))


def test_ids_are_unique_and_every_reference_is_met(seen: Reader) -> None:
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    for _, attrs in seen.tags:
        asked = (attrs.get("aria-labelledby") or "").split()
        href = attrs.get("href") or ""
        asked += [href[1:]] if href.startswith("#") else []
        assert set(asked) <= set(ids)


def test_headings_go_down_one_level_at_a_time(seen: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_tables_have_captions_and_scoped_headings(seen: Reader) -> None:
    assert len(seen.all("table")) == len(seen.all("caption"))
    assert all(
        attrs.get("scope") in ("col", "row", "rowgroup") for attrs in seen.all("th")
    )  # fmt: skip


def test_the_page_names_its_language_and_lets_one_skip_to_the_content(seen: Reader) -> None:
    assert seen.all("html") == [{"lang": "en"}]
    assert seen.all("a")[0] == {"class": "skip", "href": "#content"}
    assert {"id": "content"} in seen.all("main")


def test_every_picture_is_well_formed_and_has_a_table_beside_it(html: str) -> None:
    from xml.etree import ElementTree

    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 3 * 2  # for wide and for narrow screens
    for picture in pictures:
        ElementTree.fromstring(picture)
    # The first has its numbers in the table of all loads above it.
    assert html.index("<table") < html.index("<figure")
    for after in html.split("</figure>")[2:]:
        assert after.index("<table") < after.index("<h2")


def test_nothing_is_loaded_from_anywhere(seen: Reader, html: str) -> None:
    assert not seen.all("script")
    assert not seen.all("img")
    loads = [attrs.get(name) for _, attrs in seen.tags for name in ("src", "href", "data")]
    assert all(where.startswith(("#", "data:")) for where in loads if where)
    assert all(where.startswith("#") for where in re.findall(r"url\(([^)]*)\)", html))
    assert "@import" not in html


def test_markup_in_the_data_is_shown_and_not_obeyed(tuning: TuneDocument) -> None:
    nasty = "<script>alert('1')</script>"
    given = [Input(name=nasty, value=nasty, source=nasty)]
    notices = [Notice(Level("warning"), text=f"relation {nasty} is big")]
    steps = [ManualStep(purpose=nasty, commands=(nasty,), now="", risk="")]
    html = page(
        replaced(tuning, given=given, notices=notices, steps=steps),
        data.proof(replace(data.better(), kernel=nasty)),
        commands=[(nasty, nasty)],
    )
    assert not Reader(html).all("script")
    assert html.count("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;") == 9


def test_no_password_is_in_the_page(tuning: TuneDocument) -> None:
    leak = "host=db password='hunter 2' user=app; postgresql://app:hunter2@db/shop"
    html = page(
        replaced(tuning, notices=[Notice(Level("info"), text=leak)]),
        data.proof(replace(data.better(), kernel=leak)),
        commands=[
            ("apply", f"mrtuner apply '{leak}'"),
            ("undo", f"PGPASSWORD=hunter2 mrtuner undo {leak}"),
        ],
    )
    assert "hunter" not in html
    assert "postgresql://app:***@db/shop" in html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mrtuner tune 'postgresql://u:p@ss@h/d'", "mrtuner tune 'postgresql://u:***@h/d'"),
        ("postgresql://h/d?password=x&sslmode=require", "postgresql://h/d?password=***&sslmode=require"),
        ("x 'host=h password='\"'\"'a b'\"'\"' dbname=d'", "x 'host=h password=*** dbname=d'"),
        ("PGPASSWORD=geheim psql", "PGPASSWORD=*** psql"),
        ('"host=h password=x"', '"host=h password=***"'),
        ("host=h password = 'it\\'s me' user=u", "host=h password = *** user=u"),
        ("password_encryption = scram-sha-256", "password_encryption = scram-sha-256"),
        ("postgresql://USER@HOST/DATABASE", "postgresql://USER@HOST/DATABASE"),
    ],
)  # fmt: skip
def test_passwords_are_masked_wherever_they_stand(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown


@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        (ratio(1.424), "1.42"), (ratio(0.9784), "0.978"), (ratio(1.0314), "1.031"),
        (ratio(12.34), "12.3"),
        (ratio(0.0123), "0.0123"), (count(1234.4), "1,234"), (count(9.25), "9.25"),
        (count(None), "–"), (percent(0.0312), "3.1 %"), (percent(None), "–"),
        (percent(1.0), "100 %"),
        (percent(float("inf")), "–"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(shown: str, meant: str) -> None:
    assert shown == meant
