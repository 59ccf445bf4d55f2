"""The answers as calls in Python: the examples of the docs, and the answers that commands give."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs_pages import DOCS, examples
from history_story import story

from mrtuner.answers import tune, vacuum
from mrtuner.cli import main
from mrtuner.errors import ConnectError, UsageError
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.cluster import Cluster

pytestmark = pytest.mark.timed

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


def test_a_history_gives_the_answer_that_the_command_gives(embedded: Cluster, store: Path) -> None:
    """With a server and without one: it is then the server as recorded."""
    # Free space on this machine's disk changes while the test runs.
    given = MachineInputs(memory="16GB", cpus=4, disk="1TB", wal_disk="1TB")
    options = [word for name, value in given.items()
               for word in (f"--{name.replace('_', '-')}", str(value))]  # fmt: skip
    called = tune(embedded.dsn(), history=store, **given)
    command = ["tune", "--history", str(store), *options, "--json"]
    told = json.loads(CliRunner().invoke(main, [*command, embedded.dsn()]).stdout)
    values = {one["name"]: one["value"] for one in told["advice"]}
    assert {name: item.value for name, item in called.items()} == values
    recorded = tune(history=store, **given)
    assert recorded["shared_buffers"].value == called["shared_buffers"].value == "4GB"
    without = CliRunner().invoke(main, command)
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
