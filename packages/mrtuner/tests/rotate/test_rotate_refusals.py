"""What would lock somebody out is refused or reported, on PostgreSQL 14 and 18."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rotating import IMPATIENT, admin, login, may_login, rotate, running

from mrtuner import rotate as face
from mrtuner.errors import BadValue, ConnectError, MissingPart, Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.rotate import RoleGroup, RotationStep, roles
from mrtuner.rotate.answer import opened
from mrtuner.rotate.stores import FileStore
from servers import sql


@pytest.fixture(scope="module", params=[14, 18])
def server(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with running({"fsync": "off"}, request.param) as cluster:
        yield cluster


def test_a_role_that_inherits_nothing_is_taken_over_and_still_enters_its_database(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    sql(
        server.dsn(),
        "CREATE ROLE aloof NOINHERIT LOGIN PASSWORD 'a' VALID UNTIL '2040-01-01 00:00 UTC'",
        "CREATE DATABASE aloof OWNER aloof",
        "REVOKE CONNECT ON DATABASE aloof FROM PUBLIC",
    )
    shop = f"{server.dsn('aloof', tcp=True)} password='correct horse battery staple'"
    for user in ("aloof_blue", "aloof_green"):
        outcome = rotate(shop, "aloof", secret)
        assert sql(login(secret), "SELECT session_user, current_user") == [(user, "aloof")]
        if user == "aloof_blue":
            expires = "aloof is valid until 2040-01-01 00:00:00+00; the new password does not"
            assert any(notice.startswith(expires) for notice in outcome.notices)


def test_a_server_of_md5_passwords_is_said_and_gets_scram_all_the_same(
    server: Cluster, tmp_path: Path
) -> None:
    sql(server.dsn(), "ALTER ROLE postgres SET password_encryption TO md5")
    outcome = rotate(admin(server), "hashed", tmp_path / "secret")
    sql(server.dsn(), "ALTER ROLE postgres RESET password_encryption")
    assert "clients older than libpq 10" in outcome.notices[0]
    kept = "SELECT left(rolpassword, 14) FROM pg_authid WHERE rolname = 'hashed_blue'"
    assert sql(server.dsn(), kept) == [("SCRAM-SHA-256$",)]


def test_settings_in_a_database_whose_name_is_no_text_are_not_copied_to_another(
    server: Cluster, tmp_path: Path
) -> None:
    """Both databases are shown with the same name, U+FFFD: the second really has it."""
    sql(
        server.dsn(), 'CREATE DATABASE "\ufffd"', "CREATE ROLE unread LOGIN PASSWORD 'a'",
        "CREATE DATABASE anything ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0",
    )  # fmt: skip
    dsn = server.dsn("anything")
    with psycopg.connect(dsn, autocommit=True, client_encoding="SQL_ASCII") as conn:
        conn.execute(b'CREATE DATABASE "\xe9"')
        conn.execute(b"ALTER ROLE unread IN DATABASE \"\xe9\" SET work_mem = '7MB'")
    with pytest.raises(Refused, match="the name \ufffd holds what is no text here"):
        rotate(admin(server), "unread", tmp_path / "secret")
    there = (
        "SELECT count(*) FROM pg_db_role_setting AS s JOIN pg_database AS d "
        "ON d.oid = s.setdatabase WHERE d.datname = '\ufffd'"
    )
    assert sql(server.dsn(), there) == [(0,)]
    with psycopg.connect(dsn, autocommit=True, client_encoding="SQL_ASCII") as conn:
        conn.execute(b'DROP DATABASE "\xe9"')
    sql(server.dsn(), 'DROP DATABASE "\ufffd"')


def test_a_role_that_becomes_another_at_login_is_not_taken_over(
    server: Cluster, tmp_path: Path
) -> None:
    sql(
        server.dsn(), "CREATE ROLE owner", "CREATE ROLE turncoat LOGIN PASSWORD 't' IN ROLE owner",
        "ALTER ROLE turncoat SET role TO owner",
    )  # fmt: skip
    with pytest.raises(Refused, match="turncoat becomes owner when it logs in"):
        rotate(admin(server), "turncoat", tmp_path / "secret")
    assert may_login(server, "turncoat") == {"turncoat"}


def test_default_privileges_of_one_login_role_alone_are_not_lost_in_silence(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "giver", secret)
    grant = "ALTER DEFAULT PRIVILEGES FOR ROLE giver_blue {} SELECT ON TABLES {} pg_monitor"
    sql(server.dsn(), grant.format("GRANT", "TO"))
    with pytest.raises(Refused, match="privileges are granted to giver_blue instead"):
        rotate(admin(server), "giver", secret)
    sql(server.dsn(), grant.format("REVOKE", "FROM"))
    assert rotate(admin(server), "giver", secret).rotation.step is RotationStep.DONE


def test_what_a_login_role_makes_while_it_is_waited_for_goes_to_the_group(
    server: Cluster, tmp_path: Path
) -> None:
    """SET ROLE NONE undoes the role set at login: the login role itself owns what is made then."""
    secret = tmp_path / "secret"
    rotate(admin(server), "late", secret)
    sql(server.dsn(), "CREATE SCHEMA late AUTHORIZATION late", "CREATE DATABASE late_too")
    sql(server.dsn("late_too"), "CREATE SCHEMA late", "GRANT ALL ON SCHEMA late TO late")
    too = login(secret).replace("dbname='postgres'", "dbname='late_too'")
    with psycopg.connect(login(secret), autocommit=True) as conn:
        conn.execute("DISCARD ALL")
        assert conn.execute("SELECT current_user").fetchone() == ("late",)
        assert rotate(admin(server), "late", secret).rotation.step is RotationStep.WAITING
        conn.execute("SET ROLE NONE")
        conn.execute("CREATE TABLE late.things ()")
        sql(too, "SET ROLE NONE", "CREATE TABLE late.things ()")
    assert rotate(admin(server), "late", secret).rotation.step is RotationStep.DONE
    assert sql(server.dsn(), "SELECT tableowner FROM pg_tables WHERE tablename = 'things'") == [
        ("late",)
    ]
    notice = "late_blue itself owns objects in: late_too; transfer them to the group there: "
    notices = rotate(admin(server), "late", secret).notices
    assert f'{notice}REASSIGN OWNED BY "late_blue" TO "late"' in notices


def test_a_function_that_anybody_may_have_created_is_not_called(
    server: Cluster, tmp_path: Path
) -> None:
    """Its arguments fit better than those of PostgreSQL's own, of (text, bigint)."""
    function = "FUNCTION public.hashtextextended(text, integer)"
    body = "RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE ''as the administrator''; END'"
    sql(server.dsn(), f"CREATE {function} {body}")
    assert rotate(admin(server), "safe", tmp_path / "secret").rotation.step is RotationStep.DONE
    sql(server.dsn(), f"DROP {function}")


