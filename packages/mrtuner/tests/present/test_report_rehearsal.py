"""The page and the lines of a rehearsal, made of a document written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_browser import Browser, browser

from mrtuner.documents import read
from mrtuner.errors import BadValue
from mrtuner.rehearsal.page import Moment, timeline
from rdstune.fleet.document import RehearsalDocument
from rdstune.fleet.rehearsal_page import lines, moments, page

KINDS = ("read", "held", "write")


def attempts() -> list[list[Any]]:
    """One a second of each kind for 60 s; refused from 20 to 49."""
    return [
        [kind, due, due, None, due + 0.002, "Connection refused", None] if 20 <= due < 50
        else [kind, due, due, due, due + 0.02, None, int(due >= 50)]
        for kind in KINDS
        for due in map(float, range(60))
    ]  # fmt: skip


def client(kind: str) -> dict[str, Any]:
    return {
        "kind": kind, "words": kind, "last_success": 9.02, "first_failure": 10.002,
        "first_success": 40.02, "least": 29.0, "most": 31.0, "gaps": 1, "failed": 30, "late": 0,
        "errors": ["Connection refused"],
    }  # fmt: skip


def gap(kind: str) -> dict[str, Any]:
    return {
        "kind": kind, "last_answer": 19.02, "began": 20.0, "first_failure": 20.002,
        "answer": 50.02, "least": 29.0, "most": 31.0, "failed": 30, "late": 0,
        "errors": ["Connection refused"],
    }  # fmt: skip


SERVER = {
    "started": "2026-01-01T00:00:00+00:00", "standby": False, "address": "10.0.0.1:5432",
    "own": "10.0.0.1:5432", "timeline": 1, "system": "7550000000000000001",
}  # fmt: skip
RUN: dict[str, Any] = {
    "verdict": "Clients got no answer for 29.0 to 31.0 s (new connection, read).",
    "asked": 10.0, "accepted": 10.1, "settled": True, "zone": "eu-west-1b",
    "marks": [
        {"at": 11.0, "text": "rebooting", "origin": "status", "by_aws_clock": False},
        {"at": 55.0, "text": "DB instance restarted", "origin": "event", "by_aws_clock": False},
        {"at": 54.0, "text": "available", "origin": "status", "by_aws_clock": False},
    ],
    "phases": {
        "up": 10.0, "first_failure": 10.002, "first_read": 40.02, "first_write": 40.02,
        "available": 44.0, "clients": [client(kind) for kind in KINDS],
    },
    "observation": {
        "began": "2026-01-02T12:00:00+00:00", "seconds": 60.0, "interval": 1.0, "timeout": 10.0,
        "kinds": list(KINDS), "skipped": 0, "lag": 0.004, "restarted": True, "went_away": True,
        "servers": [SERVER, {**SERVER, "started": "2026-01-02T12:00:45+00:00"}],
        "gaps": [gap(kind) for kind in KINDS],
        "ledger": {"sent": 30, "acknowledged": 30, "found": 30, "lost": [], "unacknowledged": 0,
                   "duplicated": []},
        "left_behind": None,
        "columns": ["kind", "due", "sent", "asked", "ended", "error", "server"],
        "attempts": attempts(),
    },
}  # fmt: skip
TOLD: dict[str, Any] = {
    "schema": "mrtuner.rds.rehearsal/1", "instance": "orders-test", "class": "db.r6g.large",
    "engine": "postgres 17.2", "deployment": "Multi-AZ instance", "zone": "eu-west-1a",
    "what": "reboot with failover", "endpoint": "http://127.0.0.1:5000",
    "expected": {"kind": "one failover", "low": 60, "high": 120, "words": "typically 60 to 120 s",
                 "source": "Amazon RDS User Guide", "evidence": "documented"},
    "aws": False, "cautions": ["the connection string <b>leads</b> elsewhere"],
    "went_away": True, "runs": [RUN],
    "expectations": ["Open connections do not survive."], "limits": ["Only the probes."],
}  # fmt: skip


def rehearsal(told: dict[str, Any]) -> RehearsalDocument:
    return read(told, RehearsalDocument)


def nothing() -> dict[str, Any]:
    told = deepcopy(TOLD)
    told["went_away"] = False
    (run,) = told["runs"]
    run["verdict"], run["why_nothing"] = (
        "No outage was measured: nothing has changed.",
        "Look elsewhere.",
    )
    run["phases"] = {**dict.fromkeys(run["phases"]), "clients": []}
    run["observation"] |= {"gaps": [], "went_away": False, "restarted": False, "ledger": None}
    run["observation"]["attempts"] = [
        [kind, due, due, due, due + 0.02, None, 0] for kind, due, *_ in attempts()
    ]
    return told


class Words(HTMLParser):
    """The page's words; fails where tags do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def test_the_page_leads_with_what_clients_met() -> None:
    text = Words(page(rehearsal(TOLD))).text
    assert "Clients got no answer for 29.0 to 31.0 s" in text
    assert "Not AWS: this ran against http://127.0.0.1:5000" in text
    assert "30 acknowledged, 0 of them lost" in text
    assert "Open connections do not survive." in text
    assert "Only the probes." in text


