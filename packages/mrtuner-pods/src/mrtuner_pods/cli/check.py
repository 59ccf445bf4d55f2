"""`mrtuner pods check`: do the connections of pods fit their database?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mrtuner.answers.targets import TargetKind, instance_named, kind_of
from mrtuner.cli.common import check_option, options, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.errors import BadValue, UsageError
from mrtuner.inputs import Rate
from mrtuner_pods.cli import manifest

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner_pods.connections import Check, Database, Fleet, Given, PgBouncer

Function = TypeVar("Function", bound=Callable[..., Any])

#: The values of --rollout, and the stage that each means.
_STAGES: Final = {
    "none": "at rest", "surge": "surge", "first-step": "first step", "overlap": "overlap",
}  # fmt: skip
#: How far --history looks back [s]: as long as rows are kept as sampled.
_REMEMBERED: Final = 35 * 86_400.0
#: No number of pods or connections is larger.
_MOST: Final = 1_000_000


class Named(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``NAME=VALUE`` for one workload, or ``VALUE`` for all."""

    name = "named"

    def __init__(self, *, number: bool = True, least: int = 0) -> None:
        self.number, self.least = number, least

    def convert(
        self, value: Any, param: click.Parameter | None, _ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Return the name, empty for all, and the value; BadValue for anything else."""
        name, equals, text = str(value).rpartition("=")
        flag = param.opts[0] if param else ""
        if not text or (equals and not name):
            raise BadValue(f"{flag} {value!r} has no value", f"Write {flag} NAME=VALUE.")
        if not self.number:
            return name, text
        if not text.isdigit() or not self.least <= int(text) <= _MOST:
            raise BadValue(
                f"{flag} {value!r} is not a number from {self.least}", f"Write {flag} NAME=5."
            )
        return name, int(text)


def _named(flag: str, text: str, **kind: Any) -> Callable[[Function], Function]:
    usual = "[NAME=]N" if kind.get("number", True) else "[NAME=]FRAMEWORK"
    metavar = kind.pop("metavar", usual)
    return click.option(flag, multiple=True, type=Named(**kind), metavar=metavar, help=text)


_number = click.IntRange(0, _MOST)
_positive = click.IntRange(1, _MOST)

_database_options = options.stacked(
    click.option("--database", metavar="DSN|rds:NAME",
                 help="Read the limits from a running server, or an instance of Amazon RDS."),
    click.option("--max-connections", type=_positive, metavar="N",
                 help="max_connections of the database, if no server can be queried."),
    click.option("--reserved", type=_number, metavar="N",
                 help="Connections that applications cannot use.  [default: the version's]"),
    click.option("--role", metavar="NAME",
                 help="Role that applications connect as, if no connection string names it."),
    click.option("--dbname", metavar="NAME",
                 help="Database that applications use, if no connection string names it."),
    _named("--role-limit",
           "Connection limit of the applications' role, if no server can be queried."),
    _named("--database-limit", "Connection limit of the database, if no server can be queried."),
)  # fmt: skip
_pooler_options = options.stacked(
    click.option("--pgbouncer", metavar="FILE|DSN",
                 help="pgbouncer.ini of the pooler that the applications go through, or the "
                 "console of a running one."),
    click.option("--pooler-pods", type=_positive, metavar="N",
                 help="Pods or machines that run the pooler.  [default: by its manifest, or 1]"),
    click.option("--pooler-surge", type=_number, default=0, metavar="N",
                 help="Pooler pods that a rollout adds, with --pooler-pods.  [default: 0]"),
    click.option("--direct", multiple=True, metavar="NAME",
                 help="Workload that bypasses the pooler; may be repeated."),
)  # fmt: skip
_pods_options = options.stacked(
    click.option("--pods", type=_positive, metavar="N",
                 help="Number of pods, tasks, machines or dynos, if there is no manifest."),
    click.option("--surge", default="25%", metavar="N|SHARE", show_default=True,
                 help="Pods that a rollout adds to --pods."),
    click.option("--unavailable", default="25%", metavar="N|SHARE", show_default=True,
                 help="Pods of --pods that a rollout may stop at once."),
    _named("--workers", "Number of processes in each pod.", least=1),
    _named("--threads", "Number of threads in each process.", least=1),
    _named("--pool", "Connections that a process may open to a database, overflow included."),
    _named("--overflow", "Connections beyond the pool's size."),
    _named("--databases", "Databases that each process has a pool for.", least=1),
    _named("--framework", "Framework whose defaults apply, such as rails, django:5.2 or hikaricp.",
           number=False),
    _named("--runs", "Runs of a CronJob that may overlap."),
    _named("--replicas", "Number of pods, tasks or dynos, whatever the manifest says."),
    _named("--also", "Connections from elsewhere, such as monitoring=3 or migrations=1.",
           metavar="NAME=N"),
    click.option("--nodes", type=_positive, metavar="N",
                 help="Number of nodes: a DaemonSet has a pod on each."),
    click.option("--node-cpus", type=_positive, metavar="N",
                 help="CPUs of a node, from which some runtimes size their pool."),
)  # fmt: skip


@options.command("check")
@click.argument("manifests", nargs=-1, metavar="[MANIFEST]...")
@_database_options
@_pooler_options
@_pods_options
@click.option(
    "--rollout", type=click.Choice(list(_STAGES)), default="overlap", show_default=True,
    help="How many pods of a rollout to count: none, the new ones, the first step, or all old "
    "and new ones.",
)  # fmt: skip
@options.input_option("rate", Rate(help="Requests per second, such as 400/s"))
@click.option(
    "--observe",
    type=targets.ServerArgument(),
    metavar="DSN",
    help="Watch this server's sessions for ten seconds, and compare them with the count.",
)
@options.history_options(
    "Compare the count with the most sessions in 35 days, as recorded by mrtuner record."
)
@options.time_option("--hold", "Time for which a request holds a connection, such as 12ms.")
@options.declared_option("memory", help="Memory of the database server, for the memory budget.")
@options.declared_option("cpus", help="CPUs of the database server, for the memory budget.")
@options.declared_option("workload")
@options.declared_option("postgres")
@click.option("--example", is_flag=True, help="Print the manifest of an example shop.")
@account_options
@check_option.always_checks
@options.json_option
def command(
    manifests: tuple[str, ...],
    rollout: str,
    example: bool,
    check: check_option.Check,
    as_json: bool,
    account: Account,
    **given: Any,
) -> None:
    """Check whether the connections that pods can open fit their database.

    \b
    Examples:
      mrtuner pods check deployment.yaml --max-connections 200
      mrtuner pods check deployment.yaml hpa.yaml --database postgresql://postgres@db/app
      mrtuner pods check deployment.yaml --database rds:orders --pgbouncer pgbouncer.ini
      mrtuner pods check web.yaml --max-connections 200 --pgbouncer postgresql://stats@db:6432
      helm template . | mrtuner pods check - --max-connections 200
      mrtuner pods check --pods 6 --workers 4 --pool 5 --max-connections 200
      mrtuner pods check app.yaml --pool web=5 --also monitoring=3 --max-connections 200
      mrtuner pods check --example > shop.yaml       something to try it on

    MANIFEST is a file of Kubernetes objects, or - for standard input; --pods does without. Every
    pod counts with every connection that its pools allow, while a rollout runs: new pods start
    before terminating ones have gone. Exits with 3 if that does not fit, or if something could
    not be counted and --allow-unknown is not given. Options win over the
    manifest, its connection strings and variables over the defaults of frameworks.
    """
    if example:
        place = files("mrtuner_pods.connections") / "example.yaml"
        terminal.deliver(place.read_text(encoding="utf-8"), None)
        return
    done = _checked(manifests, rollout, account, given)
    from mrtuner_pods.connections import text
    from mrtuner_pods.connections.document import pods_check_document

    told = pods_check_document(done)
    terminal.answer(told, text.check(told), as_json)
    check.conclude(found=done.exceeds, unjudged=done.unjudged)


def _checked(manifests: Sequence[str], rollout: str, account: Account, given: Any) -> Check:
    from mrtuner_pods.connections import RolloutStage, check

    if manifests and given["pods"] is not None:
        raise UsageError("--pods is for use without a manifest", "Leave out one of them.")
    read = manifest.read_all(manifests)
    fleet = _fleet(given) if given["pods"] is not None else None
    pgbouncer = _pgbouncer(given)
    _require(given)
    return check(
        _database(given, account), read,
        fleet=fleet, pgbouncer=pgbouncer, others=_by_name(given["also"], "--also"),
        given=_given(given), direct=given["direct"], stage=RolloutStage(_STAGES[rollout]),
        rate=given["rate"], hold=given["hold"], **_seen(given),
    )  # fmt: skip


# Files.


def _pgbouncer(given: Any) -> PgBouncer | None:
    from mrtuner.files import read_file
    from mrtuner_pods.connections import PgBouncer

    source: str | None = given["pgbouncer"]
    number = {"pods": given["pooler_pods"], "surge": given["pooler_surge"]}
    if source is None:
        if given["pooler_pods"] is not None or given["direct"]:
            raise UsageError("the pooler's settings are not known", "Give --pgbouncer FILE.")
        return None
    if kind_of(source) is TargetKind.SERVER:
        return _running_pgbouncer(source, number)
    try:
        text = read_file(Path(source))
    except UsageError as error:
        hint = "Give the file that PgBouncer is started with, or a connection string."
        raise UsageError(error.message, hint) from error
    return PgBouncer(text=text, name=source, **number)


def _running_pgbouncer(dsn: str, number: dict[str, Any]) -> PgBouncer:
    from mrtuner.postgres.connect import address
    from mrtuner_pods.connections import PgBouncer
    from mrtuner_pods.observed.console import configuration, console, pools_now, shown

    options.warn_of_password(dsn)
    with console(dsn) as connection:
        return PgBouncer(
            text=configuration(connection), name=f"PgBouncer at {address(dsn)}",
            now=pools_now(shown(connection, "POOLS")), **number,
        )  # fmt: skip


# The sessions.


def _seen(given: Any) -> dict[str, Any]:
    """The most sessions in a history, and what the server's sessions and a history's are."""
    found: dict[str, Any] = {"observed": []}
    if given["observe"] is not None:
        from mrtuner_pods.observed import activity

        options.warn_of_password(given["observe"])
        terminal.print_note(f"watching sessions for {activity.WATCHED:g} s")
        found["observed"].append(activity.seen(given["observe"]))
    directory: Path | None = given["history"]
    if directory is None:
        if given["instance"] is not None:
            raise UsageError("--instance requires --history", "Give both, or leave it out.")
        return found
    from mrtuner.answers.recorded import remembered
    from mrtuner.facts import Fact
    from mrtuner.history.analysis.busiest_sessions import most_by_application, most_clients
    from mrtuner_pods.observed.remembered import most_seen

    opened = remembered(directory, given["instance"], since=_REMEMBERED)
    with opened as (history, about):
        most, at, _ = most_clients(history, about)
        applications = [asdict(one) for one in most_by_application(history, about)]
    if most is None or at is None:
        raise UsageError(
            f"the sessions of {about.instance} were not recorded", "Leave out --history."
        )
    found["seen"] = Fact(most, f"{about.instance} in {directory}, {at:%Y-%m-%d %H:%M} UTC")
    found["observed"].append(
        most_seen(applications, f"busy sessions of {about.instance} in {directory}")
    )
    return found


# The database.


def _require(given: Any) -> None:
    """Require one source of the limits, and refuse options that it would not use."""
    if (given["database"] is None) is (given["max_connections"] is None):
        raise UsageError(
            "the database's limits are missing"
            if given["database"] is None
            else "--database and --max-connections exclude each other",
            "Give --database DSN, --database rds:NAME or --max-connections N.",
        )
    if given["database"] is not None:
        for name in ("reserved", "role_limit", "database_limit"):
            if given[name]:
                raise UsageError(
                    f"--{name.replace('_', '-')} is for a database given by numbers",
                    "Leave it out: the server is queried.",
                )


def _database(given: Any, account: Account) -> Database:
    from mrtuner.tuning.gather import flags
    from mrtuner_pods.connections.database import numbers, of_instance, of_server

    target: str | None = given["database"]
    machine = {name: given[name] for name in ("memory", "cpus", "workload", "postgres")}
    if target is None:
        return numbers(
            given["max_connections"], reserved=given["reserved"],
            role_limits=_by_name(given["role_limit"], "--role-limit", empty=True),
            database_limits=_by_name(given["database_limit"], "--database-limit", empty=True),
            **machine,
        )  # fmt: skip
    said = flags(**machine)
    kind = kind_of(target)
    if kind is TargetKind.RDS:
        return of_instance(instance_named(target), said, account)
    if kind not in {TargetKind.SERVER, TargetKind.LOCAL}:
        raise UsageError(
            f"{target} is neither a connection string nor an instance",
            "Write postgresql://host/db, or rds:NAME.",
        )
    from mrtuner.postgres.connect import connect

    options.warn_of_password(target)
    with connect("" if kind is TargetKind.LOCAL else target) as connection:
        return of_server(connection, said)


# Options about pods.


def _by_name(pairs: Sequence[tuple[str, Any]], flag: str, *, empty: bool = False) -> dict[str, Any]:
    """Values by name; UsageError for one that is given twice, or has no name and needs one."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(
                f"{flag} is given twice{f' for {name}' if name else ''}", "Give it once."
            )
        if not name and not empty:
            raise UsageError(f"{flag} {value} has no name", f"Write {flag} NAME={value}.")
        found[name] = value
    return found


_OF_WORKLOADS: Final = ("workers", "threads", "pool", "overflow", "databases", "runs",
                        "replicas", "framework")  # fmt: skip


def _given(given: Any) -> Given:
    from mrtuner_pods.connections import Given

    named = {
        name: _by_name(given[name], f"--{name}", empty=True)
        for name in _OF_WORKLOADS
        if given["pods"] is None
    }
    return Given(
        **named, role=given["role"], dbname=given["dbname"], nodes=given["nodes"],
        node_cpus=given["node_cpus"],
    )  # fmt: skip


def _fleet(given: Any) -> Fleet:
    from mrtuner_pods.connections import Fleet

    if given["runs"] or given["replicas"] or given["nodes"] is not None:
        raise UsageError("--runs, --replicas and --nodes are for manifests", "Leave them out.")
    said = {}
    for name in _OF_WORKLOADS:
        values = _by_name(given[name], f"--{name}", empty=True)
        if set(values) - {""}:
            raise UsageError(
                f"--{name} {next(iter(values))}=… needs a manifest", "Leave out the name."
            )
        if values:
            said[name] = values[""]
    return Fleet(pods=given["pods"], surge=given["surge"], unavailable=given["unavailable"], **said)
