"""Probes against real servers that restart, freeze, go away for good, or do nothing at all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from conftest import PASSWORD, NewCluster

from mrtuner.errors import ConnectError
from mrtuner.postgres.cluster import Cluster
from mrtuner.rehearsal.document import probe_log
from mrtuner.rehearsal.ledger import SCHEMA_PREFIX
from mrtuner.rehearsal.observation import USUAL, Gap, Observation, ProbeKind
from mrtuner.rehearsal.probes import Probes, Schedule
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed

QUICK = Schedule(interval=0.1, timeout=2.0)


def schemas(dsn: str) -> list[str]:
    query = f"SELECT nspname::text FROM pg_namespace WHERE nspname LIKE '{SCHEMA_PREFIX}%'"
    return [row[0] for row in sql(dsn, query)]


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Stop every process of a server without ending it: its kernel still answers."""
    pids = [row[0] for row in sql(cluster.dsn(), "SELECT pid FROM pg_stat_activity")]
    processes = [cluster.pid, *pids]
    for pid in processes:
        signal_to(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            signal_to(pid, signal.SIGCONT)


def signal_to(pid: int | None, number: signal.Signals) -> None:
    assert pid is not None
    with suppress(ProcessLookupError):  # a probe's own session that has ended
        os.kill(pid, number)


def longest(seen: Observation, kind: ProbeKind) -> Gap:
    """The outage itself; on a busy machine there may be a short one beside it."""
    return max(seen.gaps(kind), key=lambda gap: gap.most or float("inf"))


def failed(probes: Probes, kind: ProbeKind, since: float) -> int:
    """How many attempts of a kind, sent since then, have failed so far."""
    found = [one for one in probes.attempts() if one.kind is kind and one.sent > since]
    return sum(not one.answered for one in found)


def test_a_quiet_server_has_no_gap_and_is_left_as_it_was(embedded: Cluster) -> None:
    with Probes(embedded.dsn(), QUICK) as probes:
        assert len(schemas(embedded.dsn())) == 1
        assert probes.wait_until_steady(0.5, patience=60)
        seen = probes.finish()
    assert not seen.restarted
    assert all(one.answered for one in seen.attempts)
    assert seen.ledger is not None
    assert seen.ledger.lost == ()
    assert seen.ledger.acknowledged == seen.ledger.found > 3
    assert {one.kind for one in seen.attempts} == set(USUAL)
    assert schemas(embedded.dsn()) == []


def test_a_restart_is_a_gap_for_every_kind_and_another_start_time(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    with Probes(cluster.dsn(), QUICK) as probes:
        assert probes.wait_until_steady(0.5, patience=60)
        went = probes.now()
        cluster.stop()
        stopped = probes.now()
        until(lambda: all(failed(probes, kind, stopped) > 10 for kind in USUAL if not kind.held))
        cluster.start()
        started = probes.now()
        assert probes.wait_until_steady(0.5, patience=60)
        seen = probes.finish()
    assert seen.restarted
    for kind in USUAL:
        gap = longest(seen, kind)
        assert gap.most is not None
        assert gap.last_answer is not None
        assert gap.answer is not None
        assert went - 0.3 < gap.last_answer < stopped
        assert started - 1 < gap.answer < started + 1
        assert gap.most > 0.9
        assert gap.least >= 0.7
        assert gap.failed >= 7 or kind is ProbeKind.HELD
    assert seen.ledger is not None
    assert seen.ledger.lost == ()
    assert schemas(cluster.dsn()) == []


def test_a_frozen_server_is_seen_to_hang_by_every_client_that_came(new_cluster: NewCluster) -> None:
    """Frozen for 1.5 s with a probe every 0.1 s: about fifteen clients waited, not one."""
    cluster = new_cluster()
    with Probes(cluster.dsn(), QUICK) as probes:
        assert probes.wait_until_steady(0.5, patience=60)
        with frozen(cluster):
            time.sleep(1.5)  # the hang itself
        assert probes.wait_until_steady(0.5, patience=60)
        seen = probes.finish()
    slow = [one for one in seen.attempts if one.kind is ProbeKind.READ and one.latency > 0.3]
    assert len(slow) >= 10
    assert not seen.restarted
    gap = longest(seen, ProbeKind.READ)
    assert gap.most is not None
    assert 1.0 < gap.most < 8.0


def test_a_hang_beyond_patience_is_a_failure_with_its_reason(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    with Probes(cluster.dsn(), Schedule(interval=0.1, timeout=0.7)) as probes:
        assert probes.wait_until_steady(0.5, patience=60)
        began = probes.now()
        with frozen(cluster):
            until(lambda: failed(probes, ProbeKind.HELD, began))
        assert probes.wait_until_steady(0.5, patience=60)
        seen = probes.finish()
    assert "no answer within 0.7 s" in longest(seen, ProbeKind.HELD).errors
    assert seen.skipped == 0


def test_no_more_than_allowed_wait_at_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    schedule = Schedule(interval=0.05, timeout=5, at_once=4, kinds=(ProbeKind.READ,))
    with Probes(cluster.dsn(), schedule) as probes:
        assert probes.wait_until_steady(0.3, patience=60)
        with frozen(cluster):
            time.sleep(1.0)  # twenty attempts come due, of which no more than four may be sent
            meanwhile = probes.now()
        assert probes.wait_until_steady(0.3, patience=60)
        seen = probes.finish()
    assert len([one for one in seen.attempts if one.sent < meanwhile < one.ended]) == 4
    assert seen.skipped >= 10


def test_a_server_that_does_not_come_back_leaves_the_gap_open_and_names_what_is_left(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    with Probes(cluster.dsn(), QUICK) as probes:
        assert probes.wait_until_steady(0.5, patience=60)
        cluster.stop("immediate")
        while probes.wait_until_steady(0.5, patience=0):  # no probe has asked since then
            time.sleep(0.01)
        assert not probes.wait_until_steady(0.5, patience=1.0)
        seen = probes.finish()
    (gap,) = seen.gaps(ProbeKind.READ)
    assert gap.answer is None
    assert seen.ledger is None
    assert seen.left_behind is not None
    cluster.start()
    assert schemas(cluster.dsn()) == [seen.left_behind]


def test_a_server_that_cannot_be_reached_is_said_before_anything_starts() -> None:
    with pytest.raises(ConnectError, match="nothing is listening there"):
        Probes("host=127.0.0.1 port=1 dbname=postgres").__enter__()


def test_a_role_that_may_not_write_is_said_before_anything_starts(embedded: Cluster) -> None:
    sql(embedded.dsn(), "CREATE ROLE probe_reader LOGIN")
    try:
        dsn = embedded.dsn(user="probe_reader")
        with pytest.raises(ConnectError, match="permission denied for database"):
            Probes(dsn, QUICK).__enter__()
        reads = Schedule(interval=0.1, kinds=(ProbeKind.READ, ProbeKind.HELD))
        with Probes(dsn, reads) as probes:
            assert probes.wait_until_steady(0.3, patience=60)
            assert probes.finish().ledger is None
    finally:
        sql(embedded.dsn(), "DROP ROLE probe_reader")


def test_no_password_is_in_what_was_seen(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(listen=True)
    dsn = f"postgresql://postgres:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{cluster.port}/postgres"
    with Probes(dsn, QUICK) as probes:
        assert probes.wait_until_steady(0.3, patience=60)
        sql(cluster.dsn(), "ALTER ROLE postgres PASSWORD 'another'")
        until(lambda: "password authentication failed" in repr(probes.attempts()))
        text = repr(probes) + repr(probes.attempts())
        sql(cluster.dsn(), f"ALTER ROLE postgres PASSWORD '{PASSWORD}'")
        assert probes.wait_until_steady(0.3, patience=60)
        seen = probes.finish()
    text += str(probe_log(seen))
    assert "password authentication failed" in text
    assert PASSWORD not in text
    assert PASSWORD.replace(" ", "%20") not in text
    assert "another" not in text
    assert seen.servers[0].address == "127.0.0.1"


def interrupted(probes: Probes) -> None:
    with probes:
        assert probes.wait_until_steady(0.3, patience=60)
        raise KeyboardInterrupt


def test_an_interruption_during_the_outage_names_the_schema_that_stays(
    new_cluster: NewCluster,
) -> None:
    cluster, told = new_cluster(), list[str]()

    def interrupt() -> None:
        with Probes(cluster.dsn(), QUICK, tell=told.append) as probes:
            assert probes.wait_until_steady(0.3, patience=60)
            cluster.stop("immediate")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    cluster.start()
    (left,) = schemas(cluster.dsn())
    assert told == [f"schema {left} could not be dropped; drop it yourself"]


def test_an_interruption_stops_the_probes_and_drops_the_schema(embedded: Cluster) -> None:
    probes = Probes(embedded.dsn(), QUICK)
    with pytest.raises(KeyboardInterrupt):
        interrupted(probes)
    before = len(probes.attempts())
    time.sleep(0.3)  # three attempts of each kind, if anything still sent them
    assert len(probes.attempts()) == before
    assert schemas(embedded.dsn()) == []
