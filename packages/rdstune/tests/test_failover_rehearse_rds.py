"""A failover of the lab's RDS, rehearsed by the same command; its document satisfies its schema."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from command_line import run
from json_schemas import assert_valid
from mrtuner.aws.session import client
from mrtuner.documents import as_builtins, read
from mrtuner.failover.rehearse.document import RehearsalDocument
from mrtuner.failover.rehearse.page import lines, page
from rdstune.lab import Lab

pytestmark = pytest.mark.timed


@pytest.fixture
def dsn(server_lab: Lab) -> str:
    """The connection string of a Multi-AZ instance named shop."""
    client("rds").create_db_instance(
        DBInstanceIdentifier="shop", Engine="postgres", EngineVersion="18", MultiAZ=True,
        DBInstanceClass="db.m7g.large", AllocatedStorage=20, MasterUsername="app",
        MasterUserPassword="not-a-secret", DBName="shop",
    )  # fmt: skip
    server_lab.settle()
    return server_lab.dsn("shop")


def test_a_failover_of_the_labs_rds(server_lab: Lab, dsn: str) -> None:
    quickly = ("--steady", "1s", "--connections", "5", "--start-timeout", "20s", "--yes")
    done = run(
        "failover", "rehearse", dsn, "--trigger", "rds:shop", "--within", "20s", "--json", *quickly
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (way,) = told["ways"]
    assert way["outcome"] == "restarted"  # the lab has one server behind the instance
    assert told["trigger"] == "RDS, reboot with failover, shop"
    assert "not AWS but a stand-in" in told["cautions"][0]
    origins = {mark["origin"]: mark["text"] for mark in way["marks"]}
    assert "status" in origins
    assert "event" in origins
    assert way["observation"]["ledger"]["lost"] == []
    assert ("rds", "RebootDBInstance") in server_lab.calls
    assert_valid(told, "mrtuner.failover.rehearsal/1")
    again = read(done.stdout, RehearsalDocument)
    assert as_builtins(again) == told
    assert "not AWS but a stand-in" in page(again).replace("\n", " ")
    assert any("Within 20 s" in line or "20 s:" in line for line in lines(again))
    assert closed(page(again))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"section", "table", "figure", "dl", "tbody", "main"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"section", "table", "figure", "dl", "tbody", "main"}:
            assert self.open.pop() == tag


def closed(html: str) -> bool:
    """Whether every element of the page is closed."""
    tags = _Tags()
    tags.feed(html)
    return not tags.open
