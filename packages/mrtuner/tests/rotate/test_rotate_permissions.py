"""An administrator without superuser, as managed services provide."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import NewCluster
from rotating import login, may_login, rotate

from mrtuner.rotate.model import RotationStep
from servers import sql


@pytest.mark.parametrize("major", [15, 18])
def test_createrole_is_enough_and_what_a_login_role_owns_goes_to_the_group(
    new_cluster: NewCluster, tmp_path: Path, major: int
) -> None:
    server, secret = new_cluster(major, listen=True), tmp_path / "secret"
    sql(server.dsn(), "CREATE ROLE boss LOGIN CREATEROLE PASSWORD 'b'")
    if major >= 16:  # It may become the roles that it creates, and is to stay able to.
        sql(server.dsn(), "ALTER ROLE boss SET createrole_self_grant = 'set'")
    boss = server.dsn(user="boss", tcp=True) + " password=b"
    assert rotate(boss, "app", secret).rotation.step is RotationStep.DONE
    sql(server.dsn(), "CREATE TABLE left_over ()", "ALTER TABLE left_over OWNER TO app_blue")
    assert rotate(boss, "app", secret).rotation.step is RotationStep.DONE
    assert may_login(server, "app") == {"app_green"}
    assert sql(login(secret), "SELECT session_user, current_user") == [("app_green", "app")]
    owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'left_over'"
    assert sql(server.dsn(), owner) == [("app",)]
    usage = "SELECT pg_has_role('boss', 'app', 'USAGE'), pg_has_role('boss', 'app_blue', 'USAGE')"
    assert sql(server.dsn(), usage) == [(False, False)]
    if major >= 16:
        becomes = usage.replace("USAGE", "SET")
        assert sql(server.dsn(), becomes) == [(True, True)]
