"""`mrtuner rotate` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from json_schemas import assert_valid
from machine import needs
from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from servers import running, sql

ADMIN = "correct horse battery staple"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running(listen=True, password=ADMIN) as cluster:
        yield cluster


@pytest.fixture
def app(server: Cluster, tmp_path: Path) -> App:
    return App(server, tmp_path)


class App:
    """The command for one server, with its own secret and journal."""

    def __init__(self, server: Cluster, place: Path) -> None:
        self.server = server
        self.secret = place / "secret"
        self.state = place / "state"

    def rotate(self, group: str, *more: str, verb: str | None = None) -> Result:
        return CliRunner().invoke(
            main,
            ["rotate", *([verb] if verb else ["--yes"]), self.server.dsn(tcp=True), "--role",
             group, "--idle", "0.2s", "--wait", "0.5s", *more],
            env={"PGPASSWORD": ADMIN, "MRTUNER_STATE_DIR": str(self.state)},
        )  # fmt: skip

    def to_file(self, group: str, *more: str) -> Result:
        return self.rotate(group, "--to", f"file:{self.secret}", *more)

    def login(self) -> str:
        found = json.loads(self.secret.read_text())
        parts = ("host", "port", "dbname", "password")
        shown = " ".join(f"{name}='{found[name]}'" for name in parts)
        return f"{shown} user='{found['username']}'"


def test_it_rotates_and_says_who_is_in_use_but_never_the_password(app: App) -> None:
    assert app.to_file("say").exit_code == 0
    done = app.rotate("say", "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert_valid(document, "mrtuner.rotate/1")
    assert document["enabled"] == ["say_green"]
    assert document["rotation"]["step"] == "done"
    assert json.loads(app.secret.read_text())["password"] not in done.output
    assert sql(app.login(), "SELECT current_user") == [("say",)]


def test_it_ends_with_six_while_somebody_stays_and_with_zero_after(app: App) -> None:
    app.to_file("stay")
    with psycopg.connect(app.login() + " application_name=nightly"):
        waiting = app.to_file("stay")
        assert waiting.exit_code == 6
        assert "still connected: nightly from 127.0.0.1 on postgres, pid" in waiting.output
        status = json.loads(app.rotate("stay", "--json", verb="status").stdout)
        assert status["rotation"]["step"] == "waiting"
        assert [holder["application"] for holder in status["holders"]] == ["nightly"]
        assert status["enabled"] == ["stay_blue", "stay_green"]
    assert app.rotate("stay").exit_code == 0


def test_abort_gives_the_old_secret_back(app: App) -> None:
    app.to_file("back")
    before = app.secret.read_text()
    with psycopg.connect(app.login()):
        app.to_file("back")
        assert app.secret.read_text() != before
        aborted = app.rotate("back", verb="abort")
    assert aborted.exit_code == 0
    assert app.secret.read_text() == before
    assert sql(app.login(), "SELECT session_user") == [("back_blue",)]


def test_a_command_gets_the_secret_on_its_standard_input(app: App) -> None:
    done = app.rotate("piped", "--to", f"tee {app.secret}")
    assert done.exit_code == 0
    assert sql(app.login(), "SELECT session_user") == [("piped_blue",)]
    assert json.loads(app.secret.read_text())["password"] not in done.output


@needs("/proc")
def test_no_argument_of_any_process_has_the_password(app: App, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    look = f"cat > {app.secret}; cat /proc/[0-9]*/cmdline > {seen} 2> /dev/null; true"
    assert app.rotate("unseen", "--to", f"sh -c '{look}'").exit_code == 0
    arguments = seen.read_bytes()
    assert b"unseen" in arguments or b"pytest" in arguments
    assert json.loads(app.secret.read_text())["password"].encode() not in arguments


def test_a_command_that_fails_leaves_the_old_credential_in_force(app: App) -> None:
    app.to_file("firm")
    failed = app.rotate("firm", "--to", "false")
    assert failed.exit_code == 1
    assert "error: false did not accept the secret: exit code 1" in failed.output
    assert sql(app.login(), "SELECT session_user") == [("firm_blue",)]
    assert app.rotate("firm", verb="abort").exit_code == 4


def test_stdout_gets_one_line(app: App) -> None:
    shown = json.loads(app.rotate("lone", "--to", "stdout").stdout)
    assert shown["username"] == "lone_blue"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--to", "stdout", "--json"], 2, "stdout cannot take both the secret and --json"),
        (["--to", "valut:x"], 2, "unknown secret store: 'valut'"),
        ([], 2, "no store is given for the secret"),
    ],
)
def test_what_cannot_be_done_is_said(app: App, options: list[str], code: int, message: str) -> None:
    refused = app.rotate("nothing", *options)
    assert (refused.exit_code, message in refused.output) == (code, True)


def test_there_is_nothing_to_abort_without_a_rotation(app: App) -> None:
    refused = app.rotate("nothing", verb="abort")
    assert (refused.exit_code, "no rotation is in progress" in refused.output) == (1, True)


def test_who_may_not_make_roles_is_told_what_is_missing(app: App) -> None:
    sql(app.server.dsn(), "CREATE ROLE lesser LOGIN PASSWORD 'x'")
    done = CliRunner().invoke(
        main,
        ["rotate", app.server.dsn(user="lesser", tcp=True), "--role", "g", "--yes", "--to",
         f"file:{app.secret}"],
        env={"PGPASSWORD": "x", "MRTUNER_STATE_DIR": str(app.state)},
    )  # fmt: skip
    assert done.exit_code == 1
    assert "not permitted: permission denied to create role" in done.output
    assert "CREATEROLE" in done.output
