"""mrtuner pods plan as a user runs it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from time import monotonic

import psycopg
import pytest
import yaml

import command_line
from json_schemas import assert_valid
from mrtuner.postgres.cluster import Cluster

pytestmark = pytest.mark.usefixtures("short_simulations")

LOAD = ("--rate", "100/s", "--service-time", "27ms", "--wait-p95", "20ms")


run = partial(command_line.run, "pods", "plan")


def test_the_text_begins_with_the_answer_and_its_reason() -> None:
    done = run(*LOAD, "--now", "3x2")
    assert done.exit_code == 0, done.stderr
    answer, reason, *rest = done.stdout.splitlines()
    assert answer.startswith("Run 2 pods with ")
    assert "95 % of the requests" in answer
    assert reason.startswith("The binding stage is the workers: ")
    assert rest[0] == ""
    assert any(row.startswith("now              3 pods with 2 workers: p95") for row in rest)
    assert all(len(row) <= 100 for row in done.stdout.splitlines())


def test_the_document_is_the_only_thing_on_stdout() -> None:
    done = run(*LOAD, "--json")
    told = json.loads(done.stdout)
    assert_valid(told, "mrtuner.pods.plan/1")
    assert (told["load"]["rate"], told["load"]["service_time"]) == (100, 0.027)
    assert run(*LOAD, "--format", "json").stdout == done.stdout


def test_a_file_of_measured_times_is_read_with_its_units(tmp_path: Path) -> None:
    times = tmp_path / "times.txt"
    times.write_text("# of a day\n" + "10ms\n0.044s\n\n" * 200, encoding="utf-8")
    done = run("--rate", "100/s", "--samples", str(times), "--json")
    load = json.loads(done.stdout)["load"]
    assert (load["samples"], load["service_time"]) == (400, pytest.approx(0.027))


def test_a_line_that_is_no_time_is_named(tmp_path: Path) -> None:
    times = tmp_path / "times.txt"
    times.write_text("10ms\n12\n", encoding="utf-8")
    done = run("--rate", "100/s", "--samples", str(times))
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"error: {times}, line 2: no unit in time '12'",
        "HINT: Write one time per line, such as 27ms.",
    ]


def test_a_format_is_written_alone(tmp_path: Path) -> None:
    done = run(*LOAD, "--format", "kubernetes")
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load(done.stdout)["spec"]["replicas"] >= 2
    assert "cpu:" not in done.stdout  # unknown, as the text says
    assert "cpu:" in run(*LOAD, "--cpu-time", "9ms", "--format", "kubernetes").stdout


def test_the_page_and_the_picture_show_the_point(tmp_path: Path) -> None:
    page, svg, png = (tmp_path / name for name in ("plan.html", "plan.svg", "plan.png"))
    done = run(
        *LOAD, "--cpu-time", "9ms", "--now", "3x2", "--html", str(page), "--picture", str(svg)
    )
    assert done.exit_code == 0, done.stderr
    assert "now: " in svg.read_text(encoding="utf-8")
    assert "var(--" not in svg.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert "Run 2 pods with" in text
    assert "now: " in text
    assert run(*LOAD, "--picture", str(png)).exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_the_pools_of_pgbouncer() -> None:
    from mrtuner.documents import read
    from mrtuner_pods.planning.document import PodsPlanDocument
    from mrtuner_pods.planning.page import page

    told = json.loads(run(*LOAD, "--json").stdout)
    told["pools"] = [
        {"database": "shop", "user": "app", "mode": "transaction", "clients": 12, "waiting": 3,
         "longest_wait": 0.02, "servers": 8, "idle": 1}
    ]  # fmt: skip
    text = page(read(told, PodsPlanDocument))
    assert '<caption id="pools">Pool of PgBouncer</caption>' in text
    assert '<th scope="row">app in shop (transaction)</th><td class="n">12</td>' in text


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    done = run(*LOAD, "--picture", str(tmp_path / "plan.gif"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "HINT: Name a file that ends in .svg or .png." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "error", "hint"),
    [
        (("--rate", "400", "--service-time", "27ms"), 2, "no unit in rate '400'", "400/s"),
        (("--rate", "400/s", "--service-time", "27"), 2, "no unit in --service-time '27'", "27ms"),
        (("--rate", "400/s"), 2, "no service time is given", "file of measured times"),
        (("--service-time", "27ms"), 2, "no rate is given", "400/s"),
        (
            ("--rate", "400/s", "--service-time", "27ms", "--pods", "2", "--workers", "5"), 4,
            "unstable: 400/s x 27 ms keep 10.8 workers busy, and there are 10: needs 11",
            "11 or more",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_ends_with_an_error_and_its_hint(
    arguments: tuple[str, ...], code: int, error: str, hint: str
) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    said, told = done.stderr.splitlines()
    assert said.startswith("error: ")
    assert error in said
    assert told.startswith("HINT: ")
    assert hint in told


def test_logins_are_counted_on_a_real_server(embedded: Cluster) -> None:
    """The server counts its own sessions: all of ours, and those of the test."""
    with psycopg.connect(embedded.dsn(), autocommit=True) as session:
        before = _sessions(session)
        done = run(*LOAD, "--measure-logins", embedded.dsn(), "--json")
        assert done.exit_code == 0, done.stderr
        logins = json.loads(done.stdout)["storm"]["logins"]
        assert logins > 1
        limit = monotonic() + 60  # backends report their sessions as they end
        while _sessions(session) < before + 2 * logins:
            assert monotonic() < limit, "the server has counted fewer"


def _sessions(session: psycopg.Connection[tuple[int]]) -> int:
    row = session.execute("SELECT sum(sessions)::int FROM pg_stat_database").fetchone()
    assert row is not None
    return row[0]


def test_logins_are_given_or_counted_not_both() -> None:
    nobody = "postgresql://nobody@127.0.0.1:9/none"
    done = run(*LOAD, "--logins", "20/s", "--measure-logins", nobody)
    assert done.exit_code == 2
    assert "both given" in done.stderr
