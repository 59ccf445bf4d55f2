"""From pods to connections: does the application fit its database?

    manifest ─ workloads ─ pools ─▶ Workload       pods, and what each opens, with where it was read
    pgbouncer ─▶ Pooler     database ─▶ Database   what is in between, and what is admitted
    judge ─▶ Check          remedies               the limit exceeded first, and three ways to fit

Start with ``check``:

    from mrtuner_pods.connections import check, numbers, Fleet

    answer = check(numbers(max_connections=100), fleet=Fleet(pods=6, pool=17))
    answer.fits, answer.reachable()                # (False, 204)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mrtuner.errors import UsageError
from mrtuner.facts import Fact, Missing
from mrtuner_pods.connections.compared import compared
from mrtuner_pods.connections.container.container import Container
from mrtuner_pods.connections.container.pools import pools
from mrtuner_pods.connections.database import Database, numbers
from mrtuner_pods.connections.formats import resources
from mrtuner_pods.connections.given import Given
from mrtuner_pods.connections.judge import Check, judge
from mrtuner_pods.connections.model import Other, Pooler, Rollout, RolloutStage, Workload
from mrtuner_pods.connections.pgbouncer import pooler as read_pooler
from mrtuner_pods.connections.rollouts import rollout
from mrtuner_pods.connections.workloads import Gathered, gather, refuse_unknown
from mrtuner_pods.observed.model import PoolerPool, SessionsSeen

__all__ = [
    "Check",
    "Database",
    "Fleet",
    "Given",
    "Manifest",
    "Other",
    "PgBouncer",
    "RolloutStage",
    "check",
    "numbers",
]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The text of a manifest, and the name of its file."""

    text: str
    name: str = "manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Pods, tasks, units or dynos that are alike, without any manifest."""

    pods: int
    workers: int | None = None  # processes in each
    threads: int | None = None
    pool: int | None = None  # of one process and database
    overflow: int | None = None
    databases: int | None = None
    framework: str | None = None  # rails, django:5.2, …
    surge: str = "25%"  # pods that a rollout adds, or a share
    unavailable: str = "25%"  # that it takes away at once
    name: str = "pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class PgBouncer:
    """The text of a pgbouncer.ini, and how many pods run it where no manifest says so.

    `now` is what the pools of a running PgBouncer do; None: it was not asked. Else `text` has the
    settings in force, but no database that `*` serves.
    """

    text: str
    name: str = "pgbouncer.ini"
    pods: int | None = None
    surge: int = 0
    now: tuple[PoolerPool, ...] | None = None


def check(
    database: Database, manifests: Sequence[Manifest] = (), *,
    fleet: Fleet | None = None, pgbouncer: PgBouncer | None = None,
    others: Mapping[str, int] | None = None, given: Given | None = None,
    direct: Sequence[str] = (), stage: RolloutStage = RolloutStage.OVERLAP,
    rate: float | None = None, hold: float | None = None, seen: Fact[int] | None = None,
    observed: Sequence[SessionsSeen] = (),
) -> Check:  # fmt: skip
    """Add up the connections that can be reached, and compare them with what is admitted.

    `others` are connections from elsewhere by name: monitoring, migrations. `direct` names
    workloads that avoid the pooler. `rate` [1/s] and `hold` [s] give what is expected: requests a
    second, and how long each holds a connection. `given` overrides what manifests say. `seen`
    is the most sessions of the server that a history recorded; `observed` are its sessions by
    application, which are compared with what was counted.

    Raises BadValue for a manifest or a file that cannot be used, for an unknown workload, and where
    a pool cannot be known; UsageError if there is nothing to check, or only one of `rate` and
    `hold` is given.
    """
    if (rate is None) is not (hold is None):
        raise UsageError(
            "--rate and --hold require each other",
            "Give --rate 400/s --hold 12ms: requests, and how long each holds a connection.",
        )
    given = given or Given()
    found = gather(
        [one for manifest in manifests for one in resources(manifest.text, manifest.name)], given
    )
    if fleet is not None:
        _add_fleet(fleet, given, found)
    refuse_unknown(direct, found.workloads)
    if not found.workloads and not found.poolers and not found.unjudged and not others:
        raise UsageError(
            "nothing there connects to a database",
            "Give manifests with a database in their environment, or --pods N --pool N.",
        )
    expected = None
    if rate is not None and hold is not None:
        expected = Fact(rate * hold, f"{rate:g} requests a second x {hold:g} s")
    done = judge(
        found.workloads, database,
        others=[*found.others, *_others(others or {})],
        pooler=_pooler(pgbouncer, found, frozenset(direct), database.host),
        direct=frozenset(direct), stage=stage, expected=expected, seen=seen,
        notes=found.notes, warnings=found.warnings, unjudged=found.unjudged,
    )  # fmt: skip
    for sessions in observed:
        rows, unsure = compared(done, sessions)
        done = replace(done, compared=(*done.compared, *rows), unjudged=(*done.unjudged, *unsure))
    return done


