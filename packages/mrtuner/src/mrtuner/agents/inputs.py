"""What an agent may say to each tool; anything else is refused."""

from __future__ import annotations

from typing import Annotated

from mrtuner.documents import Doc, Meta, Struct, field


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Nothing but what a tool names."""


class Page(Inputs, kw_only=True):
    """Which part of a long answer."""

    after: Annotated[int, Meta(ge=0), Doc("skip so many entries: `next` of the answer before")] = 0
    most: Annotated[int, Meta(ge=1, le=500), Doc("return at most so many entries")] = 50


class OfServer(Page, kw_only=True):
    """One of the servers that `servers` lists."""

    server: Annotated[str | None, Doc("its name; may be left out if there is only one")] = None


class CheckInputs(OfServer, kw_only=True):
    """What to check."""

    skip: Annotated[list[str], Doc("ids of checks to leave out")] = field(default_factory=list)
    memory: Annotated[str | None, Doc("of its machine, such as 16GB, if elsewhere")] = None
    history: Annotated[bool, Doc("also judge its last day in the history, if it is there")] = False


class TuneInputs(OfServer, kw_only=True):
    """What is known of the server's machine, if it is another than this one."""

    memory: Annotated[str | None, Doc("such as 16GB")] = None
    cpus: Annotated[int | None, Doc("CPUs")] = None
    storage: Annotated[str | None, Doc("hdd, ssd, nvme, ebs, network or overlay")] = None
    workload: Annotated[str | None, Doc("web, oltp, olap, mixed or desktop")] = None


class ExplainInputs(Inputs, kw_only=True):
    """What to explain."""

    name: Annotated[str, Doc("a parameter such as work_mem")]
    postgres: Annotated[int | None, Doc("the major version")] = None


class ExplainCheckInputs(Inputs, kw_only=True):
    """What to explain."""

    id: Annotated[str, Doc("the id of a check, such as lock-queue")]


class PlansInputs(OfServer, kw_only=True):
    """Of which statements the plans are compared."""

    statements: Annotated[int, Doc("so many, the most expensive ones")] = 20


class PeriodInputs(Page, kw_only=True):
    """A period of a recorded server."""

    instance: Annotated[str | None, Doc("its name in the history")] = None
    since: Annotated[str, Doc("length of the period before the last sample: 1h, 7d")] = "1h"


class QueryInputs(Page, kw_only=True):
    """A question to the history."""

    sql: Annotated[str, Doc("one SELECT, in DuckDB's dialect")]


class ViewsInputs(Page, kw_only=True):
    """What the history can be asked for."""

    view: Annotated[str | None, Doc("its columns; without it, all views")] = None


class FailoverInputs(Inputs, kw_only=True):
    """A client, as far as it is not libpq with its defaults on this machine."""

    client: Annotated[str, Doc("driver or pooler: libpq, psycopg, pgjdbc, pgx, pgbouncer, …")] = (
        "libpq"
    )
    rtt: Annotated[str | None, Doc("round trip to the server, such as 1ms")] = None
    user_timeout: Annotated[str | None, Doc("TCP_USER_TIMEOUT, such as 10s")] = None
    read_timeout: Annotated[str | None, Doc("the client's own limit on waiting")] = None
