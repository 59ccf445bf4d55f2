"""Stores that cannot be read back: a secret that was delivered keeps working, whatever happens.

The application here knows nothing of rotations. It keeps logging in with the secret that the store
delivered last; the store is a program that may or may not keep what it is given.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from rotating import ADMIN, Applications, admin, login, may_login, rotate, running, unused

from machine import needs
from mrtuner.postgres.cluster import Cluster
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed

#: The store's command: the file $MODE says what to do with the secret on standard input, $SECRET is
#: where the application reads it, and the parent process is the one that rotates.
PUT = """#!/bin/sh
given=$(cat)
deliver() { printf '%s' "$given" > "$SECRET.new" && mv "$SECRET.new" "$SECRET"; }
case $(cat "$MODE") in
  takes) deliver ;;
  kills-before) kill -9 $PPID ;;
  kills-after) deliver; kill -9 $PPID ;;
  fails-after) deliver; exit 1 ;;
  down) exit 1 ;;
esac
"""
PROGRAM = "from mrtuner.cli import main; main()"
#: Longer than a client on a busy machine takes from reading its secret to logging in.
QUIET = "1.2s"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        yield cluster


class Shop(Applications):
    """An application with a group of its own, and the command that rotates its password."""

    def __init__(self, server: Cluster, place: Path) -> None:
        super().__init__(4)
        self.server, self.group = server, unused("shop")
        self.secret, self.mode, self.state = place / "secret", place / "mode", place / "state"
        self.put = place / "put"
        self.put.write_text(PUT)
        self.put.chmod(0o755)
        rotate(admin(server), self.group, self.secret, state=place / "earlier")
        self.logins = 0

    def work(self, _number: int) -> None:
        while not self.over.wait(0.05):  # each login costs a CPU some milliseconds
            try:
                with closing(psycopg.connect(login(self.secret))):
                    self.over.wait(0.05)  # so that the rotation sees the session
            except psycopg.Error as error:
                self.failures.append(str(error))
            else:
                self.logins += 1

    def rotate(self, mode: str, *more: str, to: str | None = None) -> tuple[int, str]:
        """Rotate; return the exit code and all output."""
        self.mode.write_text(mode)
        with self.started("--yes", "--to", to or str(self.put), *more) as process:
            said, errors = process.communicate(timeout=60)
        return process.returncode, said + errors

    def abort(self) -> tuple[int, str]:
        """Go back; return the exit code and all output."""
        with self.started(verb=["abort"]) as process:
            said, errors = process.communicate(timeout=60)
        return process.returncode, said + errors

    def started(self, *options: str, verb: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start the command; if an option is given twice, the last one counts."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "rotate", *verb, self.server.dsn(tcp=True), "--role",
             self.group, "--idle", QUIET, "--wait", "20s", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PGPASSWORD": ADMIN, "MRTUNER_STATE_DIR": str(self.state),
                 "SECRET": str(self.secret), "MODE": str(self.mode)},
        )  # fmt: skip

    def password(self) -> str:
        return str(json.loads(self.secret.read_text())["password"])

    def user(self) -> str:
        return str(json.loads(self.secret.read_text())["username"])

    def kept(self) -> list[Path]:
        """The files of the journal that hold the password that was delivered last."""
        files = (path for path in self.state.iterdir() if path.is_file())
        return [path for path in files if self.password().encode() in path.read_bytes()]

    def none_failed(self) -> None:
        """Wait for 20 more logins, and assert that none has failed."""
        wanted = self.logins + 20
        until(lambda: self.logins > wanted)
        assert self.failures == []


@pytest.fixture
def shop(server: Cluster, tmp_path: Path) -> Iterator[Shop]:
    with Shop(server, tmp_path) as shop:
        yield shop


@pytest.mark.parametrize("mode", ["kills-before", "kills-after"])
def test_killed_while_the_command_runs_no_login_fails_before_or_after_the_next_run(
    shop: Shop, mode: str
) -> None:
    for _ in range(2):
        before = shop.user()
        assert shop.rotate(mode)[0] == -signal.SIGKILL
        handed_out = shop.password()
        assert shop.rotate(mode)[0] == -signal.SIGKILL  # once more
        code, said = shop.rotate("takes")
        assert code == 0, said
        assert shop.user() != before
        if mode == "kills-after":
            assert shop.password() == handed_out
        assert may_login(shop.server, shop.group) == {shop.user()}
        shop.none_failed()


@pytest.mark.parametrize("moments", [7, pytest.param(28, marks=pytest.mark.slow)])
def test_killed_at_any_moment_of_several_rotations_no_login_ever_fails(
    shop: Shop, moments: int
) -> None:
    """At any step: the moments are spread evenly over the time that a rotation takes."""
    shop.mode.write_text("takes")
    killed = 0
    for number in range(moments):
        with shop.started("--yes", "--to", str(shop.put)) as process:
            try:
                process.communicate(timeout=0.3 + number * 3.5 / moments)
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
    assert killed > 2
    code, said = shop.rotate("takes")
    assert code == 0, said
    assert may_login(shop.server, shop.group) == {shop.user()}
    assert shop.kept() == []
    shop.none_failed()


def test_a_secret_that_a_failing_command_delivered_lives_while_the_store_is_down(
    shop: Shop,
) -> None:
    code, said = shop.rotate("fails-after")
    assert code == 1
    assert "put did not accept the secret: exit code 1" in said
    assert "Whichever credential it has works, the old or the new one." in said
    delivered = shop.password()
    assert shop.user() == f"{shop.group}_green"
    for _ in range(2):
        shop.none_failed()
        assert shop.rotate("down")[0] == 1
    shop.none_failed()
    assert shop.rotate("takes")[0] == 0
    assert shop.password() == delivered
    shop.none_failed()


def test_what_was_handed_out_is_kept_for_its_owner_alone_and_only_until_the_end(
    shop: Shop,
) -> None:
    shop.rotate("fails-after")
    (kept,) = shop.kept()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.suffix == ".password", "not the journal itself, which people copy"
    shop.rotate("takes")
    assert shop.kept() == []
    assert [path for path in shop.state.iterdir() if path.suffix == ".password"] == []


def test_another_store_gets_the_same_secret_and_begun_anew_it_stays_the_same(shop: Shop) -> None:
    shop.rotate("fails-after")
    delivered, blue = shop.password(), f"{shop.group}_blue"
    code, said = shop.rotate("down", "--current", blue)
    assert code == 1, said
    shop.none_failed()
    elsewhere = shop.secret.with_name("elsewhere")
    code, said = shop.rotate("down", to=f"file:{elsewhere}")
    assert code == 0, said
    assert json.loads(elsewhere.read_text())["password"] == delivered
    shop.none_failed()


def test_a_secret_that_may_be_out_is_not_taken_back(shop: Shop) -> None:
    """Not even if a later attempt fails before it reaches the store."""
    shop.rotate("fails-after")
    blue, admins = f"{shop.group}_blue", shop.server.dsn()
    sql(admins, f"CREATE TABLE {blue} ()", f"GRANT SELECT ON {blue} TO {blue}")
    code, said = shop.rotate("takes")
    assert (code, f"privileges are granted to {blue} instead" in said) == (4, True), said
    code, said = shop.abort()
    assert (code, "cannot restore the old secret" in said) == (4, True), said
    shop.none_failed()
    sql(admins, f"DROP TABLE {blue}")
    assert shop.rotate("takes")[0] == 0
    shop.none_failed()


def test_killed_as_soon_as_stdout_has_the_secret_it_is_the_same_again(shop: Shop) -> None:
    with shop.started("--yes", "--to", "stdout") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    shop.secret.with_name("new").write_text(line)
    shop.secret.with_name("new").replace(shop.secret)
    shop.none_failed()
    with shop.started("--yes", "--to", "stdout") as process:
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert said in {line, ""}, "nothing, if it was killed after it had noted the delivery"
    shop.none_failed()


def test_until_somebody_is_seen_with_the_new_secret_the_old_one_works(
    server: Cluster, tmp_path: Path
) -> None:
    """Nobody connects at all: somebody may still be passing the secret on by hand."""
    shop = Shop(server, tmp_path)
    old, blue, green = login(shop.secret), f"{shop.group}_blue", f"{shop.group}_green"
    with shop.started("--yes", "--to", "stdout", "--wait", "2s") as process:
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 6
    assert f"no session of {green} has been seen yet, so {blue} stays enabled" in errors
    assert sql(old, "SELECT session_user") == [(blue,)]
    shop.secret.write_text(said)
    with psycopg.connect(login(shop.secret)), shop.started("--yes", "--to", "stdout") as process:
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, ""), errors
    assert may_login(server, shop.group) == {green}


def test_who_connects_seldom_is_said_to_be_there(server: Cluster, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path)
    green = f"{shop.group}_green"
    assert shop.rotate("takes", "--wait", "1s")[0] == 6
    code, said = shop.rotate("takes", "--current", green)
    assert code == 0, said
    assert may_login(server, shop.group) == {green}
    assert sql(login(shop.secret), "SELECT session_user") == [(green,)]


@pytest.mark.parametrize(
    ("to", "code", "error"),
    [
        ("{place}/none", 2, "--to: {place}/none is not a command"),
        ("no-such-command-anywhere put", 2, "--to: no-such-command-anywhere is not a command"),
        ("{place}/note", 2, "--to: {place}/note is not executable"),
        ("file:{place}/nowhere/db.json", 1, "cannot write {place}/nowhere/db.json: No such file"),
        ("file:{place}", 1, "cannot write {place}: Is a directory"),
        ("file:/proc/self/db.json", 1, "cannot write /proc/"),
        ("file:{place}/note", 1, "cannot write {place}/note: it is not a JSON object"),
    ],
)
def test_a_store_that_cannot_work_is_found_before_roles_are_made(
    server: Cluster, tmp_path: Path, to: str, code: int, error: str
) -> None:
    (tmp_path / "note").write_text("password=hidden")
    group = unused("unmade")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "rotate", server.dsn(tcp=True), "--role", group, "--yes",
         "--to", to.format(place=tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PGPASSWORD": ADMIN, "MRTUNER_STATE_DIR": str(tmp_path / "state")},
    )  # fmt: skip
    assert (done.returncode, f"error: {error.format(place=tmp_path)}" in done.stderr) == (
        code, True,
    ), done.stderr  # fmt: skip
    assert "hidden" not in done.stderr
    assert sql(server.dsn(), f"SELECT rolname FROM pg_roles WHERE rolname ^@ '{group}'") == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["note", "state"]


@needs("root")
def test_a_directory_that_cannot_be_written_to_is_found_before_roles_are_made(
    server: Cluster, tmp_path: Path
) -> None:
    """Not by root, who may write anywhere; the directory has a file of somebody else's."""
    group, closed = unused("unmade"), Path("/var/tmp") / unused("closed")
    closed.mkdir(mode=0o755)
    try:
        (closed / "db.json").write_text("{}")
        done = subprocess.run(
            [sys.executable, "-c", BECOMING, str(closed), server.dsn(tcp=True), group, ADMIN],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout == f"cannot write {closed}/db.json: Permission denied\n", done.stderr
        assert sorted(each.name for each in closed.iterdir()) == ["db.json"]
    finally:
        (closed / "db.json").unlink()
        closed.rmdir()
    assert sql(server.dsn(), f"SELECT rolname FROM pg_roles WHERE rolname ^@ '{group}'") == []


#: Imports everything first, since the other user may not read our files.
BECOMING = """
import os, sys, tempfile
from pathlib import Path
import mrtuner.postgres.connect, mrtuner.rotate.rotation, mrtuner.rotate.stores, platformdirs
import psycopg, sqlite3
from mrtuner.errors import ApplyError
from mrtuner.postgres.connect import connect
from mrtuner.rotate import rotate
place, dsn, group, password = sys.argv[1:]
connect(f"{dsn} password='{password}'").close()
state = Path(tempfile.mkdtemp(dir="/var/tmp"))
os.chown(state, 65534, 65534)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    rotate(f"{dsn} password='{password}'", group, to=f"file:{place}/db.json", journal=state)
except ApplyError as error:
    print(error.message)
finally:
    for path in state.iterdir():
        path.unlink()
    state.rmdir()
"""
