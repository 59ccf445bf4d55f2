"""Killed at any step of any change: after the next run it is at its start or its target."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
from changed_things import ParameterGroup, RoleSettings, Settings, StorageParameters, Thing
from killed import Verb, change, was_killed

from labs import lead_to
from mrtuner.aws.session import client
from mrtuner.change.journal import Journal
from mrtuner.change.record import Method
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from rdstune.lab import Lab
from servers import binaries, pg_ctl, sql

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

Request = pytest.FixtureRequest


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    cluster = Cluster.create(
        binaries(18),
        scratch_directory(),
        {"fsync": "off", "work_mem": "8MB", "include_dir": "conf.d"},
    )
    (cluster.data / "conf.d").mkdir()
    with cluster:
        yield cluster
    cluster.remove()


@pytest.fixture(scope="module")
def fast() -> Iterator[Lab]:
    with Lab(speed=1200) as lab:
        yield lab


def settings(request: Request, **how: Any) -> Thing:
    server: Cluster = request.getfixturevalue("server")
    return Settings(server.dsn(), server.data, pg_ctl(server, "restart"), **how)


def include_file(request: Request) -> Thing:
    return settings(request, conf_dir=request.getfixturevalue("server").data / "conf.d")


def storage_parameters(request: Request) -> Thing:
    server: Cluster = request.getfixturevalue("server")
    sql(server.dsn(), "DROP DATABASE IF EXISTS killed", "CREATE DATABASE killed")
    return StorageParameters(server.dsn("killed"))


def parameter_group(request: Request, *, custom: bool) -> Thing:
    lab: Lab = request.getfixturevalue("fast")
    lead_to(lab, request.getfixturevalue("monkeypatch"))
    return ParameterGroup(lab, client("rds"), custom)


#: Each kind of change that the product makes has a line here.
THINGS: dict[str, Callable[[Request], Thing]] = {
    "settings, by reload": settings,
    "settings, by restart": lambda request: settings(request, restarts=True),
    "include file": include_file,
    "storage parameters": storage_parameters,
    "role settings": lambda request: RoleSettings(request.getfixturevalue("server").dsn()),
    "group of its own": lambda request: parameter_group(request, custom=True),
    "new group": lambda request: parameter_group(request, custom=False),
}


#: Longer runs of adapters that have a shorter one, also killed at every step.
LONG = {"settings, by restart", "group of its own"}


@pytest.mark.parametrize("verb", ["apply", "undo"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in THINGS],
)
def test_killed_at_every_step_it_has_its_start_or_its_target(
    name: str, verb: Verb, request: Request, tmp_path: Path
) -> None:
    thing = THINGS[name](request)
    seen = set()
    for killed_at in count(1):
        state = tmp_path / str(killed_at)
        thing.reset()
        start = thing.now()
        with Journal(state) as journal:
            if verb == "undo":
                thing.calls.apply(journal)
                assert thing.at_target(thing.now())
            killed = was_killed(partial(change, thing.calls, verb, state), killed_at)
            assert not thing.mixed(), killed_at
            thing.finish_or_revert(journal)
            assert all(change.finished for change in journal.changes())
            assert thing.finish_or_revert(journal) is None
        after = thing.now()
        assert after == start or thing.at_target(after), killed_at
        seen.add(after == start)
        if not killed:
            break
    assert killed_at > 5
    assert seen == {True, False}


def test_every_method_of_a_change_is_among_them(request: Request, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for make in (make for name, make in THINGS.items() if name not in LONG):
            thing = make(request)
            thing.reset()
            thing.calls.apply(journal)
            thing.calls.undo(journal)
        assert {one.method for one in journal.changes()} == set(get_args(Method))
