"""Sources that are programs: the host of a server, and what an installed package adds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster
from history_recorder import recorder, samples

from machine import needs
from mrtuner.errors import BadValue
from mrtuner.history.recording.program import Place, Rows
from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.source import Source, built_in, of_program
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from servers import ROOT
from waiting import until

DECLARATION = """
help = "Messages of a broker, by queue"
interval = "1s"

[keys]
queue = {help = "its name"}

[gauges]
waiting = {help = "messages that wait"}
"""

PACKAGE = f"""
class Broker:
    declaration = '''{DECLARATION}'''

    def open(self, place):
        assert place.postmaster is not None
        return lambda: [{{"queue": "mail", "waiting": 42}}]

broker = Broker()
"""


def package(directory: Path, module: str, point: str = "broker = shop_metrics:broker") -> None:
    """Install a package by hand: its module, and the metadata of its wheel."""
    (directory / "shop_metrics.py").write_text(module)
    about = directory / "shop_metrics-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-metrics\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[mrtuner.sources]\n{point}\n")


def with_package(directory: Path) -> dict[str, str]:
    """The environment of a program that finds the package."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}


def program(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from mrtuner.cli import main; main()", *arguments],
        env=with_package(directory), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_a_source_of_an_installed_package_is_recorded(embedded: Cluster, tmp_path: Path) -> None:
    package(tmp_path, PACKAGE)
    store = str(tmp_path / "store")
    with recorder(tmp_path / "store", embedded.dsn(), env=with_package(tmp_path)):
        until(lambda: samples(tmp_path / "store", "broker"))
    asked = "SELECT DISTINCT queue, waiting FROM broker"
    told = program(tmp_path, "history", "query", asked, "--dir", store, "--format", "csv")
    assert told.stdout.split() == ["queue,waiting", "mail,42"]


def test_the_example_of_the_page_is_recorded(embedded: Cluster, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "record-history.md").read_text(encoding="utf-8")
    page = page.partition("### What SQL cannot see")[2].partition("\n## ")[0]
    blocks = dict(re.findall(r"^```(python|toml)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    package(tmp_path, blocks["python"], blocks["toml"].splitlines()[1].replace('"', ""))
    store = str(tmp_path / "store")
    done = program(tmp_path, "record", embedded.dsn(), "--dir", store, "--for", "2s")
    assert done.returncode == 0, done.stderr
    told = program(tmp_path, "history", "views", "backups", "--dir", store)
    assert "size of all backups" in told.stdout


@pytest.mark.parametrize(
    ("module", "point", "why"),
    [
        ("broken(", "broker = shop_metrics:broker", "SyntaxError"),
        ("broker = 1", "broker = shop_metrics:broker", "lacks a declaration or an open()"),
        (PACKAGE, "wal = shop_metrics:broker", "is the name of a built-in source"),
        (PACKAGE, "my-broker = shop_metrics:broker", "its name may contain only"),
        (PACKAGE.replace("help", "helf"), "broker = shop_metrics:broker", "has no help"),
    ],
)
def test_a_package_that_declares_no_source_is_named(
    module: str, point: str, why: str, tmp_path: Path
) -> None:
    package(tmp_path, module, point)
    store = tmp_path / "store"
    done = program(tmp_path, "record", "host=127.0.0.1 port=9", "--dir", str(store))
    assert done.returncode == 2
    assert why in done.stderr
    assert "HINT: " in done.stderr
    assert not store.exists()


class Program:
    """A program as a user may write it."""

    declaration = DECLARATION

    def __init__(self, rows: Rows | None) -> None:
        self.rows = rows

    def open(self, place: Place) -> Rows | None:
        """Return the rows that the test gave."""
        return self.rows


def fails() -> Iterable[Mapping[str, Any]]:
    raise ConnectionRefusedError("the broker is down")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (None, "nothing it could sample"),
        (fails, "ConnectionRefusedError: the broker is down"),
        (lambda: [{"queue": "mail"}], "no column waiting"),
        (lambda: [{"queue": "mail", "waiting": "many"}], "no integer"),
    ],
)
def test_a_program_that_fails_is_missing_until_it_works(
    rows: Rows | None, why: str, embedded: Cluster
) -> None:
    broker = Program(rows)
    source = of_program("broker", broker)
    with connect(embedded.dsn()) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        assert sampler.sample(source) is None
        assert why in sampler.missing["broker"].why
        assert sampler.sample(built_in()["wal"]) is not None
        works = of_program("broker", Program(lambda: [{"queue": "mail", "waiting": 1}]))
        sampler = Sampler(conn, missing=sampler.missing)
        assert sampler.sample(works) is not None
        assert "broker" not in sampler.missing


def test_a_declaration_that_is_not_understood_is_refused() -> None:
    broken = Program(None)
    broken.declaration = "help = "
    with pytest.raises(BadValue, match="Invalid value"):
        of_program("broker", broken)


def column(sample: SourceSample, name: str) -> Any:
    place = [one.name for one in sample.source.columns].index(name)
    (row,) = sample.rows
    return row.values[place]


@needs("/proc")
def test_the_host_of_a_local_server_is_sampled(new_cluster: NewCluster) -> None:
    """Half a second of CPU time, and 16 MB written and flushed, are seen in the counters."""
    host: Source = built_in()["host"]
    with connect(new_cluster().dsn()) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        before = sampler.sample(host)
        conn.execute("SET statement_timeout = 0")
        conn.execute("SET default_transaction_read_only = off")
        conn.execute(
            "CREATE TABLE public.filled AS SELECT repeat('x', 900) FROM generate_series(1, 20000)"
        )
        conn.execute("CHECKPOINT")
        burn = (
            "DO $$ BEGIN WHILE clock_timestamp() < now() + interval '0.5 s' LOOP END LOOP; END $$"
        )
        conn.execute(burn)
        after = sampler.sample(host)
    assert before is not None
    assert after is not None
    used = column(after, "cpu_user") - column(before, "cpu_user")
    assert used > 0.2
    assert 0 < column(after, "memory_available") < 2**50
    assert column(after, "cpus") == len(os.sched_getaffinity(0))
    if column(after, "device") is not None:  # none in a container on an overlay
        written = column(after, "disk_written_bytes") - column(before, "disk_written_bytes")
        assert written > 8 * 2**20


def test_the_host_of_a_server_elsewhere_is_not_known() -> None:
    program = built_in()["host"].program
    assert program is not None
    assert program.open(Place(postmaster=None, data_directory="/data")) is None
