"""The real PostgreSQL behind lab instances: it runs the values that were predicted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab_calls import REBOOT, change, client, instance, new_group, one, status
from labs import lead_to
from mrtuner.errors import MissingPart
from rdstune.lab import Lab
from rdstune.lab.servers.running import Servers
from rdstune.lab.servers.settings import arranged
from waiting import until

pytestmark = pytest.mark.timed

#: By hand: DBInstanceClassMemory of 1 GiB less a third; small enough for any machine.
MEMORY = 700 * 1024**2


@pytest.fixture(scope="module")
def running_lab() -> Iterator[Lab]:
    """One lab for all tests here; its instance has a class with MEMORY and its own group."""
    with Lab(servers=True) as lab, pytest.MonkeyPatch.context() as patch:
        lead_to(lab, patch)
        lab.set_memory("db.t4g.micro", MEMORY)
        new_group(client(), family="postgres18")
        client().create_db_instance(
            DBInstanceIdentifier="one", DBInstanceClass="db.t4g.micro", Engine="postgres",
            EngineVersion="18", AllocatedStorage=20, MasterUsername="postgres",
            MasterUserPassword="correct horse", DBParameterGroupName="pg", DBName="shop",
            MultiAZ=True,
        )  # fmt: skip
        yield lab


@pytest.fixture
def server_lab(running_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """`running_lab` with its group reset to the defaults."""
    lead_to(running_lab, monkeypatch)
    until(lambda: status(client())[0] in ("available", "incompatible-parameters"))
    client().reset_db_parameter_group(DBParameterGroupName="pg", ResetAllParameters=True)
    if status(client()) != ("available", "in-sync"):
        running_lab.settle()
        client().reboot_db_instance(DBInstanceIdentifier="one")
    running_lab.settle()
    assert status(client()) == ("available", "in-sync")
    return running_lab


@pytest.fixture
def rds(server_lab: Lab) -> Any:
    return client()


def ask(lab: Lab, query: str) -> Any:
    with psycopg.connect(lab.dsn("one"), autocommit=True, connect_timeout=5) as conn:
        return conn.execute(query.encode()).fetchall()


def setting(lab: Lab, name: str) -> str:
    with psycopg.connect(lab.dsn("one"), autocommit=True, connect_timeout=5) as conn:
        row = conn.execute("select setting from pg_settings where name = %s", [name]).fetchone()
    assert row is not None, name
    return str(row[0])


def test_the_defaults_of_the_family_run_as_their_formulas_say(server_lab: Lab, rds: Any) -> None:
    """By hand: 700 MiB / 32768 = 22,400 pages; / 16384 = 44,800; / 9531392 = 77 connections."""
    assert setting(server_lab, "shared_buffers") == "22400"
    assert setting(server_lab, "effective_cache_size") == "44800"
    assert setting(server_lab, "max_connections") == "77"
    assert ask(server_lab, "show rds.force_ssl") == [("1",)]
    assert set(server_lab.aside("one")) >= {"huge_pages", "ssl", "listen_addresses"}


def test_every_value_of_the_group_is_read_from_the_labs_file(server_lab: Lab, rds: Any) -> None:
    """PostgreSQL itself reports which file each setting comes from."""
    from_file = ask(
        server_lab, "select name from pg_settings where sourcefile like '%/lab.conf' order by 1"
    )
    plain = {name for name in server_lab.instance("one").running if "." not in name}
    expected = plain - set(server_lab.aside("one")) | {"huge_pages", "fsync"}
    assert {name.lower() for (name,) in from_file} == expected
    assert len(expected) > 40


def test_the_endpoint_is_the_servers_own_and_the_master_is_no_superuser(
    server_lab: Lab, rds: Any
) -> None:
    endpoint = instance(rds)["Endpoint"]
    with psycopg.connect(
        host=endpoint["Address"], port=endpoint["Port"], user="postgres",
        password="correct horse", dbname="shop",
    ) as conn:  # fmt: skip
        superuser = conn.execute("select rolsuper from pg_roles where rolname = current_user")
        assert superuser.fetchone() == (False,)
        assert conn.execute("select pg_has_role('rds_superuser', 'member')").fetchone() == (True,)
    assert "correct horse" not in server_lab.dsn("one")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host=endpoint["Address"], port=endpoint["Port"], user="postgres",
            password="wrong", dbname="shop",
        )  # fmt: skip


def test_a_dynamic_change_is_reloaded_and_a_static_one_waits(server_lab: Lab, rds: Any) -> None:
    change(
        rds,
        one("work_mem", "{DBInstanceClassMemory/204800}"),
        one("max_connections", "50", REBOOT),
    )
    until(lambda: status(rds)[1] == "pending-reboot")
    assert setting(server_lab, "work_mem") == "3584"
    assert setting(server_lab, "max_connections") == "77"
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    until(lambda: status(rds) == ("available", "in-sync"))
    assert setting(server_lab, "max_connections") == "50"
    rds.reset_db_parameter_group(DBParameterGroupName="pg", ResetAllParameters=True)
    until(lambda: status(rds)[1] == "pending-reboot")
    assert setting(server_lab, "work_mem") == "4096"


def test_a_value_that_only_the_server_refuses_fails_to_apply(server_lab: Lab, rds: Any) -> None:
    """The family lists no AllowedValues for timezone, so the API takes any text."""
    change(rds, one("timezone", "Nowhere/Nothing"), one("work_mem", "8192"))
    until(lambda: status(rds)[1] == "failed-to-apply")
    assert ask(server_lab, "show timezone") == [("UTC",)]
    change(rds, one("timezone", "Europe/Berlin"))
    until(lambda: status(rds)[1] == "in-sync")
    assert ask(server_lab, "show timezone") == [("Europe/Berlin",)]


def test_a_reboot_is_an_outage_and_data_outlives_it(server_lab: Lab, rds: Any) -> None:
    with psycopg.connect(server_lab.dsn("one"), autocommit=True) as conn:
        conn.execute("create table kept (x int)")
        conn.execute("insert into kept values (1)")
    port = instance(rds)["Endpoint"]["Port"]
    rds.reboot_db_instance(DBInstanceIdentifier="one", ForceFailover=True)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server_lab.dsn("one"), connect_timeout=2)
    until(lambda: status(rds)[0] == "available")
    assert instance(rds)["Endpoint"]["Port"] == port
    assert ask(server_lab, "select x from kept") == [(1,)]


def test_a_server_that_does_not_start_is_incompatible_parameters(server_lab: Lab, rds: Any) -> None:
    """PostgreSQL wants superuser_reserved_connections + reserved_connections below the maximum."""
    change(rds, one("max_connections", "6", REBOOT), one("reserved_connections", "5", REBOOT))
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    until(lambda: status(rds)[0] == "incompatible-parameters")
    assert "max_connections" in server_lab.events("one")[-1].message
    rds.reset_db_parameter_group(DBParameterGroupName="pg", ResetAllParameters=True)
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    until(lambda: status(rds) == ("available", "in-sync"))
    assert setting(server_lab, "max_connections") == "77"


def test_a_clusters_members_have_one_server_which_goes_with_the_last_of_them(
    server_lab: Lab,
) -> None:
    there = client("eu-west-1")
    there.create_db_cluster(
        DBClusterIdentifier="aurora", Engine="aurora-postgresql", EngineVersion="18",
        MasterUsername="m", MasterUserPassword="correct horse",
    )  # fmt: skip
    for name in ("a", "b"):
        there.create_db_instance(
            DBInstanceIdentifier=name, DBInstanceClass="db.t4g.medium",
            Engine="aurora-postgresql", DBClusterIdentifier="aurora",
        )  # fmt: skip
    server_lab.settle()
    ports = {instance(there, name)["Endpoint"]["Port"] for name in ("a", "b")}
    cluster = there.describe_db_clusters()["DBClusters"][0]
    assert ports == {cluster["Port"]}
    with psycopg.connect(server_lab.dsn("a", "eu-west-1"), autocommit=True) as conn:
        conn.execute("create table kept as select 1 as x")
    there.failover_db_cluster(DBClusterIdentifier="aurora")
    server_lab.settle()
    with psycopg.connect(server_lab.dsn("b", "eu-west-1")) as conn:
        assert conn.execute("select x from kept").fetchall() == [(1,)]
    directory = passfile(server_lab.dsn("b", "eu-west-1")).parent
    for name in ("a", "b"):
        assert directory.exists()
        there.delete_db_instance(DBInstanceIdentifier=name)
        server_lab.settle()
    assert not directory.exists()


def test_a_version_that_is_not_on_this_machine_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="no program postgres"):
        Servers({13: tmp_path}).offers(13)


LAB = """
import sys, time
from rdstune.lab import Lab, seed
lab = Lab(servers=True).start()
steps = [step for step in seed.example() if "staging" not in str(step)]
seed.plant(lab, steps)
print(lab.dsn("shop-production"), flush=True)
time.sleep(60)
"""


@pytest.fixture
def other_lab() -> Iterator[subprocess.Popen[str]]:
    """A lab in a process of its own, with one server."""
    process = subprocess.Popen([sys.executable, "-c", LAB], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_nothing_is_left_of_a_lab_that_was_killed(other_lab: subprocess.Popen[str]) -> None:
    assert other_lab.stdout is not None
    dsn = other_lab.stdout.readline()
    directory = passfile(dsn).parent
    pid = int((directory / "data" / "postmaster.pid").read_text().split("\n")[0])
    other_lab.send_signal(signal.SIGKILL)
    until(lambda: not directory.exists())
    until(lambda: not running(pid))


def passfile(dsn: str) -> Path:
    return Path(dict(part.split("=", 1) for part in dsn.split())["passfile"])


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_cannot_be_set_here_is_kept_aside_with_its_reason() -> None:
    result = arranged(
        {
            "work_mem": "4096",
            "huge_pages": "on",
            "ssl": "1",
            "apg_of_aurora": "1",
            "rds.logical_replication": "1",
            "shared_preload_libraries": "pg_stat_statements,pg_cron",
        },
        18,
        ["pg_stat_statements"],
    )
    assert result.settings == {
        "work_mem": "4096",
        "huge_pages": "try",
        "rds.logical_replication": "1",
        "wal_level": "logical",
        "shared_preload_libraries": "pg_stat_statements",
        "fsync": "off",
    }
    assert set(result.aside) == {
        "huge_pages", "ssl", "apg_of_aurora", "shared_preload_libraries", "fsync",
    }  # fmt: skip
    assert "work_mem = '4096'\n" in result.text()
