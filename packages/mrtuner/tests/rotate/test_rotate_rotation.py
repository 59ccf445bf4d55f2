"""One rotation against a real server that asks for passwords."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rotating import IMPATIENT, admin, login, may_login, rotate, running

from mrtuner import rotate as face
from mrtuner.errors import Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate import RotationStep
from mrtuner.rotate.answer import opened
from mrtuner.rotate.stores import FileStore
from servers import sql


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server that logs every statement in every way it can, and asks for passwords over TCP."""
    settings: dict[str, str | int | float] = {
        "log_statement": "all", "log_min_duration_statement": 0, "log_connections": "on",
        "shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all",
        "track_activity_query_size": 65536,
    }  # fmt: skip
    with running(settings) as cluster:
        yield cluster


def test_a_fresh_group_gets_three_roles_and_one_of_them_logs_in(
    server: Cluster, tmp_path: Path
) -> None:
    outcome = rotate(admin(server), "fresh", tmp_path / "secret")
    assert outcome.rotation.step is RotationStep.DONE
    assert outcome.notices == ()
    assert may_login(server, "fresh") == {"fresh_blue"}
    assert sql(login(tmp_path / "secret"), "SELECT session_user, current_user") == [
        ("fresh_blue", "fresh")
    ]
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_blue_and_green_take_turns_and_the_old_password_is_dead(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "turns", secret)
    first = login(secret)
    rotate(admin(server), "turns", secret)
    assert may_login(server, "turns") == {"turns_green"}
    with pytest.raises(psycopg.OperationalError):
        sql(first, "SELECT 1")
    rotate(admin(server), "turns", secret)
    assert may_login(server, "turns") == {"turns_blue"}
    with pytest.raises(psycopg.OperationalError):
        sql(first, "SELECT 1")