def test_a_login_of_the_group_itself_that_has_no_turn_is_said(
    server: Cluster, tmp_path: Path
) -> None:
    """As the Lambda function leaves it after its first turn."""
    rotate(admin(server), "Early", tmp_path / "secret")
    sql(server.dsn(), "ALTER ROLE \"Early\" LOGIN PASSWORD 'first'")
    notices = rotate(admin(server), "Early", tmp_path / "secret").notices
    assert (
        "Early can still log in with a password of its own; once nobody uses it: "
        'ALTER ROLE "Early" NOLOGIN PASSWORD NULL'
    ) in notices


def test_readers_of_aurora_count_as_replicas(server: Cluster, tmp_path: Path) -> None:
    """They share the storage, and no row of pg_stat_replication shows them."""
    sql(
        server.dsn(),
        "CREATE FUNCTION pg_catalog.aurora_replica_status() RETURNS TABLE (session_id text) "
        "LANGUAGE sql AS $$VALUES ('MASTER_SESSION_ID'), ('6bbf'), ('71cc')$$",
    )
    notices = rotate(admin(server), "aurora", tmp_path / "secret").notices
    sql(server.dsn(), "DROP FUNCTION pg_catalog.aurora_replica_status()")
    assert any(one.startswith("2 replication clients of this server, 0 given") for one in notices)
    anybodys = "FUNCTION public.aurora_replica_status()"
    sql(server.dsn(), f"CREATE {anybodys} RETURNS int LANGUAGE sql AS 'SELECT 1'")
    assert not any(
        "replication client" in one
        for one in rotate(admin(server), "aurora", tmp_path / "secret").notices
    )
    sql(server.dsn(), f"DROP {anybodys}")


