"""What `mrtuner failover rehearse` refuses before it begins, leaving nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from mrtuner.rehearsal.ledger import SCHEMA_PREFIX
from rdstune.lab import Lab
from servers import sql

NOWHERE = "host=127.0.0.1 port=1 dbname=x user=app"


def run(dsn: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["failover", "rehearse", dsn, *more], prog_name="mrtuner")


def schemas(cluster: Cluster) -> int:
    query = f"SELECT count(*)::int FROM pg_namespace WHERE nspname LIKE '{SCHEMA_PREFIX}%'"
    count: int = sql(cluster.dsn(), query)[0][0]
    return count


@pytest.fixture
def reader(embedded: Cluster) -> Iterator[str]:
    """A role that may not create a schema."""
    sql(embedded.dsn(), "CREATE ROLE rehearsal_reader LOGIN")
    yield embedded.dsn(user="rehearsal_reader")
    sql(embedded.dsn(), "DROP ROLE rehearsal_reader")


def test_without_yes_and_without_a_terminal_it_is_refused_after_saying_what_it_would_do(
    embedded: Cluster,
) -> None:
    done = run(embedded.dsn(), "--trigger", "true")
    assert done.exit_code == 4
    assert "cannot ask for confirmation" in done.stderr
    assert "planned: run true" in done.stderr
    assert SCHEMA_PREFIX in done.stderr
    assert "stops after 600 s" in done.stderr
    assert schemas(embedded) == 0


def test_a_server_that_cannot_be_reached_is_said() -> None:
    done = run(NOWHERE, "--trigger", "true", "--yes")
    assert done.exit_code == 1
    assert "nothing is listening there" in done.stderr


@pytest.mark.parametrize(
    ("trigger", "code", "says"),
    [
        ("no-such-program --now", 2, "program 'no-such-program' not found"),
        ("sh -c 'unclosed", 2, "cannot read the command: no closing quotation"),
        ("", 2, "the command is empty"),
        ("rds:", 2, "the instance is missing"),
        ("patroni:db1", 2, "cannot read the address of Patroni"),
        ("patroni:http://127.0.0.1:1", 1, "Patroni at http://127.0.0.1:1 does not respond"),
    ],
)
def test_a_trigger_that_cannot_be_had_is_said_before_the_server_is_asked(
    trigger: str, code: int, says: str
) -> None:
    """The server cannot be reached either, but the trigger is reported first."""
    done = run(NOWHERE, "--trigger", trigger, "--yes")
    assert done.exit_code == code
    assert says in done.stderr


def test_patronis_password_is_never_shown() -> None:
    done = run(NOWHERE, "--trigger", "patroni:http://me:s3cret@127.0.0.1:1", "--yes")
    assert "does not respond" in done.stderr
    assert "s3cret" not in done.output


def test_who_may_not_create_the_ledger_is_told_of_reads_alone(
    embedded: Cluster, reader: str
) -> None:
    done = run(reader, "--trigger", "true", "--yes")
    assert done.exit_code == 1
    assert "may not create a schema for the ledger" in done.stderr
    assert "--no-write" in done.stderr
    alone = run(reader, "--trigger", "true", "--no-write")
    assert alone.exit_code == 4
    assert "of 3 kinds" in alone.stderr
    assert SCHEMA_PREFIX not in alone.stderr
    assert schemas(embedded) == 0


def test_more_sessions_than_the_server_has_free_are_refused(embedded: Cluster) -> None:
    done = run(embedded.dsn(), "--trigger", "true", "--yes", "--connections", "200")
    assert done.exit_code == 2
    assert "the probes may need 1005 sessions" in done.stderr


def test_a_probe_given_up_too_early_could_not_tell(embedded: Cluster) -> None:
    given = ("--within", "20s", "--give-up", "10s")
    done = run(embedded.dsn(), "--trigger", "true", "--yes", *given)
    assert done.exit_code == 2
    assert "cannot show whether a client waits 20 s" in done.stderr


def test_a_report_that_could_not_be_written_is_said_before_anything_is_asked() -> None:
    done = run(NOWHERE, "--trigger", "true", "--yes", "--html", "/no/such/directory/x.html")
    assert done.exit_code == 2
    assert "there is no directory /no/such/directory" in done.stderr


def test_an_instance_tagged_production_is_refused(lab: Lab) -> None:
    from mrtuner.aws.session import client

    client("rds").create_db_instance(
        DBInstanceIdentifier="shop", Engine="postgres", EngineVersion="18", MultiAZ=True,
        DBInstanceClass="db.t4g.micro", AllocatedStorage=20, MasterUsername="app",
        MasterUserPassword="not-a-secret", Tags=[{"Key": "stage", "Value": "prod"}],
    )  # fmt: skip
    lab.settle()
    done = run(NOWHERE, "--trigger", "rds:shop", "--yes")
    assert done.exit_code == 4
    assert "tagged stage=prod" in done.stderr


def test_an_instance_that_is_not_there_is_said(lab: Lab) -> None:
    done = run(NOWHERE, "--trigger", "rds:shop", "--yes")
    assert done.exit_code == 1
    assert "shop" in done.stderr
