"""The page lists as verified what the tests verify, with the pinned versions."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import failover_programs
import pytest
from failover_stacks import CLIENTS
from test_failover_clients import STACKS as QUICK
from test_failover_clients_slow import ON_POSTGRES

from mrtuner.failover.settings.stacks import STACKS
from mrtuner.failover.settings.stacks.stack import NOT_VERIFIED

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "verified-clients.md"
RUN = ".venv/bin/python -m pytest packages/mrtuner/tests/failover/"
SLOW = {**{name: name for name in ON_POSTGRES}, "mysql": "mysql"}


def test_nothing_is_called_verified_that_no_test_runs() -> None:
    told = {name for name, stack in STACKS.items() if stack.verified != NOT_VERIFIED}
    assert told == {*QUICK, *SLOW}


def test_the_page_names_every_stack_its_client_and_the_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, stack in STACKS.items():
        command = "-"
        if name in QUICK:
            command = f"`{RUN}test_failover_clients.py`"
        if name in SLOW:
            command = f"`{RUN}test_failover_clients_slow.py -k {SLOW[name]}`"
        assert f"| {name} | {stack.verified} | {command} |" in text


@pytest.mark.parametrize(
    ("package", "stack"),
    [
        ("psycopg", "psycopg"), ("psycopg-pool", "psycopg"), ("sqlalchemy", "sqlalchemy"),
        ("django", "django"), ("pymysql", "mysql"),
    ],
)  # fmt: skip
def test_the_version_told_is_the_one_installed(package: str, stack: str) -> None:
    assert version(package) in STACKS[stack].verified


@pytest.mark.parametrize(
    ("artifact", "stack"),
    [
        (failover_programs.PGJDBC, "pgjdbc"), (failover_programs.HIKARICP[0], "hikaricp"),
        (failover_programs.WILDFLY, "wildfly"), (failover_programs.CONNECTOR_J, "mysql"),
    ],
)  # fmt: skip
def test_the_version_told_is_the_one_fetched(artifact: str, stack: str) -> None:
    number = artifact.split(":")[2].removesuffix(".Final")
    assert number in STACKS[stack].verified


def test_the_modules_told_are_those_pinned() -> None:
    pinned = (CLIENTS / "pgx" / "go.mod").read_text()
    assert re.findall(r"pgx/v5 v(\S+)", pinned)[0] in STACKS["pgx"].verified
    node = (CLIENTS / "node" / "package.json").read_text()
    assert re.findall(r'"pg": "(\S+)"', node)[0] in STACKS["node-postgres"].verified
