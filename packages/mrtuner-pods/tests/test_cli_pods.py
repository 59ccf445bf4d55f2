"""`mrtuner pods check` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from json_schemas import assert_valid
from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from rdstune.lab import Lab, seed
from servers import sql

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  template:
    spec:
      containers:
        - name: puma
          command: ["bundle", "exec", "puma", "-w", "4"]
          env:
            - {name: DATABASE_URL, value: "postgres://shop:secret@db/shop"}
"""
INI = (
    "[databases]\n* = host=db\n[pgbouncer]\npool_mode = transaction\n"
    "default_pool_size = 10\nmax_client_conn = 500\n"
)


def pods(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["pods", "check", *arguments], input=text)


def told(*arguments: str, text: str | None = None) -> dict[str, Any]:
    done = pods(*arguments, "--json", text=text)
    assert done.exit_code in {0, 3}, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    assert_valid(document, "mrtuner.pods.check/1")
    return document


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "web.yaml").write_text(MANIFEST)
    monkeypatch.chdir(tmp_path)
    return "web.yaml"


def test_the_answer_comes_first_and_3_says_that_it_does_not_fit(manifest: str) -> None:
    """4 pods x 4 processes x 5: 80, and 160 while a rollout runs; 103 - 3 are admitted."""
    done = pods(manifest, "--max-connections", "103", "--memory", "4GB")
    assert done.exit_code == 3
    screen = done.stdout.splitlines()
    assert screen[:12] == [
        "does not fit: 160 connections can be reached during a rollout, and 100 are admitted",
        'the first limit to be exceeded is max_connections, at the stage "first step"',
        "",
        "who connects to the server  can be reached  how",
        "web (Deployment)                       160  8 pods x 4 processes x 5",
        "",
        "stage of a rollout  can be reached",
        "at rest                         80  fits",
        "surge                          100  fits",
        "first step                     120  does not fit",
        "overlap                        160  does not fit, checked",
        "",
    ]
    said = " ".join(done.stdout.split())
    assert (
        "1. fewer: web: at most 3 connections in each pool instead of 5, or at most 2 pods" in said
    )
    assert "  web: pods 4 (web.yaml:5 spec.replicas)" in screen
    assert "  web, puma: processes 4 (web.yaml:9: Puma's option -w)" in screen
    assert "secret" not in done.output


def test_what_fits_ends_with_0_and_needs_no_ways(manifest: str) -> None:
    done = pods(manifest, "--max-connections", "163")
    assert done.exit_code == 0
    assert done.stdout.startswith("fits: at most 160 of 160 connections can be reached during a ")
    assert "three ways" not in done.stdout
    assert told(manifest, "--max-connections", "163")["ways"] is None


def test_options_win_over_the_manifest(manifest: str) -> None:
    """2 processes x 2 databases x 7, in 8 pods: 224."""
    options = ("--workers", "web=2", "--databases", "2", "--pool", "web=7")
    assert told(manifest, *options, "--max-connections", "500")["reachable"] == 224


def test_standard_input_is_a_manifest(manifest: str) -> None:
    piped = told("-", "--max-connections", "500", text=MANIFEST)
    assert piped["reachable"] == told(manifest, "--max-connections", "500")["reachable"] == 160
    assert piped["terms"][0]["where"] == "standard input:2"


@pytest.mark.parametrize(
    ("rollout", "reachable"), [("none", 80), ("surge", 100), ("first-step", 120), ("overlap", 160)]
)
def test_a_rollout_is_counted_as_asked(manifest: str, rollout: str, reachable: int) -> None:
    document = told(manifest, "--max-connections", "500", "--rollout", rollout)
    assert document["reachable"] == reachable


def test_numbers_do_without_a_manifest() -> None:
    """12 x 4 x 5 during a rollout, 3 of monitoring; 400 a second x 12 ms."""
    document = told(
        "--pods", "6", "--workers", "4", "--pool", "5", "--also", "monitoring=3",
        "--max-connections", "200", "--rate", "400/s", "--hold", "12ms",
    )  # fmt: skip
    assert (document["reachable"], document["fits"]) == (243, False)
    assert document["expected"]["value"] == pytest.approx(4.8)


