"""Settings written for an application, read by its own tools' parsers, match the plan."""

from __future__ import annotations

import configparser
import re
from dataclasses import replace

import pytest
import yaml

from mrtuner.errors import BadValue, Refused
from mrtuner_pods.formats import FORMATS, Application, render

APPLICATION = Application(
    title="for 400/s of 27 ms", server="puma", pods=6, workers=4, threads=3, pool=3,
    cpu_request=2.1, cpu_limit=3.25, cpu_because="the least\nthat stops little", memory=800 * 2**20,
    clients=144, server_connections=9,
)  # fmt: skip


def container(application: Application) -> tuple[int, dict[str, object]]:
    patch = yaml.safe_load(render("kubernetes", application))
    (only,) = patch["spec"]["template"]["spec"]["containers"]
    return patch["spec"]["replicas"], only


def test_a_patch_has_replicas_requests_limits_and_what_puma_reads() -> None:
    replicas, found = container(APPLICATION)
    assert replicas == 6
    assert found["resources"] == {
        "requests": {"cpu": "2100m", "memory": "800Mi"},
        "limits": {"cpu": "3250m", "memory": "800Mi"},
    }
    assert found["env"] == [
        {"name": "WEB_CONCURRENCY", "value": "4"},
        {"name": "RAILS_MAX_THREADS", "value": "3"},
    ]


def test_no_limit_takes_one_away_that_is_there() -> None:
    """A strategic merge patch keeps a key that is left out, and null removes it."""
    _, found = container(replace(APPLICATION, cpu_limit=None, memory=None, server="jvm"))
    assert found["resources"] == {"requests": {"cpu": "2100m"}, "limits": {"cpu": None}}
    assert "env" not in found


def test_an_unknown_cpu_time_keeps_the_request_and_the_limit_that_are_there() -> None:
    """A strategic merge patch keeps what it leaves out, but an empty map would remove it."""
    guessed = replace(APPLICATION, cpu_request=None, cpu_limit=None)
    _, found = container(guessed)
    assert found["resources"] == {"requests": {"memory": "800Mi"}, "limits": {"memory": "800Mi"}}
    _, found = container(replace(guessed, memory=None))
    assert "resources" not in found
    assert "plan them with --cpu-time" in render("kubernetes", guessed)


@pytest.mark.parametrize(("server", "kind"), [("gunicorn", "sync"), ("gthread", "gthread")])
def test_gunicorn_is_python(server: str, kind: str) -> None:
    said: dict[str, object] = {}
    exec(render("gunicorn", replace(APPLICATION, server=server)), said)
    assert (said["workers"], said["worker_class"], said["threads"]) == (4, kind, 3)
    #: With as many connections as threads, a worker accepts only if it has a free thread.
    assert said.get("worker_connections") == (3 if server == "gthread" else None)


def test_puma_and_unicorn_say_workers_and_threads() -> None:
    puma = render("puma", APPLICATION)
    assert re.findall(r"^(workers 4|threads 3, 3|preload_app!)", puma, re.MULTILINE) == [
        "workers 4", "threads 3, 3", "preload_app!",
    ]  # fmt: skip
    assert "wait_for_less_busy_worker" not in puma
    before_7 = render("puma", replace(APPLICATION, server="puma-6"))
    assert "\nwait_for_less_busy_worker 0 #" in before_7
    unicorn = render("unicorn", replace(APPLICATION, server="unicorn", threads=1))
    assert "\nworker_processes 4 #" in unicorn


def test_pgbouncer_is_an_ini_file() -> None:
    read = configparser.ConfigParser()
    read.read_string(render("pgbouncer", APPLICATION))
    assert dict(read["pgbouncer"]) == {
        "pool_mode": "transaction", "default_pool_size": "9", "max_client_conn": "144",
    }  # fmt: skip


def test_hikaricp_has_properties() -> None:
    rows = render("hikaricp", APPLICATION).splitlines()
    assert [row for row in rows if row[0] != "#"] == ["maximumPoolSize=3", "minimumIdle=3"]


def test_sqlalchemy_opens_so_many_and_no_more() -> None:
    from sqlalchemy import create_engine

    said = {"create_engine": create_engine, "url": "postgresql+psycopg://app@db/shop"}
    exec(render("sqlalchemy", APPLICATION), said)
    pool = said["engine"].pool  # type: ignore[attr-defined]
    assert (pool.size(), pool._max_overflow) == (3, 0)


@pytest.mark.parametrize(("format", "server"), [("puma", "gunicorn"), ("gunicorn", "puma"),
                                                ("unicorn", "puma")])  # fmt: skip
def test_the_configuration_of_another_server_is_refused(format: str, server: str) -> None:
    with pytest.raises(Refused, match=f"this plan is for {server}") as refused:
        render(format, replace(APPLICATION, server=server))
    assert "--server" in (refused.value.hint or "")


def test_a_pooler_is_refused_without_the_time_in_the_database() -> None:
    with pytest.raises(Refused, match="time requests spend in the database"):
        render("pgbouncer", replace(APPLICATION, server_connections=None))


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(BadValue, match="unknown format 'nomad'"):
        render("nomad", APPLICATION)
    assert len(FORMATS) == 7
