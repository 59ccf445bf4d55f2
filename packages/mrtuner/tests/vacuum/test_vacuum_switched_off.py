"""A server on which autovacuum does not run is never told that vacuum keeps up."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from conftest import NewCluster

import command_line
from mrtuner.answers import check
from servers import sql

pytestmark = pytest.mark.timed


run = partial(command_line.run, "vacuum")


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_what_keeps_autovacuum_from_running_is_the_first_thing_to_do(
    new_cluster: NewCluster, name: str
) -> None:
    server = new_cluster()
    command = f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
    sql(server.dsn(), f"ALTER SYSTEM SET {name} = off", "SELECT pg_reload_conf()")
    done = run(server.dsn(), "--check", "--allow-unknown")
    assert done.exit_code == 3
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith(f"first: {name} is off: ")
    assert second.strip() == command
    assert "Autovacuum does not run" in done.stdout
    assert "keeps up" not in done.stdout
    for statement in filter(None, command.split(";")):
        sql(server.dsn(), statement)
    healthy = run(server.dsn(), "--check")
    assert healthy.exit_code == 0, healthy.stdout
    assert "Vacuum keeps up" in healthy.stdout


def test_a_toast_table_that_is_switched_off_alone_counts(new_cluster: NewCluster) -> None:
    server = new_cluster()
    sql(server.dsn(), "CREATE TABLE doc (body text) WITH (toast.autovacuum_enabled = false)")
    told = run(server.dsn()).stdout.splitlines()
    assert "Autovacuum is switched off for 1 table" in told


def test_the_script_for_several_settings_reloads_once_at_its_end(new_cluster: NewCluster) -> None:
    server = new_cluster(settings={"autovacuum": "off", "track_counts": "off"})
    script = run(server.dsn(), "--format", "sql").stdout
    assert [line for line in script.splitlines() if line.startswith(("ALTER", "SELECT"))] == [
        "ALTER SYSTEM SET autovacuum = on;",
        "ALTER SYSTEM SET track_counts = on;",
        "SELECT pg_reload_conf();",
    ]


def test_a_role_that_cannot_see_what_holds_vacuum_back_gets_no_all_clear(
    new_cluster: NewCluster,
) -> None:
    server = new_cluster()
    sql(server.dsn(), "CREATE ROLE app LOGIN")
    as_app = f"{server.dsn()} user=app"
    done = run(as_app, "--check")
    assert done.exit_code == 3
    assert done.stdout.startswith("not judged: what holds back dead rows: ")
    assert "It is not known whether vacuum keeps up" in done.stdout
    assert run(as_app, "--check", "--allow-unknown").exit_code == 0
    told = json.loads(run(as_app, "--json").stdout)
    assert [one["name"] for one in told["unjudged"]] == ["what holds back dead rows"]


@pytest.mark.parametrize(
    ("role", "way"),
    [
        ("rds_superuser", "Change it in the instance's DB parameter group"),
        ("cloudsqlsuperuser", "gcloud sql instances patch --database-flags"),
        ("azure_pg_admin", "az postgres flexible-server parameter set"),
    ],
)
def test_on_a_managed_platform_every_answer_says_its_own_way(
    new_cluster: NewCluster, tmp_path: Path, role: str, way: str
) -> None:
    """Each service is known by a role that it creates; none of them allows ALTER SYSTEM."""
    server = new_cluster(settings={"autovacuum": "off", "track_counts": "off"})
    sql(server.dsn(), f"CREATE ROLE {role}")
    page = tmp_path / "vacuum.html"
    text = run(server.dsn(), "--html", str(page)).stdout
    first = text.splitlines()
    assert first[1].strip().startswith("autovacuum = on. ")
    assert first[3].strip().startswith("track_counts = on. ")
    told = json.loads(run(server.dsn(), "--json").stdout)
    assert [one["name"] for one in told["settings"]] == ["autovacuum", "track_counts"]
    (rates,) = [one["supply"] for one in told["unjudged"] if one["name"] == "rates"]
    script = run(server.dsn(), "--format", "sql").stdout
    found = check(server.dsn(), skip=["free-space"], memory="8GB")
    off = [one for one in found.findings if one.id == "autovacuum-off"]
    assert len(off) == 2
    texts = [
        text, page.read_text().replace("&#39;", "'"), rates, script,
        *(one["remedy"] for one in told["settings"]), *(one.remedy[0] for one in off),
    ]  # fmt: skip
    for each in texts:
        assert way in each
        assert "ALTER SYSTEM" not in each
        assert "pg_reload_conf" not in each
    assert all(line.startswith(("--", "SET lock_timeout")) for line in script.splitlines() if line)