def test_nothing_in_the_data_becomes_markup() -> None:
    assert "<b>leads" not in page(rehearsal(TOLD))
    assert "<b>leads</b> elsewhere" in Words(page(rehearsal(TOLD))).text


def test_the_same_document_gives_the_same_page() -> None:
    assert page(rehearsal(TOLD)) == page(rehearsal(json.loads(json.dumps(TOLD))))


def test_the_page_of_a_rehearsal_in_which_nothing_went_away_gives_no_seconds() -> None:
    text = Words(page(rehearsal(nothing()))).text
    assert "No outage was measured" in text
    assert "Look elsewhere." in text
    assert "Unavailable at least" not in text
    assert "got no answer for" not in text


def test_several_runs_have_a_section_each() -> None:
    told = deepcopy(TOLD)
    told["runs"] = [RUN, RUN]
    html = page(rehearsal(told))
    assert 'id="run-1-title"' in html
    assert 'id="run-2-title"' in html
    Words(html)


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(BadValue, match=r"the document is mrtuner\.report/1"):
        rehearsal({"schema": "mrtuner.report/1"})


def test_a_rehearsal_that_lacks_a_field_is_refused_by_its_name() -> None:
    told = {name: value for name, value in TOLD.items() if name != "deployment"}
    with pytest.raises(BadValue, match="deployment"):
        rehearsal(told)


def test_the_moments_are_in_order_and_count_from_the_request() -> None:
    told = moments(rehearsal(TOLD).runs[0])
    assert [moment.at for moment in told] == sorted(moment.at for moment in told)
    assert told[0] == Moment(0.0, "client", "request sent to RDS")
    assert Moment(1.0, "RDS", "status rebooting", 1) in told
    assert Moment(44.0, "RDS", "status available", 2) in told
    assert Moment(45.0, "RDS", "event: DB instance restarted (time when it was read)", 3) in told
    assert Moment(9.02, "client", "last answer: new connection, write") in told


def test_the_lines_for_a_terminal_say_the_same() -> None:
    text = "\n".join(lines(rehearsal(TOLD)))
    assert "29.0 to 31.0 s" in text
    assert "first failure: held connection, read: Connection refused" in text
    assert text.index("last answer") < text.index("answers again")
    assert "Look elsewhere." in "\n".join(lines(rehearsal(nothing())))


def test_the_picture_names_its_lanes_and_the_length_of_each_gap() -> None:
    svg = timeline(rehearsal(TOLD).runs[0], (-10, 50), key="x")
    assert svg.startswith("<svg")
    for words in ("new connection, read", "held connection, read", "new connection, write"):
        assert words in svg
    assert svg.count("31.0 s") >= 3
    assert 'id="x-title"' in svg


def test_a_long_run_gets_a_second_picture_from_nearer() -> None:
    told = deepcopy(TOLD)
    told["runs"][0]["observation"]["seconds"] = 900.0
    assert page(rehearsal(TOLD)).count("<figure>") == 1
    assert page(rehearsal(told)).count("<figure>") == 2


@pytest.fixture(scope="module")
def opened(asks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_window_and_loads_nothing(opened: Browser, tmp_path: Path, width: int) -> None:
    file = tmp_path / "rehearsal.html"
    file.write_text(page(rehearsal(TOLD)), encoding="utf-8")
    opened.requests.clear()
    opened.show(file, width=width)
    assert opened.run("document.scrollingElement.scrollWidth") <= width
    assert opened.complaints == []
    assert set(opened.requests) == {file.as_uri()}
