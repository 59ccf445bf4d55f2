"""Under load, dead rows stay few with our settings and pile up with the defaults."""

from __future__ import annotations

import pytest
from conftest import NewCluster
from vacuum_load import (
    FULL,
    NAP,
    OURS,
    PLAIN,
    Dead,
    Sizes,
    advised,
    build,
    experiment,
    load,
    most,
    report,
    vacuums,
    watch,
)

from mrtuner.vacuum import TableKind

KINDS = {"account": TableKind.LONG_LIVED, "session": TableKind.SHORT_LIVED, "job": TableKind.QUEUE}
#: Sessions count as short-lived if they live over 15 minutes: a million rows, 1,000 a second.
SHORT = Sizes(account=40_000, session=1_000_000, job=40_000, each=100)


@pytest.mark.quiet
@pytest.mark.timed
@pytest.mark.timeout(200)
def test_our_settings_keep_dead_rows_few_where_the_defaults_let_them_pile_up(
    new_cluster: NewCluster,
) -> None:
    """By default 8,050 dead accounts and jobs start a vacuum, and 200,050 dead sessions; with ours
    450, 1,000 and 5,000. A second's nap and the vacuum's own time come on top."""
    settings = {"autovacuum_naptime": "1s", "fsync": "off"}
    dsn = new_cluster(18, settings).dsn()
    build(dsn, SHORT)

    piled: set[str] = set()

    def enough(at: float, now: Dead) -> bool:
        piled.update(name for name in ("account", "job") if now[PLAIN, name][0] > 8_050)
        return at > 60 or (len(piled) == 2 and now[PLAIN, "session"][0] > 12_000)

    with load(dsn, SHORT):
        found = advised(dsn, 3)
        seen = watch(dsn, enough, 0.2)
    assert {name: report(found, name).kind for name in KINDS} == KINDS
    assert piled == {"account", "job"}
    peak, runs = most(seen), vacuums(seen)
    for name in ("account", "job"):
        assert peak[OURS, name] < peak[PLAIN, name]
        assert runs[OURS, name] > runs[PLAIN, name]
    assert (runs[PLAIN, "session"], runs[OURS, "session"] > 0) == (0, True)
    assert peak[OURS, "session"] < peak[PLAIN, "session"]


@pytest.mark.quiet
@pytest.mark.timeout(1200)
def test_over_twelve_minutes_dead_rows_stay_bounded_by_what_was_computed(
    new_cluster: NewCluster,
) -> None:
    """Bounds by hand, at 1,000 dead rows a second: the trigger, a nap of 10 s, and 20 s for the
    vacuum before its figures are seen."""
    dsn = new_cluster(18, {"autovacuum_naptime": f"{NAP}s", "fsync": "off"}).dsn()
    found = {one["name"]: one for one in experiment(dsn)["tables"]}
    assert {name: one["kind"] for name, one in found.items()} == KINDS
    triggers = {"account": (200_050, 10_050), "session": (200_050, 5_000), "job": (60_050, 1_000)}
    for name, (plain, ours) in triggers.items():
        settled = {schema: series[60:] for schema, series in found[name]["series"].items()}
        assert max(settled[PLAIN]) >= plain
        assert max(settled[OURS]) <= ours + 30_000
        assert found[name]["vacuums"][OURS] > found[name]["vacuums"][PLAIN]
    assert FULL.life("session") == 1_000