def _others(others: Mapping[str, int]) -> list[Other]:
    return [
        Other(name=name, connections=Fact(number, f"--also {name}={number}"))
        for name, number in others.items()
    ]


def _add_fleet(fleet: Fleet, given: Given, found: Gathered) -> None:
    values: dict[str, Any] = {
        name: {fleet.name: value}
        for name in ("workers", "threads", "pool", "overflow", "databases", "framework")
        if (value := getattr(fleet, name)) is not None
    }
    said = Given(role=given.role, dbname=given.dbname, node_cpus=given.node_cpus, **values)
    inside = pools(Container(workload=fleet.name, name="each", where="options"), said)
    if not inside.pools:
        if inside.unjudged:
            raise UsageError(inside.unjudged[0].why, inside.unjudged[0].hint)
        raise UsageError(
            "the pool of the pods is missing", "Give --pool N, or --framework rails and the like."
        )
    found.notes += inside.notes
    found.warnings += inside.warnings
    found.workloads.append(
        Workload(
            name=fleet.name,
            kind="pods",
            where="options",
            rollout=rollout(
                Fact(fleet.pods, f"--pods {fleet.pods}"),
                Fact(fleet.surge, "--surge"),
                Fact(fleet.unavailable, "--unavailable"),
            ),
            pools=tuple(inside.pools),
        )
    )


def _pooler(
    pgbouncer: PgBouncer | None, found: Gathered, direct: frozenset[str], server: str | None
) -> Pooler | None:
    if pgbouncer is None and found.poolers and found.configurations:
        text, name = found.configurations[0]
        pgbouncer = PgBouncer(text=text, name=name)
        found.unjudged += found.unread.get(name, [])
    if pgbouncer is None:
        found.unjudged += [
            Missing(
                one.name, "it is PgBouncer, but its configuration is missing: applications are "
                "counted as if they bypassed it", option="--pgbouncer FILE",
            )
            for one in found.poolers
        ]  # fmt: skip
        return None
    used = found.poolers[0].name if found.poolers else ""
    for other in found.poolers[1:]:
        why = f"{used} is taken for the pooler of every workload, and this one is not counted"
        found.unjudged.append(Missing(f"pooler {other.name}", why, hint="check it separately"))
    through = [one for one in found.workloads if one.name not in direct]
    rollout = _rollout_of(pgbouncer, found)
    made = read_pooler(
        pgbouncer.text, pgbouncer.name, rollout, through, waits=found.waits, server=server,
        running=pgbouncer.now is not None,
    )  # fmt: skip
    return replace(made, now=pgbouncer.now or (), names=frozenset(found.names))


def _rollout_of(pgbouncer: PgBouncer, found: Gathered) -> Rollout:
    if pgbouncer.pods is None and found.poolers:
        return found.poolers[0].rollout
    pods = pgbouncer.pods or 1
    source = f"--pooler-pods {pods}" if pgbouncer.pods else "one pooler is assumed"
    surge = Fact(pgbouncer.surge, f"--pooler-surge {pgbouncer.surge}")
    return Rollout(desired=Fact(pods, source), surge=surge, unavailable=Fact(0, "not counted"))
