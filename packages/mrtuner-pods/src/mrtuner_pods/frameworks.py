"""What application frameworks open by default: pools of connections, processes, threads.

The facts are in frameworks.json, each with the version it begins with, its source and the kind of
evidence, as for `catalog.timers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from mrtuner.catalog.timers import Evidence
from mrtuner.errors import BadValue

#: What sets the size of a pool: a fixed number, the threads, the CPUs, or nothing (no limit).
PoolRule = Literal["fixed", "per thread", "per cpu", "unbounded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDefault:
    """The pool of one process for one database, from a version on."""

    since: str
    rule: PoolRule
    size: int = 0  # of a fixed pool; with "per cpu", added to the product
    overflow: int = 0  # temporary connections beyond the size
    times: int = 0  # with "per cpu": connections for each CPU
    least: int = 0  # with "per cpu": the smallest pool
    parameters: tuple[str, ...] | None = None  # None: the framework's
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What opens connections in an application, and where the size of its pool is set."""

    name: str
    title: str
    defaults: tuple[PoolDefault, ...]  # oldest first
    variables: tuple[str, ...] = ()  # of the environment, that set the pool
    overflow: tuple[str, ...] = ()  # endings of variables that set the overflow
    parameters: tuple[str, ...] = ()  # of the connection string, that set the pool
    signs: tuple[str, ...] = ()  # variables that only its applications have; a star ends a prefix
    on_demand: bool = False  # a pool opens no more than its threads use at once
    schemes: tuple[str, ...] = ()  # how its connection strings begin
    hints: tuple[str, ...] = ()  # parts that only its connection strings have
    commands: tuple[str, ...] = ()  # programs that only its applications start
    runtimes: tuple[str, ...] = ()  # programs that also run others: a sign only beside a database
    no_limit: tuple[int, ...] = ()  # sizes that stand for no limit, or for no pool at all
    images: tuple[str, ...] = ()  # of its containers, with stars; the surest sign
    needs: tuple[str, ...] = ()  # words on the command line, without which an image is another's
    options: tuple[str, ...] = ()  # on the command line, that set the pool
    processes: int = 1  # of a container, where no application server is known
    workers: int | None = None  # that its own configuration gives a server, where nothing says so
    embedded: bool = False  # it has a database of its own, unless it is told of PostgreSQL
    assumed: bool = False  # a runtime alone does not show it: there may be another pool
    note: str = ""

    def default(self, version: str | None = None) -> PoolDefault:
        """Return the default of a version, else the newest; BadValue if it is older or invalid."""
        if version is None:
            return self.defaults[-1]
        wanted = _numbers(version)
        found = [one for one in self.defaults if _numbers(one.since) <= wanted]
        if not found:
            raise BadValue(
                f"{self.title} {version} is not known",
                f"MrTuner knows it since {self.defaults[0].since}; give --pool.",
            )
        return found[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppServer:
    """What starts an application's processes and threads."""

    name: str
    title: str
    commands: tuple[str, ...]
    processes: int | None  # None: as many as CPUs
    threads: int | None = None  # None: an event loop
    needs: tuple[str, ...] = ()  # words on its command line, without which it is something else
    in_threads: tuple[str, ...] = ()  # classes of worker that are threads of one process
    alone: tuple[str, ...] = ()  # classes of worker that do one thing at a time
    files: tuple[str, ...] = ()  # options that name a file with more options
    note: str = ""
    images: tuple[str, ...] = ()  # that start it where a manifest has no command of it
    more: tuple[Mapping[str, Any], ...] = ()  # processes beside the workers: options, usual number
    uncounted: str = ""  # why its processes are not in a manifest, where nothing says how many
    client: bool = True  # false: it connects to no database
    framework: str | None = None  # what it always serves
    asynchronous: bool = False
    process_variables: tuple[str, ...] = ()
    thread_variables: tuple[str, ...] = ()
    process_options: tuple[str, ...] = ()
    thread_options: tuple[str, ...] = ()
    worker_options: tuple[str, ...] = ()  # that name a class of worker
    arguments: str | None = None  # the variable with more options
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application whose connections depend on more than its manifest says."""

    title: str
    images: tuple[str, ...]
    why: str
    evidence: Evidence
    source: str
    signs: tuple[str, ...] = ()  # variables that only it has


@cache
def _table() -> Any:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


@cache
def frameworks() -> Mapping[str, Framework]:
    rows: dict[str, dict[str, Any]] = _table()["frameworks"]
    return MappingProxyType({name: _framework(name, row) for name, row in rows.items()})


def framework(name: str) -> Framework:
    """Return a framework; BadValue for an unknown name."""
    known = frameworks()
    if name not in known:
        raise BadValue(
            f"unknown framework {name!r}", f"Known: {', '.join(known)}. Others: give --pool."
        )
    return known[name]


@cache
def app_servers() -> Mapping[str, AppServer]:
    rows: dict[str, dict[str, Any]] = _table()["servers"]
    return MappingProxyType(
        {name: AppServer(name=name, **_tuples(row)) for name, row in rows.items()}
    )


@cache
def uncounted() -> tuple[Application, ...]:
    """Return the applications that connect to PostgreSQL, by how many connections is not known."""
    return tuple(Application(**_tuples(row)) for row in _table()["uncounted"])


def _framework(name: str, row: dict[str, Any]) -> Framework:
    defaults = tuple(PoolDefault(**_tuples(one)) for one in row["defaults"])
    return Framework(name=name, **{**_tuples(row), "defaults": defaults})


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version for comparison: 7.1 is (7, 1)."""
    parts = version.removeprefix("v").split(".")
    if not all(part.isdigit() for part in parts):
        raise BadValue(f"{version!r} is not a version", "Write it as in rails:7.1.")
    return tuple(map(int, parts))
