"""Two deployments of examples/pods under load, as they are and as `mrtuner pods plan` has them.

    python bench/pods_before_after.py                  # some eight minutes, on an idle machine
    python bench/pods_before_after.py --seconds 3      # whether it works
    python bench/pods_before_after.py --write docs     # and keep it; then python -m docs.generate

Each state starts the real application server once for each pod, under the pod's CPU limit, with its
configuration and variables (the example's own, then what the plan writes), with PostgreSQL behind
it. It serves the example's own application, in Django or in Rails, whose requests use CPU time, ask
the database and sleep for as long as the load says. They are sent at random times whether earlier
ones were answered or not, and waiting is counted from the intended start. Needs root and control
groups of version 1, what application_servers.py says, and Rails:

    apt-get install ruby-railties ruby-activerecord
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for docs.generate_pods, which has the tables

import database_pooled
from application_servers import (
    APPS,
    Client,
    cpu_used,
    group_of,
    missing,
    pods,
    renewals,
    run_precisely,
)

from docs import generate_pods
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner_pods.planning import Plan, plan
from mrtuner_pods.planning.servers import Server
from mrtuner_pods.waiting.cpu import PERIOD
from mrtuner_pods.waiting.queues import Layout, quantile, settled
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import Times, arrivals
from mrtuner_pods.waiting.stages import Site, Work, simulate

EXAMPLES = APPS.parents[1] / "examples/pods"
TARGET = "30ms"
#: A client that sends 5 % of the requests later than this shares the CPUs with something else: such
#: figures are not kept [ms].
MOST_LATE = 3.0


@dataclass(frozen=True, kw_only=True)
class Application:
    """An example and its load; times in ms."""

    name: str
    server: Server
    file: str  # of its configuration
    rate: float  # a second
    service: float
    cpu: float
    database: float
    #: What the plan is given: includes what framework and server need, as measured here.
    whole_service: float
    whole_cpu: float
    app: str  # in its folder, what the server serves
    framework: str
    structure: str | None = None  # of its database: SQL, in its folder

    @property
    def folder(self) -> Path:
        return EXAMPLES / self.name

    @property
    def missing(self) -> str | None:
        """Why the example cannot run here; None if it can."""
        lacks = missing(self.server) or database_pooled.missing()
        if lacks is None and self.framework == "Rails" and rails_version() is None:
            return "Rails is not installed (apt-get install ruby-railties ruby-activerecord)"
        return lacks

    @property
    def written_in(self) -> str:
        """The framework with its version."""
        known = rails_version() if self.framework == "Rails" else version(self.framework)
        return f"{self.framework} {known}"

    @property
    def work(self) -> Work:
        return Work(cpu=self.cpu / self.service, database=self.database / self.service)

    def planned(self, now: Layout) -> Plan:
        """Return the plan that the how-to asks for."""
        return plan(
            rate=f"{self.rate}/s", service_time=f"{self.whole_service}ms",
            cpu_time=f"{self.whole_cpu}ms", database_time=f"{self.database}ms",
            wait_p95=TARGET, server=self.server,
            now=f"{now.pods}x{now.workers}x{now.threads}",
        )  # fmt: skip


APPLICATIONS = (
    Application(name="django", server=Server.GUNICORN, file="gunicorn.conf.py", rate=50,
                service=80, cpu=6, database=40, whole_service=83, whole_cpu=8,
                app="catalog.wsgi", framework="Django"),
    Application(name="rails", server=Server.PUMA, file="config/puma.rb", rate=45,
                service=80, cpu=10, database=40, whole_service=86, whole_cpu=13,
                app="config.ru", framework="Rails", structure="db/structure.sql"),
)  # fmt: skip


def rails_version() -> str | None:
    """Return the version of Rails; None if it is not installed."""
    asked = 'require "rails/version"; require "active_record/version"; print Rails.version'
    try:
        done = subprocess.run(["ruby", "-e", asked], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


@dataclass(frozen=True, kw_only=True)
class State:
    """A deployment that is started and put under load."""

    name: str
    layout: Layout
    limit: float | None  # CPUs of a pod
    configuration: str
    environment: Mapping[str, str]
    routing: Routing = Routing.RANDOM
    pooler: int | None = None
    pgbouncer: str = ""  # its settings


def states(application: Application) -> Iterator[State]:
    environment, pods_now, limit = manifest(application.folder / "deployment.yaml")
    threads = int(environment.get("RAILS_MAX_THREADS", "1"))
    now = application.server.facts.layout(pods_now, int(environment["WEB_CONCURRENCY"]), threads)
    before = State(
        name="before", layout=now, limit=limit, environment=environment,
        configuration=(application.folder / application.file).read_text(),
    )  # fmt: skip
    made = application.planned(now)
    after = State(
        name="as planned", layout=made.layout, limit=made.cpu.limit,
        environment=environment | variables(made.render("kubernetes")),
        configuration=made.render("puma" if application.server == Server.PUMA else "gunicorn"),
    )  # fmt: skip
    yield before
    yield replace(before, name="other routing", routing=Routing.LEAST_CONNECTIONS)
    yield after
    yield replace(
        after, name="as planned, PgBouncer", pooler=made.connections.server_connections,
        pgbouncer=made.render("pgbouncer"),
    )  # fmt: skip


def manifest(file: Path) -> tuple[dict[str, str], int, float]:
    """Return the container's environment, the replicas and the CPU limit of a manifest."""
    import yaml

    text = file.read_text()
    environment, spec = variables(text), yaml.safe_load(text)["spec"]
    del environment["DATABASE_URL"]  # replaced by that of our own server
    (container,) = spec["template"]["spec"]["containers"]
    limit = re.fullmatch(r"(\d+)m", container["resources"]["limits"]["cpu"])
    assert limit is not None
    return environment, spec["replicas"], int(limit[1]) / 1000