def test_a_table_in_use_keeps_its_owner_and_nobody_waits_behind_the_rotation(
    server: Cluster, tmp_path: Path
) -> None:
    """REASSIGN OWNED locks each table against everybody, also those who come after it."""
    secret = tmp_path / "secret"
    rotate(admin(server), "busy", secret)
    sql(server.dsn(), "CREATE SCHEMA busy AUTHORIZATION busy")
    sql(login(secret), "SET ROLE NONE", "CREATE TABLE busy.things ()")
    with psycopg.connect(server.dsn()) as report:
        report.execute("SELECT * FROM busy.things")
        with pytest.raises(Refused, match="what busy_blue owns is in use"):
            rotate(admin(server), "busy", secret)
    assert rotate(admin(server), "busy", secret).rotation.step is RotationStep.DONE
    owner = "SELECT tableowner FROM pg_tables WHERE schemaname = 'busy'"
    assert sql(server.dsn(), owner) == [("busy",)]


def test_nobody_rotates_the_role_that_he_is_logged_in_as(server: Cluster, tmp_path: Path) -> None:
    sql(server.dsn(), "CREATE ROLE myself LOGIN CREATEROLE PASSWORD 'm'")
    with pytest.raises(Refused, match="logged in as myself"):
        rotate(server.dsn(user="myself", tcp=True) + " password=m", "myself", tmp_path / "secret")
    assert may_login(server, "myself") == {"myself"}


def test_a_rotation_from_another_database_of_the_same_server_is_seen(
    server: Cluster, tmp_path: Path
) -> None:
    with (
        connect(server.dsn("template1")) as other,
        roles.alone(other, RoleGroup("both")),
        pytest.raises(Refused, match="another mrtuner is rotating both"),
    ):
        rotate(admin(server), "both", tmp_path / "secret")
    assert rotate(admin(server), "both", tmp_path / "secret").rotation.step is RotationStep.DONE


def test_one_journal_is_for_one_rotation_at_a_time(server: Cluster, tmp_path: Path) -> None:
    from mrtuner.rotate.answer import held

    state = tmp_path / "state"
    with (
        opened(admin(server), "busy", IMPATIENT, journal=state) as rotator,
        held(rotator),
        pytest.raises(Refused),
    ):
        rotate(admin(server), "busy", tmp_path / "secret")


def test_the_new_secret_is_not_given_to_a_second_place(server: Cluster, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "once", secret)
    with psycopg.connect(login(secret)):
        rotate(admin(server), "once", secret)
        with pytest.raises(Refused, match=r"is already in file:/.*/secret"):
            face.rotate(
                admin(server), "once", to=f"file:{tmp_path}/second", patience=IMPATIENT,
                journal=tmp_path / "state",
            )  # fmt: skip
    assert not (tmp_path / "second").exists()


def test_the_old_role_stays_while_the_new_secret_is_not_where_it_was_put(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "gone", secret)
    old = login(secret)
    with psycopg.connect(old):
        rotate(admin(server), "gone", secret)
    stored = secret.read_text()
    secret.unlink()
    with pytest.raises(Refused, match="hold the secret of gone_green, but holds none"):
        rotate(admin(server), "gone", secret)
    assert sql(old, "SELECT session_user") == [("gone_blue",)]
    secret.write_text(stored)
    assert rotate(admin(server), "gone", secret).rotation.step is RotationStep.DONE


def test_a_stored_secret_that_works_gets_no_other_password(server: Cluster, tmp_path: Path) -> None:
    """Another machine stored green's secret; this one is told, wrongly, that blue is in use."""
    secret = tmp_path / "secret"
    rotate(admin(server), "firm", secret)
    with psycopg.connect(login(secret)):
        rotate(admin(server), "firm", secret)
    stored = secret.read_text()
    with pytest.raises(Refused, match="holds a working secret of firm_green"):
        face.rotate(
            admin(server), "firm", to=f"file:{secret}", current="firm_blue", patience=IMPATIENT,
            journal=tmp_path / "elsewhere",
        )  # fmt: skip
    assert secret.read_text() == stored
    assert sql(login(secret), "SELECT session_user") == [("firm_green",)]


