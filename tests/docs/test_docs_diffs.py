"""The diffs of CONTRIBUTING.md apply to this source, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrtuner.postgres.cluster import Cluster
from servers import ROOT

DIFFS = re.findall(
    r"^```diff\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M | re.S
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a copy of the packages' sources, with all diffs applied."""
    place = tmp_path_factory.mktemp("contributed")
    ours = shutil.ignore_patterns("__pycache__")
    for package in (ROOT / "packages").iterdir():
        shutil.copytree(package / "src", place / "packages" / package.name / "src", ignore=ours)
    assert len(DIFFS) == 6
    for diff in DIFFS:
        subprocess.run(["git", "apply", "-"], input=diff, cwd=place, text=True, check=True)
    return place


def run(source: Path, program: str, *arguments: str) -> str:
    sources = os.pathsep.join(map(str, source.glob("packages/*/src")))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": sources}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in {0, 3}, done.stderr
    return done.stdout


MRTUNER = "from mrtuner.cli import main; main()"


def test_the_rule_and_the_format_are_found(source: Path) -> None:
    text = run(source, MRTUNER, "tune", "--memory", "16GB", "--cpus", "4", "--format", "csv")
    assert text.startswith("name,value,restart,reason\n")
    assert "\nlog_recovery_conflict_waits,on,False,shows what holds up a standby\n" in text
    program = "import mrtuner.formats, sys; print(mrtuner.formats.parse('csv', sys.argv[1]))"
    assert "'log_recovery_conflict_waits': 'on'" in run(source, program, text)


def test_the_client_stack_is_found(source: Path) -> None:
    text = run(source, MRTUNER, "failover", "settings", "--stack", "lib/pq", "--within", "20s")
    assert "pq.NewConnector" in text


def test_the_plan_is_found(source: Path) -> None:
    plan = source / "examples" / "key-lookup.toml"
    text = run(source, MRTUNER, "bench", "run", str(plan), "--forecast")
    assert text.startswith("key-lookup: 2 cells, 2 variants")


def test_the_check_finds(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "main.tf"
    file.write_text(
        """
resource "aws_db_parameter_group" "app" {
  name   = "app"
  family = "postgres17"
  parameter {
    name  = "jit"
    value = "0"
  }
}
"""
    )
    text = run(source, MRTUNER, "rds", "lint", str(file), "--json")
    assert '"jit-off"' in text


COMMENT = """
import sys
from pathlib import Path
from mrtuner.change.comment import DatabaseComment
from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, ParameterChange
from mrtuner.change.transaction import unobserved
from mrtuner.postgres.connect import connect

dsn, state = sys.argv[1:]
entry = ParameterChange(name="postgres", before=None, after="ours", restart=False, in_force="")
with connect(dsn) as conn, Journal(Path(state)) as journal:
    change = Change(
        server="comment", address="here", method="comment", entries=(entry,), restarts=False
    )
    def now():
        query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
        return conn.execute(query, ("postgres",)).fetchone()[0]
    conn.execute("COMMENT ON DATABASE postgres IS NULL")
    under_way = DatabaseComment(conn, journal, journal.begin(change), unobserved)
    under_way.carry_out()
    print(now(), end=" ")
    print(under_way.at_target(), end=" ")
    print(under_way.put_back().result, now())
"""


def test_the_adapter_changes_and_puts_back(source: Path, embedded: Cluster, tmp_path: Path) -> None:
    assert run(source, COMMENT, embedded.dsn(), str(tmp_path)) == "ours True reverted None\n"