def variables(manifest: str) -> dict[str, str]:
    """Return the variables of the only container of a manifest or a patch; secrets are random."""
    import yaml

    (container,) = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", secrets.token_hex(64)) for one in container["env"]}


def measured(application: Application, state: State, seconds: float) -> dict[str, Any]:
    layout = state.layout
    with ExitStack() as stack:
        cluster = stack.enter_context(database_pooled.database(layout.slots))
        url = prepared(application, cluster)
        if state.pooler is not None:
            url = stack.enter_context(database_pooled.pgbouncer(cluster, state.pgbouncer))
        environment = {**state.environment, "DATABASE_URL": url}
        ports = stack.enter_context(
            pods(application.server, state.configuration, layout.pods, quota=state.limit,
                 environment=environment, serving=(application.folder, application.app))
        )  # fmt: skip
        return run_precisely(_loaded(application, state, ports, cluster, seconds))


def prepared(application: Application, cluster: Cluster) -> str:
    """Create what the application needs in the database; return its URL."""
    if application.structure is not None:
        with connect(cluster.dsn(), own_search_path=True) as session:
            session.execute((application.folder / application.structure).read_bytes())
    return database_pooled.url(cluster)


async def _loaded(
    application: Application, state: State, ports: Sequence[int], cluster: Cluster, seconds: float
) -> dict[str, Any]:
    layout, work, chance = state.layout, application.work, Random(f"load of {application.name}")
    first = Client(ports, state.routing, work, Random())
    await first.warm_up(layout.pods * layout.workers)
    overhead = await first.alone(application.service / 1000, 40)
    count = round(application.rate * seconds)
    arriving = arrivals(application.rate, count, chance)
    lengths = Times(mean=application.service / 1000).draw(chance, count)
    services = [length + overhead for length in lengths]
    each = Client(ports, Routing.ROUND_ROBIN, work, Random())
    await each.run([0.0] * layout.pods, [0.01] * layout.pods)
    groups = [group_of(port) for port in ports]
    renewed = renewals(groups)
    client = Client(ports, state.routing, work, Random("routing"))
    before = sum(map(cpu_used, groups))
    served = await client.run(arriving, lengths)
    cpu = (sum(map(cpu_used, groups)) - before) / count
    mean = application.service / 1000 + overhead
    spent = Work(cpu=cpu / mean, database=application.database / 1000 / mean)
    facts = application.server.facts
    site = Site(
        layout=layout, routing=state.routing, quota=state.limit, pooler=state.pooler,
        turn=facts.turn, hands_over=facts.hands_over,
        renewals=tuple((one - client.began) % PERIOD or PERIOD for one in renewed),
    )  # fmt: skip
    simulated = simulate(arriving, services, site, spent, Random("routing"))
    waited = [one.took - service for one, service in zip(served, services, strict=True)]
    return {
        "state": state.name,
        "pods": layout.pods, "workers": layout.workers, "threads": layout.threads,
        "routing": state.routing, "limit": state.limit, "pooler": state.pooler,
        "requests": count, "overhead_ms": overhead * 1000, "cpu_ms": cpu * 1000,
        "waited_ms": _percentiles(waited), "simulated_ms": _percentiles(simulated.total),
        "took_ms": _percentiles([one.took for one in served]),
        "late_ms": _percentiles([one.sent for one in served]),
        "connections": _connections(cluster),
    }  # fmt: skip


def _percentiles(seconds: Sequence[float]) -> list[float]:
    """Return the percentiles from 0 to 99 % [ms]."""
    kept = settled(seconds)
    return [round(1000 * max(0.0, quantile(kept, share / 100)), 2) for share in range(100)]


def _connections(cluster: Cluster) -> int:
    with connect(cluster.dsn()) as session:
        row = session.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
        assert row is not None
        return int(row[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--only", choices=[one.name for one in APPLICATIONS])
    parser.add_argument("--write", type=Path, metavar="DIR")
    given = parser.parse_args()
    for application in APPLICATIONS:
        if given.only not in {None, application.name}:
            continue
        if application.missing:
            print(f"skipped: {application.name}: {application.missing}", file=sys.stderr)
            continue
        found = [measured(application, state, given.seconds) for state in states(application)]
        late = max(one["late_ms"][95] for one in found)
        told = {
            "name": application.name, "server": application.server.facts.title,
            "framework": application.written_in,
            "rate": application.rate, "service_ms": application.service, "cpu_ms": application.cpu,
            "database_ms": application.database, "seconds": given.seconds, "late_ms": late,
            "cpus": os.cpu_count(), "linux": platform.release().partition("-")[0], "states": found,
        }  # fmt: skip
        print("\n".join(generate_pods.section(told)), flush=True)
        if late > MOST_LATE:
            print(f"busy: the client was late by {late:.1f} ms; nothing is kept", file=sys.stderr)
        elif given.write is not None:
            file = given.write / f"pods-{application.name}.json"
            file.write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