def test_a_rotation_broken_off_early_does_not_go_on_when_another_machine_has_rotated(
    server: Cluster, tmp_path: Path
) -> None:
    secret, early = tmp_path / "secret", tmp_path / "early"
    rotate(admin(server), "slept", secret)
    with opened(admin(server), "slept", IMPATIENT, journal=early) as rotator:
        planned = rotator.plan(f"file:{secret}", FileStore(secret))
        rotate(admin(server), "slept", secret)
        with pytest.raises(Refused, match="slept_blue can no longer log in"):
            rotator.run(planned, FileStore(secret))
        with pytest.raises(Refused, match="slept_blue can no longer log in"):
            rotator.abort(planned, FileStore(secret))
    assert may_login(server, "slept") == {"slept_green"}


def test_the_role_in_use_has_to_be_one_that_can_log_in(server: Cluster, tmp_path: Path) -> None:
    secret, state = tmp_path / "secret", tmp_path / "state"
    rotate(admin(server), "named", secret)
    for current in ("named_green", "nobody"):
        with pytest.raises((Refused, BadValue), match=current):
            face.rotate(admin(server), "named", current=current, patience=IMPATIENT, journal=state)
    assert may_login(server, "named") == {"named_blue"}


def test_a_secret_that_leads_nowhere_is_said_and_another_server_s_is_refused(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "astray", secret)
    found = json.loads(secret.read_text())
    secret.write_text(json.dumps(found | {"port": 1}))
    outcome = rotate(admin(server), "astray", secret)
    assert outcome.notices[-1] == (
        "the secret points to 127.0.0.1:1, which cannot be reached from here: not tested"
    )
    found = json.loads(secret.read_text())
    assert (found["username"], found["port"]) == ("astray_green", 1)
    secret.write_text(json.dumps(found | {"port": server.port, "dbname": "nowhere"}))
    with pytest.raises(
        ConnectError, match="which the secret points, rejects the login: there is no"
    ):
        rotate(admin(server), "astray", secret)
    assert json.loads(secret.read_text())["username"] == "astray_green"


def test_without_pg_read_all_stats_sessions_are_counted_and_what_is_hidden_is_said(
    server: Cluster, tmp_path: Path
) -> None:
    sql(server.dsn(), "CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'b'")
    boss, secret = server.dsn(user="boss", tcp=True) + " password=b", tmp_path / "secret"
    rotate(boss, "veiled", secret)
    with psycopg.connect(login(secret) + " application_name=nightly"):
        holder = rotate(boss, "veiled", secret).holders[0]
    assert holder.words == (
        f"nightly from a hidden address on postgres, pid {holder.pid}, since a hidden time"
    )
    assert rotate(boss, "veiled", secret).rotation.step is RotationStep.DONE


def test_a_role_of_others_is_not_ours_to_rotate(server: Cluster, tmp_path: Path) -> None:
    """From 16 on CREATEROLE alone is not enough for a role that somebody else made."""
    if sql(server.dsn(), "SELECT current_setting('server_version_num')::int < 160000")[0][0]:
        pytest.skip("before PostgreSQL 16 CREATEROLE may administer every role")
    sql(
        server.dsn(), "CREATE ROLE deputy LOGIN CREATEROLE PASSWORD 'd'",
        "CREATE ROLE theirs LOGIN PASSWORD 't'",
    )  # fmt: skip
    deputy, secret = server.dsn(user="deputy", tcp=True) + " password=d", tmp_path / "secret"
    with pytest.raises(MissingPart, match="Only roles with the ADMIN option") as caught:
        rotate(deputy, "theirs", secret)
    assert "ADMIN OPTION on the group" in str(caught.value.hint)
    assert may_login(server, "theirs") == {"theirs"}
    sql(server.dsn(), "GRANT theirs TO deputy WITH ADMIN OPTION")
    assert rotate(deputy, "theirs", secret).rotation.step is RotationStep.DONE
