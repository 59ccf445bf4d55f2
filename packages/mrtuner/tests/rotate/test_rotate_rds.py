"""The master user of the RDS lab rotates an application's password into Secrets Manager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
from rotating import IMPATIENT, unused

from mrtuner.rotate import RotationStep, rotate
from rdstune.lab import Lab
from servers import binaries, sql

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("major", [15, 18])
def test_the_master_user_takes_a_role_over_and_rotates_it(
    server_lab: Lab, tmp_path: Path, major: int
) -> None:
    """CREATEROLE without superuser: before PostgreSQL 16 that is enough; later, ADMIN is needed."""
    binaries(major)
    rds, service = boto3.client("rds"), boto3.client("secretsmanager")
    rds.create_db_instance(
        DBInstanceIdentifier="shop", Engine="postgres", EngineVersion=str(major),
        DBInstanceClass="db.t4g.micro", AllocatedStorage=20, MasterUsername="master",
        MasterUserPassword="correct horse", DBName="shop",
    )  # fmt: skip
    server_lab.settle()
    master = server_lab.dsn("shop")
    assert sql(master, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [(False,)]
    sql(
        master,
        "CREATE ROLE app LOGIN PASSWORD 'old' CONNECTION LIMIT 20",
        "ALTER ROLE app SET statement_timeout TO '7s'",
        "GRANT app TO CURRENT_USER",
        "CREATE SCHEMA app AUTHORIZATION app",
    )
    arn = service.create_secret(Name=unused("app"), SecretString='{"note": "the shop"}')["ARN"]
    for number, user in enumerate(("app_blue", "app_green", "app_blue")):
        outcome = rotate(
            master, "app", to=f"secretsmanager:{arn}", patience=IMPATIENT, journal=tmp_path
        )
        assert (outcome.rotation.step, outcome.enabled) == (RotationStep.DONE, (user,))
        login = credential(service, arn)
        sql(login, f"CREATE TABLE app.t{number} ()")
        shown = "SELECT session_user, current_user, current_setting('statement_timeout')"
        assert sql(login, shown) == [(user, "app", "7s")]
    assert json.loads(service.get_secret_value(SecretId=arn)["SecretString"])["note"] == "the shop"
    owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'app'"
    assert sql(master, owners) == [("app",)]


def test_who_still_uses_the_old_role_is_named_to_the_master_user(
    server_lab: Lab, tmp_path: Path
) -> None:
    """rds_superuser has pg_monitor, so that addresses are seen."""
    rds = boto3.client("rds")
    rds.create_db_instance(
        DBInstanceIdentifier="shop", Engine="postgres", DBInstanceClass="db.t4g.micro",
        AllocatedStorage=20, MasterUsername="master", MasterUserPassword="correct horse",
    )  # fmt: skip
    server_lab.settle()
    master, secret = server_lab.dsn("shop"), tmp_path / "secret"
    rotate(master, "app", to=f"file:{secret}", patience=IMPATIENT, journal=tmp_path)
    found = json.loads(secret.read_text())
    application = (
        f"host={found['host']} port={found['port']} dbname={found['dbname']} "
        f"user={found['username']} password={found['password']} application_name=nightly"
    )
    with psycopg.connect(application):
        outcome = rotate(master, "app", patience=IMPATIENT, journal=tmp_path)
    assert outcome.holders[0].words.startswith("nightly from 127.0.0.1 on postgres, pid ")
    assert (
        rotate(master, "app", patience=IMPATIENT, journal=tmp_path).rotation.step
        is RotationStep.DONE
    )


def credential(service: Any, arn: str) -> str:
    found = json.loads(service.get_secret_value(SecretId=arn)["SecretString"])
    return (
        f"host={found['host']} port={found['port']} dbname={found['dbname']} "
        f"user={found['username']} password={found['password']}"
    )
