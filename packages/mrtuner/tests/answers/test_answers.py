"""The answers as calls in Python: the examples of the docs, and the answers that commands give."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import PASSWORD, NewCluster
from docs_pages import DOCS, examples
from history_story import story

from command_line import run
from mrtuner.answers import apply, audit, tune, vacuum
from mrtuner.answers.apply_and_undo import Proposal
from mrtuner.change.journal import Journal
from mrtuner.errors import ConnectError, Refused, UsageError
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.cluster import Cluster
from servers import sql

pytestmark = pytest.mark.timed

_LEFT = "SELECT count(*) FROM pg_file_settings WHERE sourcefile ~ 'auto.conf'"
PAGE = DOCS / "how-to" / "use-from-python.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of one server."""
    place = tmp_path_factory.mktemp("answers")
    story(place)
    return place


def test_the_examples_of_the_page_run(embedded: Cluster, store: Path) -> None:
    """With a server, a history and times that a test has."""
    (program,) = (text for text in examples(PAGE) if "from mrtuner.answers import failover" in text)
    for shown, here in {
        "postgresql://postgres@db/shop": embedded.dsn(),
        '"local"': repr(embedded.dsn()),
        '"15min"': '"1s"',
        '"10min"': '"1s"',
        "/var/lib/mrtuner": str(store),
    }.items():
        assert shown in program
        program = program.replace(shown, here)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:5]] == [
        "connect",
        "idle",
        "flight",
        "frozen",
        "stale",
    ]
    assert lines[5].split()[0] in {"True", "False"}


def test_the_example_of_a_change_applies_and_undoes_it(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    (program,) = (text for text in examples(PAGE) if "from mrtuner.answers import apply" in text)
    dsn = new_cluster(listen=True).dsn(tcp=True)  # no network outage affects a Unix socket
    program = re.sub(r"postgresql://\w+@db/shop", dsn, program)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"MRTUNER_STATE_DIR": str(tmp_path), "PGPASSWORD": PASSWORD},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    applied, undone, _, *snippet = done.stdout.splitlines()
    assert re.fullmatch(r"applied [1-9]\d*", applied)
    assert undone == "undone"
    assert "tcp_user_timeout" in "".join(snippet)


def test_a_change_is_shown_before_it_is_made_and_can_be_refused(
    embedded: Cluster, tmp_path: Path
) -> None:
    seen: list[str] = []

    def refuse(proposal: Proposal) -> None:
        seen.extend(step.name for step in proposal.plan.steps)
        raise Refused("not today")

    with Journal(tmp_path) as journal, pytest.raises(Refused, match="not today"):
        apply(embedded.dsn(), journal=journal, memory="16GB", cpus=4, confirm=refuse)
    assert "shared_buffers" in seen
    assert sql(embedded.dsn(), _LEFT) == [(0,)]


def test_an_audit_wants_one_thing_to_look_at() -> None:
    given: dict[str, Any]
    for given in ({}, {"dsn": "host=a", "port": 5432}, {"pid": 1, "port": 5432}):
        with pytest.raises(UsageError, match="nothing to audit"):
            audit(**given)


def test_a_history_gives_the_answer_that_the_command_gives(embedded: Cluster, store: Path) -> None:
    """With a server and without one: it is then the server as recorded."""
    # Free space on this machine's disk changes while the test runs.
    given = MachineInputs(memory="16GB", cpus=4, disk="1TB", wal_disk="1TB")
    options = [word for name, value in given.items()
               for word in (f"--{name.replace('_', '-')}", str(value))]  # fmt: skip
    called = tune(embedded.dsn(), history=store, **given)
    command = ["tune", "--history", str(store), *options, "--json"]
    told = json.loads(run(*command, embedded.dsn()).stdout)
    values = {one["name"]: one["value"] for one in told["advice"]}
    assert {name: item.value for name, item in called.items()} == values
    recorded = tune(history=store, **given)
    assert recorded["shared_buffers"].value == called["shared_buffers"].value == "4GB"
    without = run(*command)
    assert without.exit_code == 0, without.output
    assert json.loads(without.stdout)["advice"][0]["name"] == next(iter(recorded))


def test_what_cannot_be_answered_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--history and --watch") as refused:
        tune("host=nowhere", watch=1, history=tmp_path)
    assert refused.value.hint
    with pytest.raises(UsageError, match="--watch needs a running server"):
        tune(watch="1s")
    with pytest.raises(UsageError):
        vacuum("host=nowhere", history=tmp_path / "none")
    began = time.monotonic()
    with pytest.raises(ConnectError):
        vacuum("host=127.0.0.1 port=9 user=a dbname=b")
    assert time.monotonic() - began < 30


def test_every_answer_has_its_row_on_the_page() -> None:
    from mrtuner import answers

    rows = re.findall(r"(?m)^\| `(?:mrtuner\.)?(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert set(answers.__all__) - {"limits"} <= set(rows)
    assert "| `limits`," in PAGE.read_text(encoding="utf-8")