def test_an_unbounded_pool_has_no_number(manifest: str) -> None:
    options = ("--framework", "web=database/sql", "--max-connections", "500")
    assert told(manifest, *options)["reachable"] is None
    done = pods(manifest, *options)
    assert done.stdout.startswith("does not fit: connections are unbounded, and 497 are admitted")
    assert "unbounded: pool of web, puma: default of Go's database/sql since 1.2" in done.stdout
    assert "no number is large enough" in done.stdout


def test_a_pooler_is_between(manifest: str, tmp_path: Path) -> None:
    """Three poolers and one surge pod, ten connections each; 3 x 500 clients."""
    ini = tmp_path / "pgbouncer.ini"
    ini.write_text(INI.replace("host=db", "host=primary"))
    options = ("--pgbouncer", str(ini), "--pooler-pods", "3", "--pooler-surge", "1")
    document = told(manifest, *options, "--max-connections", "100")
    assert (document["reachable"], document["fits"]) == (40, True)
    assert [one["name"] for one in document["clients"]] == ["web"]
    assert document["limits"][-1]["admits"] == 1500


def test_limits_by_number(manifest: str) -> None:
    document = told(manifest, "--max-connections", "500", "--role-limit", "shop=120")
    assert (document["first"], document["fits"]) == ("limit of role shop", False)
    screen = pods(manifest, "--max-connections", "500", "--role-limit", "shop=120").stdout
    assert "overlap                        160  does not fit: limit of role shop, checked" in screen
    assert "  3. larger: limit of role shop = 160\n" in screen


def test_a_running_server_is_asked(manifest: str, embedded: Cluster) -> None:
    (most,) = sql(embedded.dsn(), "SHOW max_connections")[0]
    document = told(manifest, "--database", embedded.dsn())
    assert document["admits"] == int(most) - 3
    assert document["database"].startswith("PostgreSQL 18")
    assert document["open_now"] == 0


def test_an_instance_of_rds_is_asked(manifest: str, lab: Lab) -> None:
    """Its group sets 400; 3 for superusers, 2 reserved and 4 for RDS itself are subtracted."""
    seed.plant(lab, [*seed.example(), {"action": "LabWait"}])
    document = told(manifest, "--database", "rds:shop-staging")
    read = {one["name"]: one for one in document["numbers"] if one["of"] == "database"}
    assert read["max_connections"]["value"] == 400
    assert read["max_connections"]["source"] == "group shop: max_connections = 400"
    assert document["admits"] == 391
    assert any("pending-reboot" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the database's limits are missing"),
        (["--max-connections", "9", "--database", "host=db"], "exclude each other"),
        (["--database", "db"], "neither a connection string nor an instance"),
        (["--database", "host=db", "--reserved", "3"], "--reserved is for a database given"),
        (["--max-connections", "99", "--pods", "2"], "--pods is for use without a manifest"),
        (["--max-connections", "99", "--direct", "web"], "the pooler's settings are not known"),
        (["--max-connections", "99", "--pool", "web="], "--pool 'web=' has no value"),
        (["--max-connections", "99", "--pool", "web=1e3"], "--pool 'web=1e3' is not a number"),
        (["--max-connections", "99", "--pool", "web=1", "--pool", "web=2"], "given twice for web"),
        (["--max-connections", "99", "--also", "5"], "--also 5 has no name"),
        (["--max-connections", "99", "--rate", "fast", "--hold", "1s"], "cannot read 'fast' as"),
        (["--max-connections", "99", "--rate", "5/s"], "require each other"),
        (["--max-connections", "99", "--pgbouncer", "nowhere.ini"], "cannot read nowhere.ini"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said(manifest: str, arguments: list[str], said: str) -> None:
    done = pods(manifest, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "HINT:" in done.stderr


def test_a_pool_alone_is_not_for_pods_without_a_manifest() -> None:
    for arguments, said in (
        (["--pods", "2"], "the pool of the pods is missing"),
        (["--pods", "2", "--pool", "web=3"], "--pool web=… needs a manifest"),
        (["postgresql://db/shop"], "is no manifest"),
        (["-", "-"], "standard input can be read only once"),
        (["missing.yaml"], "cannot read missing.yaml"),
    ):
        done = pods(*arguments, "--max-connections", "100", text="")
        assert done.exit_code == 2
        assert said in done.stderr