def test_a_single_role_is_taken_over_with_all_that_it_owns(server: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    sql(
        server.dsn(),
        "CREATE ROLE shop LOGIN PASSWORD 'old' CONNECTION LIMIT 40",
        "CREATE SCHEMA shop AUTHORIZATION shop",
        'ALTER ROLE shop SET search_path TO "$user", "Odd, name", public',
        "ALTER ROLE shop IN DATABASE postgres SET statement_timeout TO '7s'",
        "ALTER ROLE shop SET shop.note TO 'it''s'",
        "ALTER DEFAULT PRIVILEGES FOR ROLE shop GRANT SELECT ON TABLES TO pg_monitor",
        "CREATE TABLE shop.orders (id int)",
        "ALTER TABLE shop.orders OWNER TO shop",
    )
    outcome = rotate(admin(server), "shop", secret)
    assert (outcome.rotation.old, outcome.rotation.new) == ("shop", "shop_blue")
    assert may_login(server, "shop") == {"shop_blue"}
    shown = "SELECT current_setting('search_path'), current_setting('statement_timeout')"
    assert sql(login(secret), shown + ", current_setting('shop.note')") == [
        ('"$user", "Odd, name", public', "7s", "it's")
    ]
    sql(login(secret), "INSERT INTO orders VALUES (1)", "CREATE TABLE more (id int)")
    rotate(admin(server), "shop", secret)
    assert sql(
        login(secret),
        "SELECT session_user, statement_timeout FROM orders,"
        " current_setting('statement_timeout') statement_timeout",
    ) == [("shop_green", "7s")]
    made = "SELECT tableowner, has_table_privilege('pg_monitor', 'shop.more', 'SELECT')"
    assert sql(server.dsn(), made + " FROM pg_tables WHERE tablename = 'more'") == [("shop", True)]
    limit = "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop_green'"
    assert sql(server.dsn(), limit) == [(40,)]


def test_who_still_uses_the_old_role_is_named_and_nothing_is_taken_from_them(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "slow", secret)
    with psycopg.connect(login(secret) + " application_name='nightly batch'") as batch:
        outcome = rotate(admin(server), "slow", secret)
        assert outcome.rotation.step is RotationStep.WAITING
        assert [holder.application for holder in outcome.holders] == ["nightly batch"]
        assert may_login(server, "slow") == {"slow_blue", "slow_green"}
        assert batch.execute("SELECT session_user").fetchall() == [("slow_blue",)]
    assert rotate(admin(server), "slow", secret).rotation.step is RotationStep.DONE
    assert may_login(server, "slow") == {"slow_green"}


def test_a_rotation_that_waits_goes_back_to_the_old_secret(server: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "back", secret)
    before = secret.read_text()
    with psycopg.connect(login(secret)):
        waiting = rotate(admin(server), "back", secret)
        with opened(admin(server), "back", IMPATIENT, journal=tmp_path / "state") as rotator:
            outcome = rotator.abort(waiting.rotation, FileStore(secret))
    assert outcome.rotation.step is RotationStep.ABORTED
    assert secret.read_text() == before
    assert may_login(server, "back") == {"back_blue"}
    assert sql(login(secret), "SELECT session_user") == [("back_blue",)]


def test_a_role_that_is_taken_over_keeps_its_password_when_that_is_taken_back(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    sql(server.dsn(), "CREATE ROLE single LOGIN PASSWORD 'known'")
    known = server.dsn(user="single", tcp=True) + " password=known"
    with psycopg.connect(known):
        waiting = rotate(admin(server), "single", secret)
        assert waiting.rotation.step is RotationStep.WAITING
        with opened(admin(server), "single", IMPATIENT, journal=tmp_path / "state") as rotator:
            assert (
                rotator.abort(waiting.rotation, FileStore(secret)).rotation.step
                is RotationStep.ABORTED
            )
    assert sql(known, "SELECT current_user") == [("single",)]
    assert may_login(server, "single") == {"single"}
    assert not secret.exists()


def test_the_log_and_the_journal_never_have_the_password(server: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    sql(server.dsn(), "CREATE EXTENSION pg_stat_statements")
    rotate(admin(server), "hush", secret)
    password = json.loads(secret.read_text())["password"]
    kept = sql(server.dsn(), "SELECT query FROM pg_stat_statements WHERE query ~ 'hush_blue'")
    assert any("ALTER ROLE" in query for (query,) in kept)
    assert not any(password in query for (query,) in kept)
    log = server.log(100_000)
    assert "duration:" in log
    assert 'ALTER ROLE "hush_blue" LOGIN PASSWORD' in log
    assert "SCRAM-SHA-256$" in log
    assert password not in log
    state = [path.read_bytes() for path in (tmp_path / "state").iterdir()]
    assert len(state) == 2  # the journal and the lock
    assert not any(password.encode() in found for found in state)


def test_a_role_of_somebody_else_is_left_alone(server: Cluster, tmp_path: Path) -> None:
    sql(server.dsn(), "CREATE ROLE alien LOGIN", "CREATE ROLE alien_blue LOGIN PASSWORD 'mine'")
    with pytest.raises(Refused, match="alien_blue exists, but is not a member of alien"):
        face.rotate(
            admin(server), "alien", to=f"file:{tmp_path}/secret", current="alien",
            journal=tmp_path / "state",
        )  # fmt: skip
    with opened(admin(server), "alien", IMPATIENT, journal=tmp_path / "state") as rotator:
        last = rotator.last()
        assert last is not None
        aborted = rotator.abort(last, FileStore(tmp_path / "secret"))
    assert aborted.rotation.step is RotationStep.ABORTED
    assert may_login(server, "alien") == {"alien", "alien_blue"}
    theirs = server.dsn(user="alien_blue", tcp=True) + " password=mine"
    assert sql(theirs, "SELECT current_user") == [("alien_blue",)]


def test_a_role_that_somebody_uses_gets_no_other_password(server: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "used", secret)
    sql(server.dsn(), "ALTER ROLE used_green LOGIN PASSWORD 'g'")
    green = server.dsn(user="used_green", tcp=True) + " password=g application_name=nightly"
    with psycopg.connect(green), pytest.raises(Refused, match="used_green is in use: nightly from"):
        rotate(admin(server), "used", secret)
    assert sql(green, "SELECT 1") == [(1,)]
    assert sql(login(secret), "SELECT session_user") == [("used_blue",)]


def test_a_rotation_that_another_machine_overtook_disables_nothing(
    server: Cluster, tmp_path: Path
) -> None:
    secret, elsewhere = tmp_path / "secret", tmp_path / "elsewhere"
    rotate(admin(server), "twice", secret)
    with psycopg.connect(login(secret)):
        assert rotate(admin(server), "twice", secret).rotation.step is RotationStep.WAITING
    other = rotate(admin(server), "twice", secret, state=elsewhere).rotation
    assert (other.old, other.new, other.step) == ("twice_green", "twice_blue", RotationStep.DONE)
    with pytest.raises(Refused, match="twice_green can no longer log in"):
        rotate(admin(server), "twice", secret)
    assert may_login(server, "twice") == {"twice_blue"}
    assert sql(login(secret), "SELECT session_user") == [("twice_blue",)]


def test_a_grant_to_one_login_role_alone_is_not_lost_in_silence(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "alone", secret)
    sql(server.dsn(), "CREATE TABLE priced ()", "GRANT SELECT ON priced TO alone_blue")
    with pytest.raises(Refused, match="privileges are granted to alone_blue instead"):
        rotate(admin(server), "alone", secret)
    assert may_login(server, "alone") == {"alone_blue"}
    sql(
        server.dsn(),
        "REVOKE SELECT ON priced FROM alone_blue",
        "GRANT SELECT ON priced TO alone",
    )
    rotate(admin(server), "alone", secret)
    assert sql(login(secret), "SELECT count(*) FROM priced") == [(0,)]


def test_memberships_are_copied_with_their_options(server: Cluster, tmp_path: Path) -> None:
    """In three rotations: what blue has, green gets; what green no longer has, blue loses."""
    secret = tmp_path / "secret"
    rotate(admin(server), "member", secret)
    sql(
        server.dsn(),
        "CREATE ROLE member_readers", "CREATE ROLE member_leads",
        "GRANT member_readers TO member_blue WITH INHERIT FALSE, SET FALSE",
        "GRANT member_leads TO member_blue WITH ADMIN OPTION",
    )  # fmt: skip
    rotate(admin(server), "member", secret)
    assert options(server, "member_green") == [
        ("member", False, True, True), ("member_leads", True, True, True),
        ("member_readers", False, False, False),
    ]  # fmt: skip
    sql(
        server.dsn(),
        "REVOKE ADMIN OPTION FOR member_leads FROM member_green",
        "GRANT member_readers TO member_green WITH SET TRUE",
    )
    rotate(admin(server), "member", secret)
    assert options(server, "member_blue") == [
        ("member", False, True, True), ("member_leads", False, True, True),
        ("member_readers", False, False, True),
    ]  # fmt: skip


def test_before_16_a_membership_has_one_option(tmp_path: Path) -> None:
    with running(major=15) as server:
        secret = tmp_path / "secret"
        rotate(admin(server), "app", secret)
        sql(server.dsn(), "CREATE ROLE leads", "GRANT leads TO app_blue WITH ADMIN OPTION")
        rotate(admin(server), "app", secret)
        query = (
            "SELECT admin_option FROM pg_auth_members WHERE roleid = 'leads'::regrole"
            " AND member = '{}'::regrole"
        )
        assert sql(server.dsn(), query.format("app_green")) == [(True,)]
        sql(server.dsn(), "REVOKE ADMIN OPTION FOR leads FROM app_green")
        rotate(admin(server), "app", secret)
        assert sql(server.dsn(), query.format("app_blue")) == [(False,)]


def options(server: Cluster, role: str) -> list[tuple[object, ...]]:
    """The roles that a role is a member of: admin, inherit, set."""
    return sql(
        server.dsn(),
        "SELECT g.rolname, admin_option, inherit_option, set_option FROM pg_auth_members"
        f" JOIN pg_roles g ON g.oid = roleid WHERE member = '{role}'::regrole ORDER BY 1",
    )
