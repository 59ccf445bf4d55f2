"""Figures of a load from elsewhere: Prometheus, pg_stat_activity, PgBouncer, a history, a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, targets, terminal
from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from mrtuner_pods.observed import Observed

#: How far --history looks back [s]: as long as sessions are kept as sampled.
_REMEMBERED: Final = 7 * 86_400.0
_UNITS: Final = ("s", "ms", "us", "ns")
_file = click.Path(path_type=Path, dir_okay=False)

#: The sources that `pods plan` can observe; the names are those that `observed` takes.
observing_options = options.stacked(
    click.option("--prometheus", multiple=True, metavar="FILE|URL",
                 help="Take service times, rate and CPU time from a Prometheus server (the busiest "
                 "five minutes), or from what the application exposes; give two files as "
                 "two readings."),
    click.option("--metric", metavar="SELECTOR",
                 help="Metric of the service times, such as 'NAME{job=\"web\"}'.  "
                 "[default: the first known one]"),
    click.option("--metric-unit", type=click.Choice(_UNITS),
                 help="Unit of --metric.  [default: as its name says]"),
    options.time_option("--over", "Time between two readings of an application [60s]; of a "
                        "Prometheus server, how far to look back for the busiest minutes [1d].",
                        most=365 * 86_400.0),
    click.option("--activity", type=targets.ServerArgument(), metavar="DSN",
                 help="Watch this server's sessions for ten seconds: time in the database."),
    click.option("--application", metavar="NAME",
                 help="application_name of the sessions that serve these requests."),
    click.option("--pgbouncer", type=targets.ServerArgument(), metavar="DSN",
                 help="Watch this PgBouncer's counters for ten seconds: time in the database."),
    options.history_options("Take the busiest five minutes of the last seven days from the "
                            "sessions that mrtuner record kept here."),
    click.option("--request-start", type=_file, metavar="FILE",
                 help="Log of X-Request-Start and times of receipt: the measured wait."),
)  # fmt: skip
NAMES: Final = (
    "prometheus", "metric", "metric_unit", "over", "activity", "application", "pgbouncer",
    "history", "instance", "request_start",
)  # fmt: skip


def observed(given: dict[str, Any], rate: float | None) -> Observed | None:
    """Return what was observed; None if no source was given. `rate` is the given one [1/s].

    Raises the errors of the sources, and UsageError for an option without its source.
    """
    from mrtuner_pods.observed import together

    _require_sources(given)
    found = list(_sources(given, rate))
    return together(found) if found else None


def _require_sources(given: dict[str, Any]) -> None:
    belong = {
        "metric": ("prometheus",), "metric_unit": ("prometheus",), "over": ("prometheus",),
        "application": ("activity", "history"), "instance": ("history",),
    }  # fmt: skip
    for name, sources in belong.items():
        if given[name] is not None and not any(given[source] for source in sources):
            wanted = " or ".join(f"--{source}" for source in sources)
            raise UsageError(
                f"--{name.replace('_', '-')} requires {wanted}", "Give both, or leave it out."
            )


def _sources(given: dict[str, Any], rate: float | None) -> Iterator[Observed]:
    if given["prometheus"]:
        seen = _of_prometheus(given)
        rate = rate or (seen.rate.value if seen.rate is not None else None)
        yield seen
    if given["pgbouncer"] is not None:
        from mrtuner_pods.observed import console

        options.warn_of_password(given["pgbouncer"])
        terminal.print_note(f"watching PgBouncer for {console.WATCHED:g} s")
        yield console.watched(given["pgbouncer"], rate=rate)
    if given["activity"] is not None:
        from mrtuner_pods.observed import activity

        options.warn_of_password(given["activity"])
        terminal.print_note(f"watching sessions for {activity.WATCHED:g} s")
        yield activity.watched(given["activity"], rate=rate, application=given["application"])
    if given["history"] is not None:
        yield _of_history(given, rate)
    if given["request_start"] is not None:
        from mrtuner.files import read_file
        from mrtuner_pods.observed import waited

        yield waited(read_file(given["request_start"]), str(given["request_start"]))


def _of_prometheus(given: dict[str, Any]) -> Observed:
    sources: tuple[str, ...] = given["prometheus"]
    selected = {"metric": given["metric"], "unit": given["metric_unit"]}
    if any("://" in one for one in sources):
        from mrtuner_pods.observed.prometheus_server import of_url

        if len(sources) > 1:
            raise UsageError("several addresses of Prometheus", "Give one, or two files.")
        terminal.print_note("asking Prometheus; an application's own metrics are read twice")
        return of_url(sources[0], over=given["over"], **selected)
    from mrtuner.files import read_file
    from mrtuner_pods.observed import of_texts

    if len(sources) > 2:
        raise UsageError(f"{len(sources)} readings of Prometheus", "Give one file, or two.")
    if len(sources) == 2 and given["over"] is None:
        raise UsageError("the time between the two readings is not known", "Give it: --over 60s.")
    texts = [read_file(Path(one)) for one in sources]
    return of_texts(texts, " and ".join(sources), apart=given["over"], **selected)


def _of_history(given: dict[str, Any], rate: float | None) -> Observed:
    from mrtuner.answers.recorded import remembered
    from mrtuner.history.analysis.busiest_sessions import busiest_sessions
    from mrtuner_pods.observed.remembered import of_sessions

    directory, application = given["history"], given["application"]
    opened = remembered(directory, given["instance"], since=_REMEMBERED)
    with opened as (history, about):
        found = asdict(busiest_sessions(history, about, application))
        where = f"{about.instance} in {directory}"
    return of_sessions(**found, rate=rate, application=application, where=where)
