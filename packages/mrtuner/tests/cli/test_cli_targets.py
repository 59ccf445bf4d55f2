"""Targets are written alike everywhere; a command names another that accepts the target."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from command_line import run
from mrtuner.answers.targets import TargetKind, kind_of
from mrtuner.postgres.cluster import Cluster
from rdstune.cli import rdstune


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("postgresql://app@db/shop", TargetKind.SERVER),
        ("host=/run/postgresql dbname=app", TargetKind.SERVER),
        ("local", TargetKind.LOCAL),
        ("rds:shop", TargetKind.RDS),
        ("metrics.csv", TargetKind.FILE),
        ("/tmp/metrics", TargetKind.FILE),
        ("shop-1", TargetKind.NAME),
    ],
)
def test_what_a_target_names(text: str, kind: TargetKind) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize("command", ["apply", "undo"])
def test_an_instance_is_sent_to_the_same_command_of_rdstune(command: str) -> None:
    done = run(command, "rds:shop")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: rds:shop is an instance of Amazon RDS\n"
        f"HINT: Run rdstune {command} shop, or give its connection string.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["tune", "rds:shop"], "Run rdstune diff shop, or give its connection string."),
        (["vacuum", "rds:shop"], "Give its connection string."),
        (["tune", "mrtuner.conf"], "Write postgresql://host/db."),
        (
            ["tune", "--memory", "4GB", "foo"],
            "Write postgresql://user@host:5432/dbname, and keep the password in PGPASSWORD or "
            "~/.pgpass.",
        ),
    ],
)
def test_what_a_command_has_no_use_for_is_refused(arguments: list[str], hint: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"HINT: {hint}\n")


def test_a_bare_word_is_told_what_it_is_not() -> None:
    done = run("tune", "--memory", "4GB", "foo")
    assert "a word in it is neither a URI nor name=value" in done.stderr
    assert "…" not in done.stderr


@pytest.mark.parametrize("target", ["postgresql://db/app", "local", "group.json"])
def test_rdstune_takes_instances_only(target: str) -> None:
    done = CliRunner().invoke(rdstune, ["diff", target])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {target} is not an instance of Amazon RDS\n")


def test_local_is_the_server_that_psql_finds(
    embedded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in embedded.dsn().split():
        name, _, value = word.partition("=")
        variable = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        monkeypatch.setenv(variable.get(name, f"PG{name.upper()}"), value)
    done = run("tune", "local", "--json")
    assert done.exit_code == 0, done.stderr
    assert '"live": true' in done.stdout
